"""What a person sees: console tables and the HTML page."""

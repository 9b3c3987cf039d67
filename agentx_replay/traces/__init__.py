"""What was recorded: readers, the session model, corpora and their statistics."""

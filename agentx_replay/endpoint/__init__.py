"""The wire: connections, the token tap, one module an API."""

"""A modelled engine with a real prefix cache behind an OpenAI-compatible server."""

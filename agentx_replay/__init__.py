"""Replay recorded coding-agent sessions against an OpenAI-compatible endpoint and measure it."""

__version__ = "0.1.0"

"""Recorded lengths and blocks to message arrays to JSON bytes."""

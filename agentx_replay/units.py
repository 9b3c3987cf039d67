"""Factors between units of time."""

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000

"""A level's mark: a random text in its ``point.json`` and in the metadata of each of its records.

Salt, plan and names may be equal in two runs; marks are not. Not for: what a file of another
level means (``record_check.py``).
"""

import secrets
from pathlib import Path

import orjson

from agentx_replay.results.layout import point_file

_BYTES = 8


def new_mark() -> str:
    """Return the mark of a level that begins."""
    return secrets.token_hex(_BYTES)


def mark_of(point: Path) -> str | None:
    """Return the mark in a level's own ``point.json``; None where an older version wrote it, or
    nobody yet.
    """
    try:
        found: str | None = orjson.loads(point_file(point).read_bytes()).get("mark")
    except FileNotFoundError:
        return None
    return found

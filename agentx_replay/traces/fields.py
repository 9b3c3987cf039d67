"""Reading one JSON object of a trace file field by field, with complaints that name the place.

This module knows types and ranges, not what a trace means: which fields there are is in
``weka.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentx_replay.errors import UsageError

MOST_TOKENS = 2**31 - 1
"""No count of tokens may be larger: block numbers are int32."""

MOST_SECONDS = 1e11
"""No time may be larger: beyond it, nanoseconds would not fit in 64 bits with a margin."""

WAY_OUT = "correct the file, or leave bad files out with --skip-bad"

_EMPTY: tuple[object, ...] = ("", [])
"""What some recordings write, besides null, where a number is not known."""

_SHOWN_CHARACTERS = 40


def bad_trace(source: str, complaint: str) -> UsageError:
    """Return the error for a trace ``source`` (a file, or a file and a line) that is unusable."""
    return UsageError("trace-malformed", f"{source}: {complaint}", WAY_OUT)


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object: where it stands (``place``, empty for the file's own) and its values."""

    source: str
    place: str
    values: dict[str, Any]

    def whole(
        self, key: str, *, least: int = 0, most: int = MOST_TOKENS, default: int | None = None
    ) -> int:
        """Return a whole number from ``least`` to ``most``; ``default`` if it is absent."""
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if type(value) is not int or not least <= value <= most:
            raise self.bad(key, f"a whole number from {least} to {most}")
        return value

    def seconds(self, key: str) -> float:
        """Return a time of at least 0 s."""
        value = self.optional_number(key)
        if value is None:
            raise self.bad(key, "a number")
        return value

    def optional_number(self, key: str) -> float | None:
        """Return a number of at least 0, or None where the recording has none."""
        value = self.values.get(key)
        if value is None or value in _EMPTY:
            return None
        if type(value) not in (int, float) or not 0 <= value <= MOST_SECONDS:
            raise self.bad(key, f"a number from 0 to {MOST_SECONDS:g}")
        return float(value)

    def text(self, key: str) -> str:
        """Return a string, empty where the recording has none."""
        value = self.values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.bad(key, "a string")
        return value

    def objects(self, key: str) -> list[Fields]:
        """Return a list of objects, each placed as ``key[index]``."""
        value = self.values.get(key)
        if not isinstance(value, list):
            raise self.bad(key, "a list")
        return [self._object(f"{self.name(key)}[{i}]", item) for i, item in enumerate(value)]

    def _object(self, place: str, item: object) -> Fields:
        if not isinstance(item, dict):
            raise bad_trace(self.source, f"{place} is {shown(item)}, not an object")
        return Fields(self.source, place, item)

    def name(self, key: str) -> str:
        """Return the full name of a field, such as ``requests[3].in``."""
        return f"{self.place}.{key}" if self.place else key

    def bad(self, key: str, wanted: str) -> UsageError:
        """Return the error for a field that is not what was ``wanted``."""
        if key not in self.values:
            return bad_trace(self.source, f"{self.name(key)} is missing, {wanted} is needed")
        return bad_trace(
            self.source, f"{self.name(key)} is {shown(self.values[key])}, not {wanted}"
        )


def shown(value: object) -> str:
    """Return a value as a message may show it: one line, cut short."""
    if isinstance(value, dict | list):
        return f"a{'n object' if isinstance(value, dict) else ' list'} of {len(value)}"
    text = "null" if value is None else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"

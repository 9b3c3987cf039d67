"""One JSON object of a trace file, read field by field; errors name the field and its value.

Types and ranges only: which fields there are is in ``weka.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentx_replay.errors import UsageError, shown

MOST_TOKENS = 2**31 - 1
"""Block numbers are int32."""

MOST_SECONDS = 1e11
"""Beyond it, nanoseconds would not fit in 64 bits with a margin."""

_UNKNOWN_NUMBER: tuple[object, ...] = ("", [])
"""What some recordings write, besides null, for a number that is not known."""


def bad_trace(source: str, complaint: str) -> UsageError:
    """Return the error for a trace ``source`` (a file, or a file and a line) that is unusable."""
    way_out = "correct the file, or leave bad files out with --skip-bad"
    return UsageError("trace-malformed", f"{source}: {complaint}", way_out)


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object and its ``place`` in the file (empty for the file's own object).

    A null is an absent field: tables have a column for a field that only some rows have.
    """

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
        if type(value) is float and value.is_integer():
            value = int(value)  # pandas turns a column with gaps into floats
        if type(value) is not int or not least <= value <= most:
            raise self.bad(key, f"a whole number from {least} to {most}")
        return value

    def seconds(self, key: str) -> float:
        """Return a number of at least 0."""
        value = self.optional_number(key)
        if value is None:
            raise self.bad(key, "a number")
        return value

    def optional_number(self, key: str) -> float | None:
        """Return a number of at least 0, or None if it is not known."""
        value = self.values.get(key)
        if value is None or value in _UNKNOWN_NUMBER:
            return None
        if type(value) not in (int, float) or not 0 <= value <= MOST_SECONDS:
            raise self.bad(key, f"a number from 0 to {MOST_SECONDS:g}")
        return float(value)

    def text(self, key: str) -> str:
        """Return a string, empty if it is absent."""
        value = self.values.get(key)
        if not isinstance(value, str | None):
            raise self.bad(key, "a string")
        return value or ""

    def objects(self, key: str) -> list[Fields]:
        """Return a list of objects, each placed as ``key[index]``."""
        value = self.values.get(key)
        if not isinstance(value, list):
            raise self.bad(key, "a list")
        places = [f"{self._name(key)}[{index}]" for index in range(len(value))]
        for place, item in zip(places, value, strict=True):
            if not isinstance(item, dict):
                raise bad_trace(self.source, f"{place} is {shown(item)}, not an object")
        return [Fields(self.source, *each) for each in zip(places, value, strict=True)]

    def unknown(self, known: frozenset[str]) -> list[str]:
        """Return the fields that are present and not ``known``."""
        return [key for key in self.values.keys() - known if self.values[key] is not None]

    def _name(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key

    def bad(self, key: str, wanted: str) -> UsageError:
        """Return the error for a field that is not what was ``wanted``."""
        value = self.values.get(key)
        fault = f"missing, {wanted} is needed" if value is None else f"{shown(value)}, not {wanted}"
        return bad_trace(self.source, f"{self._name(key)} is {fault}")

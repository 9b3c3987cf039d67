"""Numbers as a person types them: plain ASCII digits, nothing that only Python reads as a number.

Python takes ``1_0`` for ten and the digits of every script; here they are no numbers.
"""

from typing import Any

import click


def whole_number(value: object) -> int | None:
    """Return a whole number, also of a text that is one; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return int(value) if is_plain(value) else None
    except ValueError:  # also more digits than Python reads
        return None


def number(value: object) -> float | None:
    """Return a number, "nan" and "inf" included, also of a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value) if is_plain(value) else None
    except (ValueError, OverflowError):
        return None


def is_plain(value: object) -> bool:
    """Whether a value is none that only Python reads as a number: ``1_0``, ``٣``, true."""
    if isinstance(value, str):
        return value.isascii() and "_" not in value
    return not isinstance(value, bool)


class Whole(click.IntRange):
    """A whole number between bounds."""

    name = "integer"

    def _describe_range(self) -> str:
        """Hide missing bounds in the help, which click shows as ``x<=None``."""
        bounded = self.min is not None or self.max is not None
        return super()._describe_range() if bounded else ""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse what is none, in click's words."""
        if not is_plain(value):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return super().convert(value, param, ctx)


class Real(click.FloatRange):
    """A number between bounds."""

    name = "number"

    def _describe_range(self) -> str:
        """Hide missing bounds in the help, which click shows as ``x<=None``."""
        bounded = self.min is not None or self.max is not None
        return super()._describe_range() if bounded else ""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse what is none, in click's words."""
        if not is_plain(value):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return super().convert(value, param, ctx)

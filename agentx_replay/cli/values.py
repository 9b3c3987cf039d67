"""The kinds of values that options take, from a command line and from a TOML file.

Numbers are plain ASCII: Python also reads ``1_0`` as ten, and digits of every script, which are
refused here. ``plain`` are the types of TOML values that a kind takes, ``listed`` those it takes in
a list, ``wanted`` what a message calls them.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from agentx_replay.cli.redaction import hidden_note
from agentx_replay.errors import UsageError, shown
from agentx_replay.text_format import UNITS_S, UNITS_TOKENS, in_units

MOST_LANES = 10_000
"""Lanes of one level: five times what one machine was ever shown to drive."""
MOST_STARTS = 100
MOST_GPUS = 1_000_000
MOST_TOKENS = 1_000_000_000
_LONGEST = 10_000_000
"""Tokens of a prompt or an answer that is made: ten times any context."""
_MOST_SECONDS = 1e9
"""Thirty years: clocks count in ns, and 64 bits hold no more than nine times that."""

_Parameter = click.Parameter | None
_Context = click.Context | None


def number(value: object) -> float | None:
    """Return a number, "nan" and "inf" included, also of a text; None for anything else."""
    try:
        return float(value) if _is_plain(value) else None  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def whole_number(value: object) -> int | None:
    """Return a whole number, also of a text that is one; None for anything else."""
    if isinstance(value, float) or not _is_plain(value):
        return None
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError):  # also more digits than Python reads
        return None


def _is_plain(value: object) -> bool:
    if isinstance(value, str):
        return value.isascii() and "_" not in value
    return not isinstance(value, bool)


class Whole(click.IntRange):
    """A whole number between bounds."""

    name = "integer"
    plain: tuple[type, ...] = (int,)
    wanted = "a whole number"

    def convert(self, value: Any, param: _Parameter, ctx: _Context) -> Any:
        if not _is_plain(value):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return super().convert(value, param, ctx)


class Real(click.FloatRange):
    """A number between bounds; NaN lies between none."""

    name = "number"
    plain: tuple[type, ...] = (int, float)
    wanted = "a number"

    def convert(self, value: Any, param: _Parameter, ctx: _Context) -> Any:
        found = super().convert(value, param, ctx) if _is_plain(value) else math.nan
        if math.isnan(found):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return found


class Seconds(Real):
    """A duration in seconds: a number, or one with a unit, as in 90s, 5m or 1h."""

    name = "duration"
    plain, wanted = (int, float, str), "a number of seconds, or a text such as 90s"

    def __init__(self, least: float = 0.0) -> None:
        super().__init__(least, _MOST_SECONDS)

    def convert(self, value: Any, param: _Parameter, ctx: _Context) -> float:
        """Refuse what is no duration, "nan" included."""
        found = float(super().convert(_in_units(value, UNITS_S), param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is not a duration.", param, ctx)
        return found


class Tokens(Whole):
    """A number of tokens, also as in 128k."""

    plain, wanted = (int, str), "a whole number, or a text such as 128k"

    def __init__(self) -> None:
        super().__init__(1, MOST_TOKENS)

    def convert(self, value: Any, param: _Parameter, ctx: _Context) -> Any:
        """Read a ``k`` as thousands, an ``M`` as millions."""
        found = _in_units(value, UNITS_TOKENS)
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        return super().convert(found, param, ctx)


def _in_units(value: Any, units: Mapping[str, float]) -> Any:
    """Return a text that has a unit as the number it is; anything else as it is."""
    found = in_units(value, units) if isinstance(value, str) else None
    return value if found is None else found


class Tag(click.ParamType[str]):
    """``KEY=VALUE``."""

    name = "tag"

    def convert(self, value: Any, _: _Parameter, __: _Context) -> str:
        key, equals, text = str(value).partition("=")
        if not key.strip() or not equals:
            raise UsageError(
                "tag-without-value", f"--tag {shown(value)} has no value", "write --tag KEY=VALUE"
            )
        return hidden_note(f"{key.strip()}={text.strip()}")


class NamedPath(click.Path):
    """A path that names something: an empty text, as of a shell variable nobody set, would mean the
    directory one happens to be in.
    """

    def convert(self, value: Any, param: _Parameter, ctx: _Context) -> Any:
        if value == "":
            self.fail("the path is empty; name a file or directory (. is this one).", param, ctx)
        return super().convert(value, param, ctx)


class NewFile(NamedPath):
    """A file to be written, in a directory that is there."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: _Parameter, ctx: _Context) -> Path:
        file: Path = super().convert(value, param, ctx)
        if not file.parent.is_dir():
            raise UsageError(
                "directory-missing",
                f"{file} cannot be written: there is no directory {file.parent}",
                "make the directory, or name another file",
            )
        return file


class Text(click.types.StringParamType):
    """A text that says something: an empty one, as of a shell variable nobody set, is refused."""

    def convert(self, value: Any, param: _Parameter, ctx: _Context) -> Any:
        found = super().convert(value, param, ctx)
        if not found.strip():
            raise UsageError(
                "text-empty",
                f"--{param.name if param else ''} is empty",
                "give a text, or leave the option out",
            )
        return found


class Note(Text):
    """A text that is put on record, without the secrets in it."""

    def convert(self, value: Any, param: _Parameter, ctx: _Context) -> Any:
        return hidden_note(super().convert(value, param, ctx))


class Levels(click.ParamType[tuple[int, ...]]):
    """Concurrency levels: whole numbers from 1, separated by commas; ``auto``, if it may be, is
    none.
    """

    name = "levels"
    plain, listed = (int, str), (int,)
    wanted = "a whole number or a list of whole numbers"

    def __init__(self, *, single: bool = False, auto: bool = False) -> None:
        self._single = single
        self._auto = auto

    def convert(self, value: Any, _: _Parameter, ctx: _Context) -> tuple[int, ...]:
        if value == "auto":
            if self._auto:
                return ()
            raise UsageError(
                "auto-without-sweep",
                f"{ctx and ctx.info_name} does not look for levels",
                "give whole numbers, or use sweep --concurrency auto",
            )
        found = _lanes(_parts(value))
        if not found:
            raise UsageError(
                "levels-unfit",
                f"concurrency {_said(value)} is not a list of levels from 1 to {MOST_LANES:,}",
                "give whole numbers from 1, as in --concurrency 1,2,4,8",
            )
        if len(set(found)) != len(found):
            raise UsageError(
                "level-twice", f"concurrency {_said(value)} names a level twice", "name each once"
            )
        if self._single and len(found) > 1:
            raise UsageError(
                "several-levels",
                f"{ctx and ctx.info_name} measures one level, not {len(found)}",
                f"use sweep --concurrency {','.join(map(str, found))}",
            )
        return found


class Range(click.ParamType[tuple[int, int]]):
    """The lowest and the highest level of a search."""

    name = "range"
    plain, listed = (str,), (int,)
    wanted = "a list of two whole numbers"

    def convert(self, value: Any, _: _Parameter, __: _Context) -> tuple[int, int]:
        found = _lanes(_parts(value))
        if len(found) != 2 or found[0] >= found[1]:
            raise UsageError(
                "range-unfit",
                f"--range {_said(value)} is not two levels from 1 to {MOST_LANES:,}, the lower "
                "first",
                "write it as in --range 1,512",
            )
        return found[0], found[1]


class Speeds(click.ParamType[tuple[float, ...]]):
    """Interactivities: numbers above 0, separated by commas."""

    name = "speeds"
    plain, listed = (int, float, str), (int, float)
    wanted = "a number or a list of numbers"

    def convert(self, value: Any, _: _Parameter, __: _Context) -> tuple[float, ...]:
        numbers = [number(part) for part in _parts(value)]
        found = tuple(speed for speed in numbers if speed is not None and 0.0 < speed < math.inf)
        if not found or len(found) < len(numbers):
            raise UsageError(
                "targets-unfit",
                f"--at {_said(value)} is not a list of speeds",
                "give numbers of tokens/s/user above 0, as in --at 30,50,150",
            )
        return tuple(dict.fromkeys(found))


class Workers(click.ParamType[int | None]):
    """A number of processes; ``auto`` is None."""

    name = "workers"
    plain, wanted = (int, str), 'a whole number or "auto"'

    def convert(self, value: Any, _: _Parameter, __: _Context) -> int | None:
        if value == "auto":
            return None
        found = _lanes([value])
        if not found:
            raise UsageError(
                "workers-unfit",
                f"{shown(value)} is not a number of workers",
                f"give a whole number from 1 to {MOST_LANES:,}, or auto",
            )
        return found[0]


class Lengths(click.ParamType[tuple[int, int]]):
    """Tokens in and out of a request: 8192/1024, 8k/1k."""

    name = "lengths"

    def convert(self, value: Any, _: _Parameter, __: _Context) -> tuple[int, int]:
        numbers = [in_units(each, UNITS_TOKENS) or number(each) for each in value.split("/")]
        found = [int(each) for each in numbers if each and 1 <= each <= _LONGEST and each % 1 == 0]
        if len(found) != 2 or len(numbers) != 2:
            raise UsageError(
                "lengths-unfit",
                f"--fixed {shown(value)} is not two lengths from 1 to {_LONGEST:,} tokens",
                "write IN/OUT, as in 8192/1024",
            )
        return found[0], found[1]


_LEAST_NAMED, _MOST_NAMED = 1e-6, 1e9
"""Prices beyond them would leave the range of floating-point numbers in a ratio."""


class NumbersByName(click.ParamType[dict[str, float]]):
    """``NAME=NUMBER,NAME=NUMBER``; every number above 0."""

    name = "numbers"

    def convert(self, value: Any, param: _Parameter, _: _Context) -> dict[str, float]:
        option = f"--{param.name if param else ''}"
        way_out = f"write it as {option} NAME=NUMBER,NAME=NUMBER with the names of the runs"
        found: dict[str, float] = {}
        for part in value.split(","):
            name, _, text = (piece.strip() for piece in part.rpartition("="))
            if not name:
                raise UsageError(
                    "named-number-without-run", f"{option} {part} names no run", way_out
                )
            found[name] = number(text) or 0.0
            if not _LEAST_NAMED <= found[name] <= _MOST_NAMED:
                raise UsageError(
                    "named-number-not-positive",
                    f"{option} {name}={text} is not a number above 0, up to {_MOST_NAMED:,.0f}",
                    way_out,
                )
        return found


def _parts(value: Any) -> list[Any]:
    """Return the parts of a list as typed, or as it stands in a TOML file."""
    return list(value) if isinstance(value, (list, tuple)) else str(value).split(",")


def _lanes(parts: Sequence[Any]) -> tuple[int, ...]:
    """Return parts as numbers from 1 to the most lanes; none where any of them is none."""
    numbers = map(whole_number, parts)
    found = tuple(each for each in numbers if each is not None and 1 <= each <= MOST_LANES)
    return found if len(found) == len(parts) else ()


def _said(value: Any) -> str:
    return shown(",".join(map(str, value)) if isinstance(value, list) else value)

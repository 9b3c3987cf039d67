"""How numbers are written for people: the same everywhere, from terminal to page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from agentx_replay.results.layout import Measurement

if TYPE_CHECKING:  # a plan in text needs no analysis, which takes long to import
    from agentx_replay.analysis.starts import Interval
    from agentx_replay.analysis.throughput import Headline

_TYPED = frozenset("/._=")
"""A word with one of these is a path, a file or an assignment, not prose."""
ABSENT = "-"
NOT_REACHED = "not reached"
UNTRUSTED = "~"
"""Stands before a number that the client was too slow to measure."""
FAR = "!"
"""Stands behind a windowed throughput that is far from the headline."""


def rate(value: float | None) -> str:
    """Three significant digits at least: 0.0123, 12.3, 1,234; millions as 12.35M."""
    if value is None:
        return ABSENT
    if value >= 1e6:
        return f"{value / 1e6:.2f}M"
    return f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}"


def share(value: float | None) -> str:
    """A share as per cent without the sign: 95.2."""
    return ABSENT if value is None else f"{value * 100:.1f}"


def percent(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.1%}"


def milliseconds(value_s: float | None) -> str:
    return ABSENT if value_s is None else rate(value_s * 1e3)


def speed(value: float) -> str:
    """A target interactivity as it was given: 50, 12.5."""
    return f"{value:g}"


def capital(text: str) -> str:
    """A sentence with a capital; a command, a path or a name stays as it is typed."""
    first = text.partition(" ")[0].rstrip(",:;")
    typed = first in ("agentx-replay", "pip") or not _TYPED.isdisjoint(first)
    return text if typed else text[:1].upper() + text[1:]


def agents(levels: Iterable[Measurement | int], starts_of: Mapping[int, int] | None = None) -> str:
    """The levels that something is said of: 1 agent; 4, 12 agents, 16 agents (starts 2, 3).

    A level is named without its starts if the first alone is meant or, with ``starts_of`` each
    level, if all are.
    """
    found: dict[int, list[int]] = {}
    for each in levels:
        level, start = each if isinstance(each, Measurement) else (each, 1)
        found.setdefault(level, []).append(start)
    whole = [
        level
        for level, of in found.items()
        if (of == [1] if starts_of is None else len(of) == starts_of.get(level, 1))
    ]
    noun = "agent" if whole == [1] else "agents"
    parts = [f"{', '.join(map(str, whole))} {noun}"] if whole else []
    for level, of in found.items():
        if level not in whole:
            noun = "agent" if level == 1 else "agents"
            parts.append(f"{level} {noun} ({starts_named(of)})")
    return ", ".join(parts)


def starts_named(starts: Sequence[int]) -> str:
    """Some starts by their numbers: start 2; starts 1, 4."""
    return f"{'starts' if len(starts) > 1 else 'start'} {', '.join(map(str, starts))}"


def bounds(interval: "Interval | None", digits: int | None = None) -> str:
    """An interval as ``[a, b]``; nothing without one.

    ``digits`` after the point for ratios; None writes rates.
    """
    if interval is None:
        return ""

    def said(value: float) -> str:
        return rate(value) if digits is None else f"{value:.{digits}f}"

    return f"[{said(interval.low)}, {said(interval.high)}]"


def within(text: str, interval: "Interval | None", digits: int | None = None) -> str:
    """A number, already written, with its ``bounds`` where it has any: 7,567 [7,000, 8,000]."""
    return f"{text} {bounds(interval, digits)}".rstrip()


def ratios(values: Sequence[float | None]) -> list[str]:
    """The first run's value over each other one: 1.244."""
    first, *others = values
    return [ABSENT if first is None or not each else f"{first / each:.3f}" for each in others]


def unlike(value: float, other: float) -> str:
    """A rate with as many digits as tell it from another one: 149.97 where that is 150."""
    if value == other or rate(value) != rate(other):
        return rate(value)
    digits = next(n for n in range(4, 18) if float(f"{value:.{n}g}") != other)
    return f"{value:.{digits}g}"


def throughput_unit(gpus: int | None, headline_is: "Headline" = "overall") -> str:
    """Tokens per second, per GPU where the count is known; named where they are windowed."""
    unit = "tok/s" if gpus is None else "tok/s/GPU"
    return f"{unit} (window)" if headline_is == "windowed" else unit


def reading(value: float | None, side: str | None, mark: str) -> str:
    """A throughput under some definition, else on which side of the target all levels are."""
    if value is not None:
        return mark + rate(value)
    if side is None:
        return ABSENT
    return NOT_REACHED if side == "both" else f"all {side}"

"""How numbers are written for people: the same everywhere, from terminal to page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from agentx_replay.analysis.ladder import level_toward
from agentx_replay.results.layout import Measurement
from agentx_replay.text_format import counted

if TYPE_CHECKING:  # a plan in text needs no analysis, which takes long to import
    from agentx_replay.analysis.curve import StartValue, TargetValue
    from agentx_replay.analysis.point import Point
    from agentx_replay.analysis.starts import Interval
    from agentx_replay.analysis.throughput import Headline

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
    """A sentence with a capital; a command stays as it is typed."""
    return text if text.startswith("agentx-replay ") else text[:1].upper() + text[1:]


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
            named = f"{'start' if len(of) == 1 else 'starts'} {', '.join(map(str, of))}"
            parts.append(f"{level} {'agent' if level == 1 else 'agents'} ({named})")
    return ", ".join(parts)


def bounds(interval: "Interval | None", digits: int | None = None) -> str:
    """An interval as ``[a, b]``; nothing without one.

    ``digits`` after the point for ratios; None writes rates.
    """
    if interval is None:
        return ""

    def said(value: float) -> str:
        return rate(value) if digits is None else f"{value:.{digits}f}"

    return f"[{said(interval.low)}, {said(interval.high)}]"


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


def target_text(value: "TargetValue") -> str:
    """A throughput at a target with its interval."""
    if value.throughput is None:
        return NOT_REACHED
    return f"{rate(value.throughput)} {bounds(value.interval)}".rstrip()


def _sides(missed: "Sequence[StartValue]") -> str:
    """Which starts miss a target, and on which side of it their levels lie."""
    sides = {each.every_level_is: "" for each in missed}
    for side in sides:
        starts = [str(each.start) for each in missed if each.every_level_is == side]
        named = f"{'starts' if len(starts) > 1 else 'start'} {', '.join(starts)}"
        gap = f"{named}: the curve has a gap there"
        sides[side] = f"every valid level of {named} is {side}" if side else gap
    return "; ".join(sides.values())


def turned_back(value: "TargetValue") -> list[str]:
    """What else a curve that turns back says at a target."""
    others = " and ".join(between(pair) for pair in value.also_between)
    found = [f"the highest: reached again {others}"] if others else []
    best = value.frontier
    if best is not None:
        found.append(f"the Pareto frontier says {rate(best.throughput)}, {between(best.between)}")
    return found


def target_note(value: "TargetValue", points: "Sequence[Point]") -> str:
    """Where a value comes from, or how far a run of ``points`` came and which level comes next."""
    reach = "; ".join([value.reach, _sides(value.missed)]) if value.missed else ""
    if value.throughput is not None:
        starts = reach or counted(len(value.starts), "start")
        return f"{between(value.between or ())} ({'; '.join([*turned_back(value), starts])})"
    if value.nearest is None or value.every_level_is is None:
        return reach or (value.why_not_reached or "").removeprefix(f"{NOT_REACHED}: ")
    end = "slowest" if value.every_level_is == "faster" else "fastest"
    nearest = unlike(value.nearest.interactivity, value.target)
    return f"{end} valid level {nearest} → {to_add(value, points)}"


def target_line(value: "TargetValue", unit: str, points: "Sequence[Point]") -> str:
    """A value at a target with its interval, its unit and where it comes from."""
    named = f" {unit}" if value.throughput is not None else ""
    return f"{target_text(value)}{named}, {target_note(value, points)}"


def to_add(value: "TargetValue", points: "Sequence[Point]") -> str:
    """Which level comes next on the way to a target that none of a run's ``points`` reaches."""
    nearest = value.nearest
    if nearest is None:
        return "try other levels"
    level = level_toward(nearest.concurrency, nearest.interactivity, value.target)
    if level in {point.concurrency for point in points} and level is not None:
        return f"measure {agents([level])} again, not valid"
    if level is not None:
        return f"try {agents([level])}"
    return "try more agents" if value.every_level_is == "faster" else "no fewer agents can be"


def between(levels: Sequence[int]) -> str:
    """The levels that a value was read off."""
    if min(levels) == max(levels):
        return f"at {agents(levels[:1])}"
    return f"between {min(levels)} and {max(levels)} agents"

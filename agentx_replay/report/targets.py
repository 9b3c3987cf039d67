"""What is said of throughput at a target speed: the value and where it comes from, or how far a run
came and which level comes next. The same words from the first screen to the page.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from agentx_replay.analysis.curve import StartValue, TargetValue
from agentx_replay.analysis.findings import Kind
from agentx_replay.analysis.ladder import level_toward
from agentx_replay.analysis.point import Point
from agentx_replay.report.numerals import (
    NOT_REACHED,
    agents,
    rate,
    speed,
    starts_named,
    unlike,
    within,
)
from agentx_replay.text_format import counted


def by_target(
    values: Sequence[TargetValue], points: Sequence[Point]
) -> Iterator[tuple[str, TargetValue]]:
    """Yield values with the targets that they are said of: those beyond the same end of the curve
    for which the same level comes next in one, every other one alone.
    """
    for _, group in groupby(values, lambda value: _to_add(value, points) or value.target):
        found = sorted(group, key=lambda value: value.target)
        yield ", ".join(speed(each.target) for each in found), found[0]


def target_text(value: TargetValue) -> str:
    """A throughput at a target with its interval, else on which side of it all levels are."""
    if value.throughput is None:
        side = value.every_level_is
        return f"every level is {side}" if side else NOT_REACHED
    return within(rate(value.throughput), value.interval)


def target_note(value: TargetValue, points: Sequence[Point]) -> str:
    """Where a value comes from, or how far a run of ``points`` came and which level comes next."""
    reach = "; ".join([value.reach, _sides(value.missed)]) if value.missed else ""
    if value.throughput is not None:
        starts = reach or counted(len(value.starts), "start")
        return f"{between(value.between or ())} ({'; '.join([*turned_back(value), starts])})"
    if value.nearest is None or value.every_level_is is None:
        return reach or (value.why_not_reached or "").removeprefix(f"{NOT_REACHED}: ")
    end = "slowest" if value.every_level_is == "faster" else "fastest"
    nearest = unlike(value.nearest.interactivity, value.target)
    return f"{end} valid {nearest} → {_to_add(value, points)}"


def target_line(value: TargetValue, unit: str, points: Sequence[Point]) -> str:
    """A value at a target with its interval, its unit and where it comes from."""
    named = f" {unit}" if value.throughput is not None else ""
    return f"{target_text(value)}{named}, {target_note(value, points)}"


def turned_back(value: TargetValue) -> list[str]:
    """What else a curve that turns back says at a target."""
    others = " and ".join(between(pair) for pair in value.also_between)
    found = [f"the highest: reached again {others}"] if others else []
    best = value.frontier
    if best is not None:
        found.append(f"the Pareto frontier says {rate(best.throughput)}, {between(best.between)}")
    return found


def between(levels: Sequence[int]) -> str:
    """The levels that a value was read off."""
    if min(levels) == max(levels):
        return f"at {agents(levels[:1])}"
    return f"between {min(levels)} and {max(levels)} agents"


def _sides(missed: Sequence[StartValue]) -> str:
    """Which starts miss a target, and on which side of it their levels lie."""
    said = []
    for side in dict.fromkeys(each.every_level_is for each in missed):
        named = starts_named([each.start for each in missed if each.every_level_is == side])
        gap = f"{named}: the curve has a gap there"
        said.append(f"every valid level of {named} is {side}" if side else gap)
    return "; ".join(said)


def _to_add(value: TargetValue, points: Sequence[Point]) -> str:
    """Which level comes next on the way to a target beyond an end of a curve of some of a run's
    ``points``; empty for any other value.
    """
    nearest = value.nearest
    if nearest is None or value.every_level_is is None:
        return ""
    level = level_toward(nearest.concurrency, nearest.interactivity, value.target)
    if level is None:
        return "try more agents" if value.every_level_is == "faster" else "no fewer agents can be"
    if level in {point.concurrency for point in points}:
        return f"measure {agents([level])} again, not valid"
    return f"try {agents([level])}"


def passed_over(value: TargetValue, points: Sequence[Point]) -> list[str]:
    """Return across which levels that are not valid a value at a target was read off."""
    low, high = min(value.between or (0,)), max(value.between or (0,))
    valid = {point.concurrency for point in points if point.valid}
    found = {each.concurrency for each in points if low < each.concurrency < high} - valid
    return [f"across {agents(sorted(found))}, not valid"] if found else []


def warned_at(value: TargetValue, points: Sequence[Point]) -> list[str]:
    """Return what to mind of the levels that a value at a target was read off, naming them."""
    read_off = value.between or ()
    found = [
        point.measurement
        for point in points
        if point.valid and point.concurrency in read_off and point.texts(Kind.WARNING)
    ]
    warned = [f"mind the warnings on {agents(found)}"] if found else []
    return passed_over(value, points) + warned

"""The curve of a sweep: the frontier of its points, and throughput at a target interactivity."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from agentx_replay.analysis.starts import mean_of_starts


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One valid point, or the mean of a level's valid starts: interactivity in tokens/s/user,
    throughput in tokens/s (per GPU where all points of the curve are).
    """

    concurrency: int
    interactivity: float
    throughput: float


@dataclass(frozen=True, slots=True)
class AtTarget:
    """Throughput at a target interactivity; None: not reached, and then ``nearest`` is closest.

    ``between`` are the concurrencies of the pair it was interpolated in, of several starts those of
    all their pairs; ``several`` says that other pairs gave other values, and that this is the
    highest. ``every_level_is`` says on which side of a target that is not reached the points lie:
    ``faster`` or ``slower``, None where it is reached or there is no point.
    """

    target: float
    throughput: float | None
    between: tuple[int, ...] | None
    several: bool
    nearest: CurvePoint | None
    every_level_is: Literal["faster", "slower"] | None = None

    @property
    def why_not_reached(self) -> str | None:
        """In words what stands in the way; None where the target is reached."""
        if self.throughput is not None:
            return None
        if self.nearest is None:
            return "no valid level"
        if self.every_level_is is None:
            return "not reached by every start"
        return f"not reached: every valid level is {self.every_level_is}"


def level_means(starts: Sequence[Sequence[CurvePoint]]) -> list[CurvePoint]:
    """Return one point a level by rising concurrency: the geometric mean, in both, of the points
    that the curves of single ``starts`` have there.
    """
    levels: dict[int, list[CurvePoint]] = {}
    for point in (point for curve in starts for point in curve):
        levels.setdefault(point.concurrency, []).append(point)
    return [
        CurvePoint(
            concurrency,
            mean_of_starts([point.interactivity for point in points]),
            mean_of_starts([point.throughput for point in points]),
        )
        for concurrency, points in sorted(levels.items())
    ]


def frontier(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Return the non-dominated points by rising interactivity.

    A point is dominated by one that is at least as good in both and better in one. Of equals the
    lowest concurrency stays.
    """
    best: list[CurvePoint] = []
    for point in sorted(points, key=lambda p: (-p.interactivity, -p.throughput, p.concurrency)):
        if not best or point.throughput > best[-1].throughput:
            best.append(point)
    return best[::-1]


def throughput_at(points: Sequence[CurvePoint], target: float) -> AtTarget:
    """Interpolate linearly, on the interactivity axis, within adjacent pairs (in order of
    concurrency) that bracket the target. Several: the highest. Never extrapolated.
    """
    ordered = sorted(points, key=lambda p: p.concurrency)
    pairs = list(pairwise(ordered)) or [(p, p) for p in ordered]
    found = [
        (value, (low.concurrency, high.concurrency))
        for low, high in pairs
        if (value := _within(low, high, target)) is not None
    ]
    nearest = min(ordered, key=lambda p: abs(p.interactivity - target), default=None)
    if not found:
        return AtTarget(target, None, None, False, nearest, _side(nearest, target))
    throughput, between = max(found, key=lambda item: item[0])
    several = len({value for value, _ in found}) > 1
    return AtTarget(target, throughput, between, several, nearest)


def mean_at(starts: Sequence[AtTarget]) -> AtTarget:
    """Return the geometric mean of what one or more starts gave at a target, each read off its own
    curve; not reached unless all of them reach it.
    """
    if len(starts) == 1:
        return starts[0]
    target = starts[0].target
    values = [each.throughput for each in starts if each.throughput is not None]
    if len(values) == len(starts):
        levels = sorted({level for each in starts for level in each.between or ()})
        several = any(each.several for each in starts)
        return AtTarget(target, mean_of_starts(values), tuple(levels), several, None)
    missed = [each for each in starts if each.throughput is None]
    nearest = min(
        (each.nearest for each in missed if each.nearest is not None),
        key=lambda point: abs(point.interactivity - target),
        default=None,
    )
    sides = {each.every_level_is for each in missed}
    side = sides.pop() if len(sides) == 1 and not values else None
    return AtTarget(target, None, None, False, nearest, side)


def _side(nearest: CurvePoint | None, target: float) -> Literal["faster", "slower"] | None:
    """Return where the points lie: all on one side, or neighbours would bracket the target."""
    if nearest is None:
        return None
    return "faster" if nearest.interactivity > target else "slower"


def _within(a: CurvePoint, b: CurvePoint, target: float) -> float | None:
    """Return throughput at the target between two points, None where they do not bracket it."""
    if target in (a.interactivity, b.interactivity):
        return max(p.throughput for p in (a, b) if p.interactivity == target)
    if not min(a.interactivity, b.interactivity) < target < max(a.interactivity, b.interactivity):
        return None
    share = (target - a.interactivity) / (b.interactivity - a.interactivity)
    return a.throughput + share * (b.throughput - a.throughput)

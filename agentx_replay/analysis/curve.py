"""The curve of one run: its points, their frontier, and throughput at target speeds.

How intervals come about is in ``starts.py``. Each start's curve is interpolated by itself. The same
records under other definitions make other curves: one row changes one definition of the headline
(the percentile, what is an ITL, what counts as a token); which is right is not judged here.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from agentx_replay.analysis.point import STATUSES, Point, point_row
from agentx_replay.analysis.run import Run
from agentx_replay.analysis.starts import ONE_START, Interval, interval_of, mean_of_starts
from agentx_replay.analysis.throughput import Headline, Rates

NOT_REACHED = "not reached"


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One valid point, or the mean of a level's valid starts: interactivity in tokens/s/user,
    throughput in tokens/s (per GPU where all points of the curve are).
    """

    concurrency: int
    interactivity: float
    throughput: float


@dataclass(frozen=True, slots=True)
class PointInterval:
    """The 95 % intervals of one level over its starts, in its curve's units."""

    interactivity: Interval
    throughput: Interval


Side = Literal["faster", "slower"]


@dataclass(frozen=True, slots=True)
class StartValue:
    """What the curve of one start gave at a target; None: it does not reach it, and then
    ``every_level_is`` says on which side of the target its levels lie, None if on both.
    """

    start: int
    throughput: float | None
    every_level_is: Side | None = None


FAR_FROM_FRONTIER = 0.05
"""Relative excess of the Pareto frontier over the curve's value above which both are reported."""


@dataclass(frozen=True, slots=True)
class FrontierValue:
    """Throughput at a target by the Pareto frontier, and the concurrencies that it is between: one
    where the level itself is at least as fast as the target.
    """

    throughput: float
    between: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TargetValue:
    """Throughput at a target interactivity; None: not reached, and then ``nearest`` is closest.

    ``between`` are the concurrencies of the pair it was interpolated in, of several starts those of
    all their pairs. ``also_between`` are other pairs that bracket the target and gave less, and
    ``frontier`` what the Pareto frontier says where that is over ``FAR_FROM_FRONTIER`` more: both
    are empty unless the curve turns back. ``every_level_is`` says on which side of a target that is
    not reached all points lie. ``interval`` is None if none can be given, and then ``no_interval``
    says why.
    """

    target: float
    throughput: float | None
    between: tuple[int, ...] | None = None
    also_between: tuple[tuple[int, int], ...] = ()
    frontier: FrontierValue | None = None
    nearest: CurvePoint | None = None
    every_level_is: Side | None = None
    starts: tuple[StartValue, ...] = ()
    interval: Interval | None = None
    no_interval: str | None = None

    @property
    def reach(self) -> str:
        """How many starts reach it, if not all or none do: "3 of 4 starts reach it"."""
        reached = sum(each.throughput is not None for each in self.starts)
        return f"{reached} of {len(self.starts)} starts reach it" if self.missed else ""

    @property
    def values(self) -> list[float]:
        """What the starts gave, in order of their numbers; nothing unless all reach it, since those
        that do would be chosen by their speed.
        """
        return [] if self.missed else [x.throughput for x in self.starts if x.throughput]

    @property
    def missed(self) -> list[StartValue]:
        missed = [each for each in self.starts if each.throughput is None]
        return missed if len(missed) < len(self.starts) else []

    @property
    def why_not_reached(self) -> str | None:
        """In words what stands in the way; None where the target is reached."""
        if self.throughput is not None:
            return None
        if self.nearest is None:
            return "no valid level"
        if self.every_level_is is None:
            return f"{NOT_REACHED}: {self.reach or 'a level between is not valid'}"
        return f"every valid level is {self.every_level_is}"


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A run's curve. Throughput is the headline that ``headline_is`` names, per GPU where ``gpus``
    is known, else the system's.

    ``points`` are means over starts, ``starts`` the valid points of each level that its point is
    the mean of, by concurrency and start. ``intervals`` holds those of the levels with two starts
    or more, by concurrency.
    """

    gpus: int | None
    headline_is: Headline
    points: tuple[CurvePoint, ...]
    frontier: tuple[CurvePoint, ...]
    starts: Mapping[int, Mapping[int, CurvePoint]]
    intervals: Mapping[int, PointInterval]
    values: tuple[TargetValue, ...]


def curve_of(run: Run, targets: Sequence[float] = ()) -> Curve:
    """Return the curve of a run, read off at ``targets``, else at the run's own."""
    by_start = curves_by_start(run.points)
    starts: dict[int, dict[int, CurvePoint]] = {}
    for start, curve in by_start.items():
        for point in curve:
            starts.setdefault(point.concurrency, {})[start] = point
    points = level_means(list(by_start.values()))
    return Curve(
        gpus=run.gpus,
        headline_is=run.headline_is,
        points=tuple(points),
        frontier=tuple(frontier(points)),
        starts={point.concurrency: starts[point.concurrency] for point in points},
        intervals={
            level: intervals
            for level, of in starts.items()
            if (intervals := _intervals(list(of.values()))) is not None
        },
        values=tuple(
            target_value(by_start, target, run.levels_by_start) for target in targets or run.targets
        ),
    )


def curves_by_start(points: Sequence[Point]) -> dict[int, list[CurvePoint]]:
    """Return the curve of the valid points of each start, by start: per GPU where every point has a
    GPU count, else per system.
    """
    return _curves(points, [point.on_curve for point in points])


def _curves(
    points: Sequence[Point], found: Sequence[tuple[float, float] | None]
) -> dict[int, list[CurvePoint]]:
    """Return the curves through the (speed, throughput of the system) found of each point."""
    per_gpu = all(point.facts.gpus is not None for point in points)
    curves: dict[int, list[CurvePoint]] = {}
    for point, at in sorted(zip(points, found, strict=True), key=lambda each: each[0].measurement):
        if at is not None:
            gpus = (point.facts.gpus or 1) if per_gpu else 1
            curves.setdefault(point.facts.start, []).append(
                CurvePoint(point.concurrency, at[0], at[1] / gpus)
            )
    return dict(sorted(curves.items()))


def _intervals(starts: Sequence[CurvePoint]) -> PointInterval | None:
    interactivity = interval_of([point.interactivity for point in starts])
    throughput = interval_of([point.throughput for point in starts])
    if interactivity is None or throughput is None:
        return None
    return PointInterval(interactivity, throughput)


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


def level_row(starts: Sequence[Point]) -> dict[str, Any]:
    """Return the columns of ``point_row`` for a level: what is measured as the geometric mean over
    its valid starts, as ``level_means`` has it (over all of them if none is valid), and how its
    requests ended in all of them together.
    """
    rows = [point_row(each) for each in starts]
    told = [row for row in rows if row["valid"]] or rows
    measured = {key: [row[key] for row in told if isinstance(row[key], float)] for key in rows[0]}
    means = {key: mean_of_starts(values) for key, values in measured.items() if values}
    return {**told[0], **means, **{key: sum(row[key] for row in rows) for key in STATUSES}}


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


# --- at a target ---------------------------------------------------------------------------------


def target_value(
    curves: Mapping[int, Sequence[CurvePoint]],
    target: float,
    levels_by_start: Mapping[int, Collection[int]] | None = None,
) -> TargetValue:
    """Return throughput at a target from the curves of single starts: the geometric mean of what
    each gives.

    If some do not reach it, those that do are a choice by speed; so it is read off the mean curve,
    between levels at which every start is valid, and has no interval. Every start has the same
    levels unless ``levels_by_start`` says otherwise.
    """
    levels = {point.concurrency for curve in curves.values() for point in curve}
    of = levels_by_start or {}
    found = {s: throughput_at(curve, target, of.get(s, levels)) for s, curve in curves.items()}
    starts = tuple(StartValue(s, x.throughput, x.every_level_is) for s, x in found.items())
    values = [each.throughput for each in starts if each.throughput is not None]
    if not values:
        return replace(_nobody_reaches(list(found.values()), target), starts=starts)
    if len(values) < len(starts):
        value = replace(throughput_at(_of_all(curves), target, levels), starts=starts)
        return replace(value, every_level_is=None, no_interval=value.reach)
    interval, mean = interval_of(values), mean_of_starts(values)
    return TargetValue(
        target,
        mean,
        tuple(sorted({level for each in found.values() for level in each.between or ()})),
        tuple(sorted({pair for each in found.values() for pair in each.also_between})),
        _better_on_frontier(level_means(list(curves.values())), target, mean),
        next(iter(found.values())).nearest if len(found) == 1 else None,
        starts=starts,
        interval=interval,
        no_interval=ONE_START if interval is None else None,
    )


def _of_all(curves: Mapping[int, Sequence[CurvePoint]]) -> list[CurvePoint]:
    common = set.intersection(
        *({point.concurrency for point in curve} for curve in curves.values())
    )
    return [each for each in level_means(list(curves.values())) if each.concurrency in common]


def _nobody_reaches(starts: Sequence[TargetValue], target: float) -> TargetValue:
    """Return what is nearest to a target, and the side on which all levels of all starts lie."""
    near = [each.nearest for each in starts if each.nearest is not None]
    nearest = min(near, key=lambda point: abs(point.interactivity - target), default=None)
    sides = {each.every_level_is for each in starts}
    side = sides.pop() if len(sides) == 1 else None
    return TargetValue(target, None, nearest=nearest, every_level_is=side, no_interval=NOT_REACHED)


def throughput_at(
    points: Sequence[CurvePoint], target: float, levels: Collection[int] = ()
) -> TargetValue:
    """Interpolate linearly, on the interactivity axis, within adjacent pairs (in order of
    concurrency) that bracket the target. Several: the highest. Never extrapolated, nor across one
    of the run's ``levels`` that is not among the points.

    Levels that are neighbours on the Pareto frontier alone are not interpolated between: no number
    of agents need give what lies between them. What the frontier says is told beside the value.
    """
    ordered = sorted(points, key=lambda p: p.concurrency)
    pairs = list(pairwise(ordered)) or [(p, p) for p in ordered]
    found = [
        (value, (low.concurrency, high.concurrency))
        for low, high in pairs
        if not any(low.concurrency < level < high.concurrency for level in levels)
        and (value := interpolated(low, high, target)) is not None
    ]
    nearest = min(ordered, key=lambda p: abs(p.interactivity - target), default=None)
    if not found:
        return TargetValue(target, None, nearest=nearest, every_level_is=_side(ordered, target))
    throughput, between = max(found, key=lambda item: item[0])
    also = tuple(pair for value, pair in found if value < throughput)
    better = _better_on_frontier(ordered, target, throughput)
    return TargetValue(target, throughput, between, also, better, nearest)


def _better_on_frontier(
    points: Sequence[CurvePoint], target: float, throughput: float
) -> FrontierValue | None:
    """Return what the Pareto frontier says at a target: its line, or, where all of it is faster,
    its slowest level. None unless that is over ``FAR_FROM_FRONTIER`` more than ``throughput``.
    """
    best = frontier(points)
    found = [
        FrontierValue(value, tuple(sorted((slow.concurrency, fast.concurrency))))
        for slow, fast in pairwise(best)
        if (value := interpolated(slow, fast, target)) is not None
    ]
    if best and best[0].interactivity > target:
        found.append(FrontierValue(best[0].throughput, (best[0].concurrency,)))
    most = max(found, key=lambda each: each.throughput, default=None)
    far = most is not None and most.throughput > (1.0 + FAR_FROM_FRONTIER) * throughput
    return most if far else None


def _side(points: Sequence[CurvePoint], target: float) -> Side | None:
    faster = {point.interactivity > target for point in points}
    if len(faster) != 1:
        return None
    return "faster" if faster.pop() else "slower"


def interpolated(a: CurvePoint, b: CurvePoint, target: float) -> float | None:
    """Return throughput at the target between two points, None where they do not bracket it."""
    if target in (a.interactivity, b.interactivity):
        return max(p.throughput for p in (a, b) if p.interactivity == target)
    if not min(a.interactivity, b.interactivity) < target < max(a.interactivity, b.interactivity):
        return None
    share = (target - a.interactivity) / (b.interactivity - a.interactivity)
    return a.throughput + share * (b.throughput - a.throughput)


@dataclass(frozen=True, slots=True)
class Definition:
    """One row: its name, and the keys of the speed and the throughput it takes."""

    name: str
    speed: str
    throughput: str


DEFINITIONS = (
    Definition("headline: P90 response ITL, total tokens", "p90", "total"),
    Definition("P50 instead of P90", "p50", "total"),
    Definition("P95 instead of P90", "p95", "total"),
    Definition("P99 instead of P90", "p99", "total"),
    Definition("P90 by the rule sorted[int(0.9·n)]", "p90_by_index", "total"),
    Definition("token ITL", "token", "total"),
    Definition("ITL by AgentX's divisor: output tokens − 1", "agentx", "total"),
    Definition("P90 of each response's gaps, then median", "within", "total"),
    Definition("ITL up to the end of the stream", "full", "total"),
    Definition("ITL with TTFT: end to end / output tokens", "with_ttft", "total"),
    Definition("ITL of cut responses added", "with_cut", "total"),
    Definition("ITL from events in the window alone", "in_window", "total"),
    Definition("window throughput", "p90", "windowed"),
    Definition("overall throughput", "p90", "overall"),
    Definition("throughput by agentx-harness 1.0.12", "p90", "phase"),
    Definition("without reused input", "p90", "uncached"),
    Definition("output tokens only", "p90", "output"),
)


@dataclass(frozen=True, slots=True)
class DefinedValue:
    """A throughput under a definition, or ``why`` there is none. ``side`` is None unless the target
    is not reached: the side of it on which every level lies, or ``both``. Without a side a level
    has nothing to compute it from.
    """

    value: float | None
    why: str | None = None
    side: Side | Literal["both"] | None = None


def value_at(
    points: Sequence[Point],
    definition: Definition,
    target: float,
    levels_by_start: Mapping[int, Collection[int]] | None = None,
) -> DefinedValue:
    """Return throughput, per GPU where every point has a GPU count, at the target interactivity
    under a definition, of the ``points`` on a curve.
    """
    found: list[tuple[float, float] | None] = []
    for point in points:
        if point.summary is None or point.on_curve is None:
            found.append(None)
            continue
        speed = point.speeds[definition.speed]
        throughput = _throughput(point.summary.rates, definition.throughput)
        if speed is None or throughput is None:
            lacking = "speed" if speed is None else "throughput"
            return DefinedValue(None, f"concurrency {point.concurrency} has no such {lacking}")
        found.append((speed, throughput))
    at = target_value(_curves(points, found), target, levels_by_start)
    side = at.every_level_is or "both"
    return DefinedValue(at.throughput, at.why_not_reached, side if at.throughput is None else None)


def _throughput(rates: Rates, key: str) -> float | None:
    if key in ("uncached", "output"):
        return getattr(rates.headline, f"{key}_tokens_per_s", None)
    if key == "input" and rates.headline is not None:
        return rates.headline.total_tokens_per_s - rates.headline.output_tokens_per_s
    of = rates.headline if key in ("total", "input") else getattr(rates, key)
    return of.total_tokens_per_s if of else None

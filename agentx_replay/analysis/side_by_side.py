"""Runs side by side beyond their ratios at target speeds: at equal concurrency, what each is like
at a target, what price makes them equal, and their capacities under an objective.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from statistics import fmean

import numpy as np

from agentx_replay.analysis.comparison import Comparison, Contender
from agentx_replay.analysis.curve import Curve, CurvePoint, curves_by_start, throughput_at
from agentx_replay.analysis.goodput import Jobs
from agentx_replay.analysis.judged import Judged, judge
from agentx_replay.analysis.objective import Objective
from agentx_replay.analysis.point import Point, level_metrics
from agentx_replay.analysis.run import Run
from agentx_replay.analysis.server import growth_in
from agentx_replay.analysis.starts import (
    ONE_START,
    Interval,
    mean_of_starts,
    paired_interval,
    ratio_interval,
)
from agentx_replay.results.layout import Measurement
from agentx_replay.results.server_names import Metric

# --- at equal concurrency ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LevelSide:
    """One run at a level, over its starts: throughput in the curve's unit, speed in tokens/s/user,
    P90 TTFT in s, cache hit, finished plays per hour and agent; None for what is not known.
    """

    throughput: float
    interactivity: float
    ttft_p90_s: float | None
    cache_hit: float | None
    jobs_per_agent_hour: float | None


@dataclass(frozen=True, slots=True)
class LevelRatio:
    """Throughput of the first run over another one's at a level, and finished plays per hour, per
    GPU as the throughput; None with another plan there, or where a start finished none.
    """

    ratio: float | None
    interval: Interval | None
    jobs: float | None = None
    jobs_interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class LevelRow:
    """A level that the first run and another one have: a side for each run, None where it is not
    on its curve, and a ratio for each but the first, None where one of the two lacks it.
    """

    concurrency: int
    sides: tuple[LevelSide | None, ...]
    ratios: tuple[LevelRatio | None, ...]


def level_rows(comparison: Comparison) -> tuple[LevelRow, ...]:
    levels = {n for of in comparison.plans for n in of.same | of.different}
    runs = list(zip(comparison.contenders, comparison.curves, strict=True))
    return tuple(
        LevelRow(n, tuple(_side(*of, n) for of in runs), tuple(_ratios(comparison, n)))
        for n in sorted(levels)
    )


def _ratios(comparison: Comparison, level: int) -> list[LevelRatio | None]:
    first, *others = (
        [each.throughput for each in curve.starts.get(level, {}).values()]
        for curve in comparison.curves
    )
    first_jobs, *others_jobs = (
        [
            jobs.per_hour / ((comparison.per_gpu and each.run.gpus) or 1)
            for jobs in _jobs(each, level)
        ]
        for each in comparison.contenders
    )
    found: list[LevelRatio | None] = []
    for plans, other, jobs in zip(comparison.plans, others, others_jobs, strict=True):
        if not first or not other:
            found.append(None)
        elif level not in plans.same:
            found.append(LevelRatio(None, None))
        else:
            of_jobs = _ratio(first_jobs, jobs, paired=comparison.paired)
            found.append(LevelRatio(*_ratio(first, other, paired=comparison.paired), *of_jobs))
    return found


def _ratio(
    first: Sequence[float], other: Sequence[float], *, paired: bool = False
) -> tuple[float | None, Interval | None]:
    """Return the ratio of two means over starts; None where a start has nothing."""
    if not all(first) or not all(other) or not first or not other:
        return None, None
    ratio = mean_of_starts(first) / mean_of_starts(other)
    if not paired:
        return ratio, ratio_interval(first, other)
    return ratio, paired_interval(first, other) if len(first) == len(other) else None


def _jobs(contender: Contender, level: int) -> list[Jobs]:
    points = contender.run.curve_points
    return [each.jobs for each in points if each.concurrency == level and each.jobs is not None]


def _side(contender: Contender, curve: Curve, level: int) -> LevelSide | None:
    point = next((each for each in curve.points if each.concurrency == level), None)
    if point is None:
        return None
    summaries = [
        each.summary
        for each in contender.run.curve_points
        if each.concurrency == level and each.summary is not None
    ]
    ttfts = [each.ttft.p90_s for each in summaries if each.ttft is not None]
    hits = [each.cache_hit for each in summaries if each.cache_hit is not None]
    jobs = [each.per_hour / level for each in _jobs(contender, level)]
    return LevelSide(
        point.throughput,
        point.interactivity,
        fmean(ttfts) if ttfts else None,
        fmean(hits) if hits else None,
        fmean(jobs) if jobs else None,
    )


# --- at a target ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AtTarget:
    """What a run is like at a target speed, interpolated as its throughput is, over its starts:
    TTFT in s, cache hit, mean usage of the KV cache, preemptions a minute; None if not told.
    """

    ttft_p50_s: float | None
    ttft_p95_s: float | None
    cache_hit: float | None
    kv_usage: float | None
    preemptions_per_min: float | None


def at_target(run: Run, target: float) -> AtTarget | None:
    """Return what a run is like at a target; None unless every start reaches it."""
    curves, points = curves_by_start(run.points), {p.measurement: p for p in run.points}
    found = [_at(curve, start, points, target) for start, curve in curves.items()]
    facts = [astuple(each) for each in found if each is not None]
    if not facts or len(facts) < len(found):
        return None
    return AtTarget(*map(_mean, zip(*facts, strict=True)))


def _at(
    curve: Sequence[CurvePoint],
    start: int,
    points: dict[Measurement, Point],
    target: float,
) -> AtTarget | None:
    between = throughput_at(curve, target).between
    if between is None:
        return None
    speeds = {each.concurrency: each.interactivity for each in curve}
    low, high = (speeds[level] for level in between)
    share = 0.0 if low == high else (target - low) / (high - low)
    a, b = (_of_point(points[Measurement(level, start)]) for level in between)
    facts = zip(astuple(a), astuple(b), strict=True)
    return AtTarget(*(None if x is None or y is None else x + share * (y - x) for x, y in facts))


def _of_point(point: Point) -> AtTarget:
    summary, window = point.summary, point.facts.window
    ttft = summary.ttft if summary else None
    metrics = level_metrics(point.stored.directory, window) if point.stored else {}
    length_s = window.length_s if window else 0.0
    usages = [
        float(each.values[inside].mean())
        for each in metrics.get(Metric.KV_USAGE, ())
        if (inside := (each.at_s >= 0) & (each.at_s < length_s)).any()
    ]
    preempted = growth_in(metrics, Metric.PREEMPTIONS, length_s)
    return AtTarget(
        ttft.p50_s if ttft else None,
        ttft.p95_s if ttft else None,
        summary.cache_hit if summary else None,
        float(np.mean(usages)) if usages else None,
        None if preempted is None or not length_s else preempted / length_s * 60.0,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return fmean(known) if len(known) == len(values) else None


# --- prices that make two equal ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The price in $/GPU-hour of ``name`` at which its tokens cost what those of ``other`` do."""

    target: float
    name: str
    other: str
    price: float
    interval: Interval | None


def break_evens(comparison: Comparison) -> tuple[BreakEven, ...]:
    """Return the price of the first run that equals each other one's; of the other one if the first
    alone has a price.
    """
    first = comparison.contenders[0]
    found = []
    for at in comparison.targets:
        for ratio, other in zip(at.ratios, comparison.contenders[1:], strict=True):
            of, sure = ratio.throughput, ratio.interval
            if of is None:
                continue
            if other.price_used is not None:
                unit = other.price_used * first.utilisation
                interval = sure and sure.times(unit)
                found.append(BreakEven(at.target, first.name, other.name, of * unit, interval))
            elif first.price_used is not None:
                unit = first.price_used * other.utilisation
                interval = sure and Interval(unit / sure.high, unit / sure.low)
                found.append(BreakEven(at.target, other.name, first.name, unit / of, interval))
    return tuple(found)


# --- capacities ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CapacityRatio:
    """Agents of the first run, per GPU where all have a GPU count, over those of another."""

    over: str
    ratio: float | None
    interval: Interval | None
    no_interval: str | None


@dataclass(frozen=True, slots=True)
class Capacities:
    """Every run by one objective, and the first against each of the others."""

    judged: tuple[Judged, ...]
    ratios: tuple[CapacityRatio, ...]


def capacities(comparison: Comparison, objective: Objective) -> Capacities:
    runs = [each.run for each in comparison.contenders]
    judged = tuple(each for run in runs for each in judge(run, [objective]))
    gpus = [run.gpus if comparison.per_gpu else 1 for run in runs]
    values = [
        [value / (count or 1) for value in each.capacity.values]
        for each, count in zip(judged, gpus, strict=True)
    ]
    ratios = []
    for other, agents in zip(comparison.contenders[1:], values[1:], strict=True):
        ratio, interval = _ratio(values[0], agents)
        why = ONE_START if ratio is not None and interval is None else None
        ratios.append(CapacityRatio(other.name, ratio, interval, why))
    return Capacities(judged, tuple(ratios))


# --- all of it -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SideBySide:
    """All of this page of a comparison; ``at_targets`` has for each target a value a run."""

    levels: tuple[LevelRow, ...]
    at_targets: tuple[tuple[AtTarget | None, ...], ...]
    break_evens: tuple[BreakEven, ...]
    capacities: tuple[Capacities, ...]


def side_by_side(comparison: Comparison, objectives: Sequence[Objective] = ()) -> SideBySide:
    runs = [each.run for each in comparison.contenders]
    return SideBySide(
        levels=level_rows(comparison),
        at_targets=tuple(tuple(at_target(r, at.target) for r in runs) for at in comparison.targets),
        break_evens=break_evens(comparison),
        capacities=tuple(capacities(comparison, each) for each in objectives),
    )


def lowest_ratio(comparison: Comparison) -> tuple[float, float] | None:
    """Return the lowest ratio of throughput, with its target; None if there is none."""
    found = [
        (ratio.throughput, at.target)
        for at in comparison.targets
        for ratio in at.ratios
        if ratio.throughput is not None
    ]
    return min(found, default=None)

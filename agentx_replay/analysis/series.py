"""Several runs of one system in different configurations as one series: the best that any of them
gives at a target.

A series is read off the upper envelope (Pareto) of all its runs' levels, between neighbours in
interactivity. Between levels of two configurations the line is one that neither of them reaches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from agentx_replay.analysis.curve import curve_of, frontier, interpolated
from agentx_replay.analysis.run import Run
from agentx_replay.analysis.starts import Interval, mean_of_starts, ratio_interval
from agentx_replay.analysis.system import configuration


@dataclass(frozen=True, slots=True)
class SeriesEnd:
    """A level that a value was read off: its run, its agents, and the facts of how the system was
    set up there, by their keys.
    """

    run: str
    concurrency: int
    configuration: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Single:
    """The run of a series that gives most at a target by itself."""

    run: str
    throughput: float


@dataclass(frozen=True, slots=True)
class SeriesValue:
    """Throughput of a series at a target; None: not reached. ``ends`` are the levels it lies
    between, ``single`` is the best run alone, None if none reaches the target.
    """

    name: str
    target: float
    throughput: float | None
    ends: tuple[SeriesEnd, ...]
    single: Single | None

    @property
    def mixed(self) -> bool:
        """Whether no single configuration gives it."""
        return len({end.run for end in self.ends}) > 1


@dataclass(frozen=True, slots=True)
class SeriesRatio:
    """The first series over another one at a target, with Welch's interval over starts."""

    over: str
    target: float
    ratio: float | None
    interval: Interval | None


Series = Mapping[str, Mapping[str, Run]]
"""Runs by name, by the name of their series."""


def series_values(series: Series, targets: Sequence[float]) -> list[list[SeriesValue]]:
    """Return for each target the value of every series."""
    return [[series_value(name, runs, at) for name, runs in series.items()] for at in targets]


def series_value(name: str, runs: Mapping[str, Run], target: float) -> SeriesValue:
    curves = {run: curve_of(of, [target]) for run, of in runs.items()}
    of_run = {id(point): run for run, curve in curves.items() for point in curve.points}
    best = frontier([point for curve in curves.values() for point in curve.points])
    alone = [Single(run, v) for run, curve in curves.items() if (v := curve.values[0].throughput)]
    single = max(alone, key=lambda each: (each.throughput, each.run), default=None)
    for slow, fast in pairwise(best) if len(best) > 1 else [(p, p) for p in best]:
        value = interpolated(slow, fast, target)
        if value is not None:
            ends = tuple(
                SeriesEnd(run, p.concurrency, configuration(runs[run].system.at(p.concurrency)))
                for p in dict.fromkeys((slow, fast))
                for run in [of_run[id(p)]]
            )
            return SeriesValue(name, target, value, ends, single)
    return SeriesValue(name, target, None, (), single)


def series_ratios(series: Series, targets: Sequence[float]) -> list[SeriesRatio]:
    """Return the first series against each other one at every target."""
    first, *others = series
    return [_ratio(series, first, other, at) for at in targets for other in others]


def _ratio(series: Series, first: str, other: str, target: float) -> SeriesRatio:
    a, b = (series_value(name, series[name], target).throughput for name in (first, other))
    if a is None or b is None:
        return SeriesRatio(other, target, None, None)
    by_start = [_by_start(series[name], target) for name in (first, other)]
    interval = ratio_interval(*by_start) if all(by_start) else None
    if interval is not None:
        a, b = (mean_of_starts(values) for values in by_start)
    return SeriesRatio(other, target, a / b, interval)


def _by_start(runs: Mapping[str, Run], target: float) -> list[float]:
    """Return what each start that all runs have gives; nothing unless all of them reach it."""
    have = [{point.facts.start for point in run.curve_points} for run in runs.values()]
    starts = sorted(set.intersection(*have))
    found = [
        series_value("", {name: run.of_starts({start}) for name, run in runs.items()}, target)
        for start in starts
    ]
    values = [each.throughput for each in found if each.throughput is not None]
    return values if len(values) == len(starts) else []

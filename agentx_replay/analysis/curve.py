"""The curve of one run with its uncertainty: points, frontier, throughput at target speeds.

What is interpolated is in ``frontier.py``, how intervals come about in ``starts.py``. Each start's
curve is interpolated by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agentx_replay.analysis.frontier import AtTarget, CurvePoint, frontier, mean_at, throughput_at
from agentx_replay.analysis.run import Run
from agentx_replay.analysis.starts import ONE_START, Interval, interval_of
from agentx_replay.analysis.throughput import Headline

DEFAULT_TARGETS = (30.0, 50.0, 150.0)
"""Interactivities in tokens/s/user: the three at which results are usually quoted."""


@dataclass(frozen=True, slots=True)
class PointInterval:
    """The 95 % intervals of one level over its starts, in its curve's units."""

    interactivity: Interval
    throughput: Interval


@dataclass(frozen=True, slots=True)
class StartValue:
    """What the curve of one start gave at a target; None: it does not reach it, and then
    ``every_level_is`` says on which side of the target its levels lie, as in ``AtTarget``.
    """

    start: int
    throughput: float | None
    every_level_is: Literal["faster", "slower"] | None = None


@dataclass(frozen=True, slots=True)
class TargetValue:
    """Throughput at a target: ``at`` is the mean over ``starts``. ``interval`` is None if none can
    be given; ``no_interval`` says why.
    """

    at: AtTarget
    starts: tuple[StartValue, ...]
    interval: Interval | None
    no_interval: str | None

    @property
    def values(self) -> list[float]:
        """What the starts that reach it gave, in order of their numbers."""
        return [each.throughput for each in self.starts if each.throughput is not None]

    @property
    def missed(self) -> list[StartValue]:
        """The starts that do not reach it, if others do."""
        missed = [each for each in self.starts if each.throughput is None]
        return missed if len(missed) < len(self.starts) else []


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


def curve_of(run: Run, targets: Sequence[float] = DEFAULT_TARGETS) -> Curve:
    """Return the curve of one run."""
    points, by_start = run.curve, run.curves
    starts: dict[int, dict[int, CurvePoint]] = {point.concurrency: {} for point in points}
    for start, curve in by_start.items():
        for point in curve:
            starts[point.concurrency][start] = point
    return Curve(
        gpus=run.gpus,
        headline_is=run.headline_is,
        points=tuple(points),
        frontier=tuple(frontier(points)),
        starts=starts,
        intervals={
            level: intervals
            for level, of in starts.items()
            if (intervals := _intervals(list(of.values()))) is not None
        },
        values=tuple(target_value(by_start, target) for target in targets),
    )


def _intervals(starts: Sequence[CurvePoint]) -> PointInterval | None:
    interactivity = interval_of([point.interactivity for point in starts])
    throughput = interval_of([point.throughput for point in starts])
    if interactivity is None or throughput is None:
        return None
    return PointInterval(interactivity, throughput)


def target_value(curves: Mapping[int, Sequence[CurvePoint]], target: float) -> TargetValue:
    """Return throughput at a target from the curves of single starts."""
    found = {start: throughput_at(points, target) for start, points in curves.items()}
    at = mean_at(list(found.values())) if found else throughput_at([], target)
    starts = tuple(
        StartValue(start, each.throughput, each.every_level_is) for start, each in found.items()
    )
    if at.throughput is None:
        return TargetValue(at, starts, None, "not reached")
    interval = interval_of([each.throughput for each in starts if each.throughput is not None])
    return TargetValue(at, starts, interval, ONE_START if interval is None else None)

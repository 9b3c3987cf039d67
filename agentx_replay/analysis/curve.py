"""The curve of one run with its uncertainty: points, frontier, throughput at target speeds.

What is interpolated is in ``frontier.py``, how intervals come about in ``bootstrap.py``; here they
are put together, and it is decided where an interval may be given at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentx_replay.analysis.bootstrap import (
    MIN_CLUSTERS,
    SEED,
    Counts,
    Interval,
    LevelSample,
    Replicates,
    draw,
    interval,
    replicate_levels,
    replicates_at,
)
from agentx_replay.analysis.frontier import AtTarget, CurvePoint, frontier, throughput_at
from agentx_replay.analysis.responses import Floats
from agentx_replay.analysis.run import Run
from agentx_replay.analysis.throughput import Headline
from agentx_replay.wording import counted

DEFAULT_TARGETS = (30.0, 50.0, 150.0)
"""Interactivities in tokens/s/user: the three at which results are usually quoted."""


@dataclass(frozen=True, slots=True)
class PointInterval:
    """The 95 % intervals of one point, in its curve's units."""

    interactivity: Interval
    throughput: Interval


@dataclass(frozen=True, slots=True)
class TargetValue:
    """Throughput at a target; ``interval`` is None where none can be given, ``no_interval`` says
    why. ``clusters`` is the fewest of the levels it was read off, 0 where it was not reached.
    """

    at: AtTarget
    clusters: int
    interval: Interval | None
    no_interval: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A run's curve. Throughput is the headline that ``headline_is`` names, per GPU where ``gpus``
    is known, else the system's.

    ``intervals`` holds those of the points with enough clusters, by concurrency; ``clusters`` how
    many each level has. ``replicates`` are of the system. ``starts`` holds the valid points that
    each level's point is the mean of, by concurrency; ``within`` the intervals of levels with
    several as if runs did not differ.
    """

    gpus: int | None
    headline_is: Headline
    points: tuple[CurvePoint, ...]
    frontier: tuple[CurvePoint, ...]
    clusters: Mapping[int, int]
    intervals: Mapping[int, PointInterval]
    values: tuple[TargetValue, ...]
    replicates: tuple[Replicates, ...]
    starts: Mapping[int, Sequence[CurvePoint]]
    within: Mapping[int, PointInterval]

    def replicates_at(self, target: float) -> Floats:
        """Return throughput at the target in every replicate, in the curve's units."""
        return replicates_at(self.replicates, target) / (self.gpus or 1)


def curve_of(run: Run, targets: Sequence[float] = DEFAULT_TARGETS) -> Curve:
    """Return the curve of one run."""
    return curve_from_draws(run, targets, draw([s.clusters for s in samples_of(run)]))


def samples_of(run: Run) -> list[LevelSample]:
    """Return the samples of the levels on the curve, and each start, by rising concurrency."""
    return [each.sample for each in run.evidence]


def curve_from_draws(
    run: Run, targets: Sequence[float], draws: Sequence[Counts], seed: int = SEED
) -> Curve:
    """Return the curve of a run whose clusters are drawn by ``draws``, one for each sample;
    ``seed`` is the run's own, for what differs between runs.
    """
    points, divisor, starts = run.curve, run.gpus or 1, run.starts
    levels = replicate_levels(samples_of(run), draws, seed)
    replicates = tuple(each.whole for each in levels)
    clusters = {each.concurrency: each.clusters for each in replicates}
    return Curve(
        gpus=run.gpus,
        headline_is=run.headline_is,
        points=tuple(points),
        frontier=tuple(frontier(points)),
        clusters=clusters,
        intervals=_intervals(replicates, divisor),
        values=tuple(
            _value(throughput_at(points, target), clusters, replicates, divisor)
            for target in targets
        ),
        replicates=replicates,
        starts=starts,
        within=_intervals(
            [each.within for each in levels if len(starts[each.within.concurrency]) > 1], divisor
        ),
    )


def _intervals(levels: Sequence[Replicates], divisor: int) -> dict[int, PointInterval]:
    """Return the intervals of the levels that have enough clusters."""
    return {
        each.concurrency: PointInterval(
            interval(each.interactivity, each.clusters),
            interval(each.throughput / divisor, each.clusters),
        )
        for each in levels
        if each.clusters >= MIN_CLUSTERS
    }


def _value(
    at: AtTarget, clusters: Mapping[int, int], replicates: Sequence[Replicates], divisor: int
) -> TargetValue:
    fewest = min((clusters[level] for level in at.between or ()), default=0)
    reason = why_no_interval(at, clusters)
    if reason is not None:
        return TargetValue(at, fewest, None, reason)
    found = interval(replicates_at(replicates, at.target) / divisor, fewest)
    return TargetValue(at, fewest, found, None)


def why_no_interval(at: AtTarget, clusters: Mapping[int, int]) -> str | None:
    """Return why no interval is given for a value: not reached, or from a level of under 10
    clusters; None where one is.
    """
    if at.between is None:
        return "not reached"
    for concurrency in at.between:
        if clusters[concurrency] < MIN_CLUSTERS:
            return (
                f"no interval: concurrency {concurrency} has "
                f"{counted(clusters[concurrency], 'cluster')} of lanes, under {MIN_CLUSTERS}"
            )
    return None

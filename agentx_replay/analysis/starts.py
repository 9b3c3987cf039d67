"""How far the starts of a level lie apart, beside what its sessions alone leave uncertain.

Not for the intervals themselves, which take this in (``bootstrap.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agentx_replay.analysis.bootstrap import Interval
from agentx_replay.analysis.curve import Curve, PointInterval

FEW_STARTS = 3
"""So many starts or fewer tell little of how far runs lie apart."""

_NO_INTERVALS = PointInterval(Interval(None, None), Interval(None, None))


@dataclass(frozen=True, slots=True)
class Scatter:
    """One number of a level over its starts. ``mean`` is what is on the curve; ``lowest`` and
    ``highest`` say where starts lie, as shares of it from it (-0.02, 0.03); ``sessions`` in the
    same way is the interval of one run, without bounds where there is none.
    """

    mean: float
    lowest: float
    highest: float
    sessions: Interval

    @property
    def exceeds(self) -> bool:
        """Whether starts lie further apart than the interval over sessions is wide."""
        low, high = self.sessions.low, self.sessions.high
        if low is None or high is None:
            return False
        return self.highest - self.lowest > high - low


@dataclass(frozen=True, slots=True)
class RunToRun:
    """What the valid ``starts`` of a level, two or more, say of how far runs differ."""

    concurrency: int
    starts: int
    interactivity: Scatter
    throughput: Scatter


def run_to_run(curve: Curve) -> list[RunToRun]:
    """Return how far starts lie apart, for every level on the curve that has several."""
    found = []
    for point in curve.points:
        starts = curve.starts[point.concurrency]
        if len(starts) < 2:
            continue
        within = curve.within.get(point.concurrency, _NO_INTERVALS)
        speeds = [each.interactivity for each in starts]
        throughputs = [each.throughput for each in starts]
        found.append(
            RunToRun(
                point.concurrency,
                len(starts),
                scatter(point.interactivity, speeds, within.interactivity),
                scatter(point.throughput, throughputs, within.throughput),
            )
        )
    return found


def scatter(mean: float, starts: Sequence[float], sessions: Interval) -> Scatter:
    """Return how far a level's starts, and the ends of an interval, lie from their mean."""
    relative = Interval(
        None if sessions.low is None else sessions.low / mean - 1.0,
        None if sessions.high is None else sessions.high / mean - 1.0,
    )
    return Scatter(mean, min(starts) / mean - 1.0, max(starts) / mean - 1.0, relative)


def measured_once(curve: Curve) -> list[int]:
    """Return the levels on the curve that have one valid point, which tells nothing of runs."""
    return [level for level, starts in curve.starts.items() if len(starts) == 1]

"""What is said of a run's starts, in the same words on screen and page.

Not for what they do to intervals (``analysis/starts.py``).
"""

from collections.abc import Sequence

from agentx_replay.analysis.bootstrap import lanes_half_width
from agentx_replay.analysis.curve import Curve
from agentx_replay.analysis.point import Point, curves_by_start
from agentx_replay.analysis.run import Run
from agentx_replay.analysis.starts import (
    CONFIDENCE,
    COVERS,
    MEASURED_SPREADS,
    MOST_NEEDED,
    Interval,
    half_width,
    spread,
    starts_needed,
)
from agentx_replay.report.numerals import ABSENT, bounds, columns, rate, throughput_unit
from agentx_replay.wording import wrapped

_APART = 1.05
"""Two systems this far apart are what a person may want to tell apart."""
_READING = (
    "a level's point is the geometric mean of its valid starts. range: where they lie around it; "
    f"{CONFIDENCE:.0%}: the interval of the mean"
)
_INTERVALS = (
    f"intervals: {CONFIDENCE:.0%}, Student's t over starts of the logarithm; they cover {COVERS}. "
    "A restart, another node or another day is not in them"
)
_ONE_START = (
    "1 start: no interval, for one start does not show how far another would lie (add starts with "
    "--resume --starts 3)"
)


def uncertainty(curves: Sequence[Curve]) -> str:
    """Return what the intervals of one or more runs cover, or why there are none."""
    several = [any(len(starts) > 1 for starts in curve.starts.values()) for curve in curves]
    if not any(several):
        return f"{_ONE_START}."
    return f"{_INTERVALS}." if all(several) else f"{_INTERVALS}. {_ONE_START}."


def start_lines(curve: Curve, points: Sequence[Point], width: int) -> list[str]:
    """Return how far starts lie apart, a line a level, after an empty line; nothing where no
    level has several.
    """
    rows = start_rows(curve, points)
    return ["", *columns(rows, left=0), *wrapped(_READING, width)] if len(rows) > 1 else []


def start_notes() -> list[str]:
    """Return how to read the rows."""
    return [_READING]


def start_rows(curve: Curve, points: Sequence[Point]) -> list[list[str]]:
    """Return a heading, and a row for each level with several valid starts among ``points``."""
    number = (f"{CONFIDENCE:.0%}", "range %")
    unit = throughput_unit(curve.gpus)  # the headline, named in the table above
    rows = [["conc", "starts", "tok/s/user", *number, unit, *number]]
    for point in curve.points:
        intervals = curve.intervals.get(point.concurrency)
        if intervals is None:
            continue
        starts = list(curve.starts[point.concurrency].values())
        measured = sum(each.concurrency == point.concurrency for each in points)
        speeds = [each.interactivity for each in starts]
        throughputs = [each.throughput for each in starts]
        rows.append(
            [
                str(point.concurrency),
                f"{len(starts)} of {measured}",
                *_cells(point.interactivity, speeds, intervals.interactivity),
                *_cells(point.throughput, throughputs, intervals.throughput),
            ]
        )
    return rows


def _cells(mean: float, starts: Sequence[float], interval: Interval) -> list[str]:
    ends = [
        f"{round((end / mean - 1.0) * 100, 1) + 0.0:+.1f}" for end in (min(starts), max(starts))
    ]
    return [rate(mean), bounds(interval), " ".join(ends)]


def lanes_lines(run: Run) -> list[str]:
    """Return what lanes alone say of throughput, by level and start; nothing without a curve."""
    found = [
        (level.point.name, lanes_half_width(level.evidence.lanes))
        for level in run.levels
        if level.evidence is not None
    ]
    said = [f"  {name}: {ABSENT if half is None else f'lanes ±{half:.1%}'}" for name, half in found]
    if not said:
        return []
    heading = (
        "throughput by concurrency, had other lanes of the same start been drawn (bootstrap; not "
        "what another start would give):"
    )
    return [heading, *said]


def planned_starts(starts: int, simulated: Sequence[Point] = ()) -> list[str]:
    """Return what so many starts a side would show of a ratio at the spreads measured before, and
    at those between the ``simulated`` starts how many would name a winner.
    """
    low, high = (f"{each:.0%}" for each in MEASURED_SPREADS)
    shown = "; ".join(
        f"{each} a side to ±{half_width(MEASURED_SPREADS[0], each):.0%} to "
        f"{half_width(MEASURED_SPREADS[1], each):.0%}"
        for each in sorted({max(starts, 3), 5})
    )
    lines = [
        f"starts show a ratio of two systems, {shown} (starts of real sessions spread by {low} to "
        f"{high})"
    ]
    if starts == 1:
        lines.append("1 start has no interval, and compare names no winner (--starts)")
    return lines + [line for level in _simulated_levels(simulated) for line in _winner(*level)]


def _simulated_levels(points: Sequence[Point]) -> list[tuple[int, list[float]]]:
    levels: dict[int, list[float]] = {}
    for curve in curves_by_start(points).values():
        for point in curve:
            levels.setdefault(point.concurrency, []).append(point.throughput)
    return sorted(levels.items())


def _winner(concurrency: int, throughputs: Sequence[float]) -> list[str]:
    if len(throughputs) < 2:
        return []
    seen = spread(throughputs)
    needed = starts_needed(_APART, (seen, seen))
    many = f"over {MOST_NEEDED}" if needed is None else f"{needed}"
    return [
        f"  concurrency {concurrency}: simulated starts spread by {seen:.1%} in throughput, so "
        f"{many} starts a side would name a winner of two systems {_APART - 1:.0%} apart"
    ]

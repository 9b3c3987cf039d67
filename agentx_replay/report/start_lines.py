"""What is said of a level's starts, in the same words on screen and page.

Not for what they do to intervals (``analysis/bootstrap.py``).
"""

from collections.abc import Mapping, Sequence

from agentx_replay.analysis.bootstrap import CONFIDENCE, MIN_CLUSTERS, REPLICATES
from agentx_replay.analysis.curve import Curve
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.starts import FEW_STARTS, Scatter, measured_once, run_to_run
from agentx_replay.report.numerals import ABSENT, columns, rate, throughput_unit
from agentx_replay.wording import wrapped

_READING = (
    "run to run: a level's point is the mean of its valid starts (speed: that of their mean P90 "
    "ITL). runs: where the starts lie around it; sessions: the "
    f"{CONFIDENCE:.0%} interval of a single run"
)


def uncertainty(curves: Mapping[str, Curve]) -> str:
    """Return what the intervals of named runs (one alone may have no name) cover and what not."""
    covers = (
        f"intervals: {CONFIDENCE:.0%} bootstrap over lanes ({REPLICATES:,} replicates; lanes with "
        f"the same first session count as one cluster; none under {MIN_CLUSTERS} clusters). They "
        "say how far the result depends on which sessions were played"
    )
    if not any(map(run_to_run, curves.values())):
        return f"{covers}, not how far it varies from run to run."
    covers += " and, by Student's t over starts, how far it varies from run to run"
    once = [
        f"{name} concurrency {', '.join(map(str, levels))}".lstrip()
        for name, curve in curves.items()
        if (levels := measured_once(curve))
    ]
    return f"{covers}; not that where measured once: {'; '.join(once)}." if once else f"{covers}."


def start_lines(curve: Curve, points: Sequence[Point], width: int) -> list[str]:
    """Return how far starts lie apart, a line a level, after an empty line; nothing where no
    level has several.
    """
    rows = start_rows(curve, points)
    if len(rows) == 1:
        return []
    notes = [part for note in start_notes(curve) for part in wrapped(note, width)]
    return ["", *columns(rows, left=0), *notes]


def start_rows(curve: Curve, points: Sequence[Point]) -> list[list[str]]:
    """Return a heading, and a row for each level with several valid starts among ``points``."""
    number = ("runs %", "sessions %")
    unit = throughput_unit(curve.gpus, curve.headline_is)
    rows = [["conc", "starts", "tok/s/user", *number, unit, *number]]
    for each in run_to_run(curve):
        measured = sum(point.concurrency == each.concurrency for point in points)
        rows.append(
            [
                str(each.concurrency),
                f"{each.starts} of {measured}",
                *_cells(each.interactivity),
                *_cells(each.throughput),
            ]
        )
    return rows


def _cells(found: Scatter) -> list[str]:
    sessions = found.sessions
    ends = [_percent(end) for end in (sessions.low, sessions.high)]
    return [
        rate(found.mean),
        f"{_percent(found.lowest)} {_percent(found.highest)}",
        ABSENT if ends == [ABSENT, ABSENT] else " ".join(ends),
    ]


def _percent(share: float | None) -> str:
    return ABSENT if share is None else f"{round(share * 100, 1) + 0.0:+.1f}"  # never -0.0


def start_notes(curve: Curve) -> list[str]:
    """Return how to read the rows, and what to mind: starts far apart, and few of them."""
    found = run_to_run(curve)
    apart = [
        f"concurrency {each.concurrency}: starts lie further apart in {' and '.join(what)} than "
        "the interval of a single run is wide, so that one run alone would claim too much"
        for each in found
        if (what := [n for n, s in _numbers(each.interactivity, each.throughput) if s.exceeds])
    ]
    few = [f"{each.concurrency} ({each.starts})" for each in found if each.starts <= FEW_STARTS]
    told = (
        f"how far runs differ is known from few starts at concurrency {', '.join(few)}: intervals "
        "are the wider for it, and more starts narrow them"
    )
    return [_READING, *apart, *([told] if few else [])]


def _numbers(speed: Scatter, throughput: Scatter) -> list[tuple[str, Scatter]]:
    return [("speed", speed), ("throughput", throughput)]

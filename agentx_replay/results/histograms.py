"""HdrHistograms of latencies, folded in bulk and written as a standard, tagged log.

Any HdrHistogram viewer opens the log. Which observations there are is the analysis's business;
here they are arrays of (instant, value, count), piece by piece. Three significant digits, 1 µs to
1 hour; values outside are counted at the nearest end. Values are recorded in ns, interval maxima
are in ms. Memory goes by intervals and values that can be told apart, not by observations.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from agentx_replay.results.durable import disk_faults_explained, write_bytes_durably
from agentx_replay.results.sums import Sums, begins
from agentx_replay.units import NS_PER_MS, NS_PER_S

LOWEST_NS = 1_000
HIGHEST_NS = 3_600_000_000_000
SIGNIFICANT_DIGITS = 3
INTERVAL_S = 10

# An HdrHistogram with these bounds keeps a value's leading 11 bits, but nothing finer than 512 ns.
_LEADING_BITS = 11
_UNIT_NS = 512
_MOST_UNITS = 1 << 33  # HIGHEST_NS in units, and so many intervals are exact in a float


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Observations of one kind, or some of them: ``at_ns`` since the point's origin, ``value_ns``,
    both of shape ``(n,)``; ``count`` says how often each was seen (None: once) and may be
    fractional.
    """

    tag: str
    at_ns: NDArray[np.float64]
    value_ns: NDArray[np.float64]
    count: NDArray[np.float64] | None = None


def new_histogram() -> HdrHistogram:
    """Return an empty histogram with the bounds and digits of this module."""
    return HdrHistogram(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS)


def fold(pieces: Iterable[Series]) -> Iterator[tuple[str, int, HdrHistogram]]:
    """Yield (tag, interval index, histogram) for each 10 s interval that has an observation.

    A tag's observations may come in several pieces. An observation belongs to the interval of its
    event. Fractional counts are rounded so that their running sum is never off by more than half.
    """
    by_tag: dict[str, _Counts] = {}
    for piece in pieces:
        by_tag.setdefault(piece.tag, _Counts()).add(piece)
    for tag, counts in by_tag.items():
        for interval, histogram in counts.histograms():
            yield tag, interval, histogram


class _Counts:
    """How often each interval saw each distinguishable value, of one tag."""

    __slots__ = ("_cells", "_running")

    def __init__(self) -> None:
        self._cells = Sums()
        self._running = 0.0

    def add(self, piece: Series) -> None:
        interval = piece.at_ns // (INTERVAL_S * NS_PER_S)
        cells = interval * _MOST_UNITS + lowest_equal_ns(piece.value_ns) // _UNIT_NS
        self._cells.add(cells, None if piece.count is None else self._whole(piece.count))

    def histograms(self) -> Iterator[tuple[int, HdrHistogram]]:
        cells, totals = (each.astype(np.int64) for each in self._cells.seen())
        cells, totals = cells[totals > 0], totals[totals > 0]
        interval, lowest_ns = cells // _MOST_UNITS, cells % _MOST_UNITS * _UNIT_NS
        starts = np.flatnonzero(begins(interval))
        for first, end in pairwise([*starts, len(cells)]):
            histogram = new_histogram()
            values, times = lowest_ns[first:end].tolist(), totals[first:end].tolist()
            for value, total in zip(values, times, strict=True):
                histogram.record_value(value, total)
            yield int(interval[first]), histogram

    def _whole(self, count: NDArray[np.float64]) -> NDArray[np.float64]:
        """Round fractional counts, going on from the running sum of the pieces before."""
        running = np.cumsum(np.concatenate([[self._running], count]))
        self._running = float(running[-1])
        return np.diff(np.rint(running))


def lowest_equal_ns(value_ns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the lowest value that a histogram cannot tell from each value."""
    whole = np.clip(np.rint(value_ns), 0, HIGHEST_NS)
    _, bits = np.frexp(whole)
    step = np.maximum(np.ldexp(1.0, bits - _LEADING_BITS), _UNIT_NS)
    lowest: NDArray[np.float64] = whole // step * step
    return lowest


def write_log(path: Path, pieces: Iterable[Series], origin_unix_s: float) -> None:
    """Write all series, by interval and tag, as an HdrHistogram log.

    ``origin_unix_s`` is the wall-clock time of the point's origin; interval starts in the log
    count from it. Raises ``UsageError`` where the disk refuses.
    """
    lines = [
        (interval, tag, _line(tag, interval, histogram))
        for tag, interval, histogram in fold(pieces)
    ]
    header = [
        "#[Histogram log format version 1.3]",
        f"#[BaseTime: {origin_unix_s:.3f} (seconds since epoch)]",
        f"#[StartTime: {origin_unix_s:.3f} (seconds since epoch)]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    body = "\n".join([*header, *(line for _, _, line in sorted(lines))]) + "\n"
    with disk_faults_explained(path):
        write_bytes_durably(path, body.encode())


def _line(tag: str, interval: int, histogram: HdrHistogram) -> str:
    maximum_ms = histogram.get_max_value() / NS_PER_MS
    payload = histogram.encode().decode()
    return f"Tag={tag},{interval * INTERVAL_S:.3f},{INTERVAL_S:.3f},{maximum_ms:.3f},{payload}"

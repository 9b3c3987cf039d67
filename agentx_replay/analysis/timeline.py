"""A level over time, as pictures need it: in flight, cache hit, and what each lane was doing.

Times are seconds since the window opened. Not for numbers that are compared: those are of the
whole window.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from agentx_replay.analysis.responses import Floats, Mask, possible_cached
from agentx_replay.analysis.window import Window

TIMELINE_COLUMNS = (
    "lane",
    "stream",
    "status",
    "send_ns",
    "first_token_ns",
    "end_ns",
    "prompt_tokens",
    "cached_tokens",
    "planned_prompt_tokens",
    "reusable_tokens",
)
_NS = 1_000_000_000
_GOOD = ("ok", "length_mismatch")


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Every request of a level, warm-up included; times in s since the window opened.

    ``first_s`` is when its first token came, its end where none did. ``cached`` is NaN where the
    server did not tell, or told more than the prompt has.
    """

    lane: NDArray[np.int64]
    is_main: Mask
    good: Mask
    send_s: Floats
    first_s: Floats
    end_s: Floats
    prompt: Floats
    cached: Floats
    planned: Floats
    reusable: Floats

    def __len__(self) -> int:
        return len(self.lane)


def requests_of(table: pa.Table, window: Window) -> Requests:
    """Return the requests of a level from ``TIMELINE_COLUMNS``."""

    def floats(name: str) -> Floats:
        values: Floats = table[name].cast(pa.float64()).to_numpy(zero_copy_only=False)
        return values

    def seconds(name: str) -> Floats:
        return (floats(name) - window.open_ns) / _NS

    prompt = floats("prompt_tokens")
    end_s, first_s = seconds("end_ns"), seconds("first_token_ns")
    return Requests(
        lane=table["lane"].to_numpy().astype(np.int64),
        is_main=table["stream"].to_numpy() == 0,
        good=np.isin(np.array(table["status"].to_pylist(), np.str_), _GOOD),
        send_s=seconds("send_ns"),
        first_s=np.where(np.isnan(first_s), end_s, first_s),
        end_s=end_s,
        prompt=prompt,
        cached=possible_cached(floats("cached_tokens"), prompt),
        planned=floats("planned_prompt_tokens"),
        reusable=floats("reusable_tokens"),
    )


def mean_alive(start_s: Floats, end_s: Floats, edges_s: Floats) -> Floats:
    """Return how many of the spans [start, end) are alive on average between each two edges."""
    lived_s = _lived(start_s, edges_s) - _lived(end_s, edges_s)
    return np.diff(lived_s) / np.diff(edges_s)


def _lived(since_s: Floats, until_s: Floats) -> Floats:
    """Return the sum of what has passed since each instant, at each of ``until_s``."""
    ordered = np.sort(since_s)
    begun = np.searchsorted(ordered, until_s)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    lived: Floats = begun * until_s - sums[begun]
    return lived


def share_over_time(part: Floats, whole: Floats, at_s: Floats, edges_s: Floats) -> Floats:
    """Return Σ part / Σ whole of what happened between each two edges; NaN where nothing did."""
    known = ~np.isnan(part) & ~np.isnan(whole)
    sums = [np.histogram(at_s[known], edges_s, weights=w[known])[0] for w in (part, whole)]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sums[1] > 0, sums[0] / sums[1], np.nan)


@dataclass(frozen=True, slots=True)
class Runs:
    """Horizontal runs of a grid of lanes × columns: ``row``, first column, number of columns."""

    row: NDArray[np.int64]
    start: NDArray[np.int64]
    length: NDArray[np.int64]


def lane_runs(
    lane: NDArray[np.int64], start_s: Floats, end_s: Floats, lanes: int, edges_s: Floats
) -> Runs:
    """Return the columns between ``edges_s`` (evenly spaced) in which a lane had a span, as runs.

    A span shows in every column that it touches, so that none is too short to be seen.
    """
    columns = len(edges_s) - 1
    scale = columns / (edges_s[-1] - edges_s[0])
    kept = (end_s >= edges_s[0]) & (start_s < edges_s[-1])
    first = np.clip((start_s[kept] - edges_s[0]) * scale, 0, columns - 1).astype(np.int64)
    last = np.clip((end_s[kept] - edges_s[0]) * scale, 0, columns - 1).astype(np.int64)
    steps = np.zeros((lanes, columns + 2), np.int64)
    np.add.at(steps, (lane[kept], first + 1), 1)
    np.add.at(steps, (lane[kept], last + 2), -1)
    busy = (np.cumsum(steps, axis=1) > 0).astype(np.int8)
    changes = np.diff(busy, axis=1, append=0)
    row, start = np.nonzero(changes == 1)
    _, end = np.nonzero(changes == -1)
    return Runs(row, start, end - start)

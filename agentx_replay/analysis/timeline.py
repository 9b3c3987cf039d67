"""A level over time, as pictures need it: in flight, cache hit, and what each lane was doing.

Times are seconds since the window opened. Not for numbers that are compared: those are of the
whole window.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentx_replay.analysis.responses import Floats, Mask, Requests, Window, came_ns, measured
from agentx_replay.units import NS_PER_S


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Every request of a level, warm-up included; times in s since the window opened.

    ``first_s`` is when its first token came, its end where none did.
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


def timeline_of(requests: Requests, window: Window) -> Timeline:
    send_s, first_s, end_s = (
        (at_ns - window.open_ns) / NS_PER_S
        for at_ns in (requests.send_ns, came_ns(requests), requests.end_ns)
    )
    return Timeline(
        lane=requests.lane,
        is_main=requests.conversation == 0,
        good=measured(requests),
        send_s=send_s,
        first_s=first_s,
        end_s=end_s,
        prompt=requests.prompt_tokens,
        cached=requests.cached_tokens,
        planned=requests.planned_prompt_tokens,
        reusable=requests.reusable_tokens,
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

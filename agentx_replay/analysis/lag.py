"""How late the workers' event loops were, from the timers that each of them fired.

A worker arms a timer every 10 ms; one that fires late says that the worker looked at nothing in
between: at no socket either. Each worker is looked at by itself, and a stall weighs by its length,
so that neither the samples of other workers nor those of a quiet second hide it.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from agentx_replay.analysis.percentiles import percentiles
from agentx_replay.analysis.responses import Floats, Mask, Responses
from agentx_replay.analysis.window import Window
from agentx_replay.results.histograms import Series

_NS = 1_000_000_000
PERIOD_NS = 10_000_000
"""Between two timers of a worker; one that is later than this has kept others from being due."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples of workers' event loops, all of shape ``(samples,)``: worker number, instant since
    the point's origin, how late a timer fired, and CPU time used by then.
    """

    worker: NDArray[np.int64]
    at_ns: NDArray[np.int64]
    loop_lag_ns: NDArray[np.int64]
    cpu_ns: NDArray[np.int64]

    def where(self, kept: Mask | NDArray[np.int64]) -> "Samples":
        """Return the samples in ``kept``: a mask, or their places in the order wanted."""
        return Samples(
            self.worker[kept], self.at_ns[kept], self.loop_lag_ns[kept], self.cpu_ns[kept]
        )

    def within(self, window: Window) -> "Samples":
        """Return the samples taken while the window was open."""
        return self.where((self.at_ns >= window.open_ns) & (self.at_ns < window.close_ns))

    def by_worker(self) -> "list[Samples]":
        """Return each worker's own samples, in order of time."""
        order = np.lexsort((self.at_ns, self.worker))
        ordered = self.where(order)
        return [ordered.where(ordered.worker == worker) for worker in np.unique(self.worker)]


def samples_of(table: pa.Table) -> Samples | None:
    """Return the samples of ``instrument.parquet``; None where there are none."""
    names = ("worker", "at_ns", "loop_lag_ns", "cpu_ns")
    return Samples(*(table[name].to_numpy() for name in names)) if len(table) else None


def lag_p99_ns(samples: Samples) -> float | None:
    """Return the P99 of the loop lag of the worker in which it is highest; None without samples.

    Every timer that was due in a stall counts, though one alone fired at its end.
    """
    found = [
        percentiles(_every_timer(own.loop_lag_ns)[1], (0.99,))[0] for own in samples.by_worker()
    ]
    return max(found, default=None)


def lag_p99_by_second(samples: Samples) -> dict[int, float]:
    """Return the same for each second (since the origin) with samples, in ns."""
    highest: dict[int, float] = {}
    for own in samples.by_worker():
        for second, lag_ns in _p99_by_second(own).items():
            highest[second] = max(lag_ns, highest.get(second, 0.0))
    return dict(sorted(highest.items()))


def _p99_by_second(own: Samples) -> dict[int, float]:
    of, lag_ns = _every_timer(own.loop_lag_ns)
    seconds, starts = np.unique((own.at_ns // _NS)[of], return_index=True)
    groups = np.split(lag_ns, starts[1:])
    return {
        int(second): percentiles(group, (0.99,))[0]
        for second, group in zip(seconds, groups, strict=True)
    }


def _every_timer(lag_ns: NDArray[np.int64]) -> tuple[NDArray[np.int64], Floats]:
    """Return how late every timer was that was due, and which sample (index) says so.

    One that fired 25 ms late kept two others from being armed, which had been 15 and 5 ms late.
    """
    timers = np.maximum(lag_ns, 0) // PERIOD_NS + 1
    of = np.repeat(np.arange(len(lag_ns)), timers)
    place = np.arange(len(of)) - np.repeat(np.cumsum(timers) - timers, timers)
    return of, (lag_ns[of] - place * PERIOD_NS).astype(np.float64)


def workers_of(lane: NDArray[np.int64], samples: Samples) -> NDArray[np.int64]:
    """Return which worker played each lane: worker k of w plays the lanes k, k + w, k + 2w, …"""
    workers = int(samples.worker.max()) + 1 if len(samples.worker) else 1
    return lane % workers


def late_ns(samples: Samples, worker: NDArray[np.int64], at_ns: Floats) -> Floats:
    """Return by how much a timestamp that ``worker`` took at an instant may be late, at most.

    A stall is seen by the timer at its end: what is read then, or in the turn after it, may have
    come at any time since the timer before. Where no timer was late the P99 of the second holds.
    Shape ``(timestamps,)``; 0 where the instant is NaN, and for a worker without samples.
    """
    found = np.zeros(len(at_ns))
    for own in samples.by_worker():
        chosen = (worker == own.worker[0]) & ~np.isnan(at_ns)
        found[chosen] = np.maximum(
            _since_last_look_ns(own, at_ns[chosen]), _second_ns(own, at_ns[chosen])
        )
    return found


def _since_last_look_ns(own: Samples, at_ns: Floats) -> Floats:
    """Return how long before each instant the worker's loop is known to have looked at its sockets,
    where a timer at the instant or the one before it was late; else how late these two were.
    """
    fired_ns = own.at_ns.astype(np.float64)
    lag_ns = own.loop_lag_ns.astype(np.float64)
    looked_ns = np.concatenate(([fired_ns[0] - lag_ns[0] - PERIOD_NS], fired_ns))
    lag_ns = np.concatenate(([0.0], lag_ns, [0.0]))
    # Timer ``after - 1`` is the last before the instant, timer ``after`` the one it waits for.
    after = np.searchsorted(fired_ns, at_ns)
    waits, before = lag_ns[after + 1], lag_ns[after]
    end_ns = np.where(after == len(fired_ns), at_ns - fired_ns[-1] - PERIOD_NS, 0.0)
    stalled = np.maximum(
        np.where(waits > PERIOD_NS, at_ns - looked_ns[after], 0.0),
        np.where(before > PERIOD_NS, at_ns - looked_ns[np.maximum(after - 1, 0)], 0.0),
    )
    near_ns = np.maximum(np.minimum(waits, PERIOD_NS), before)
    late: Floats = np.maximum(stalled, np.maximum(near_ns, end_ns))
    return late


def _second_ns(own: Samples, at_ns: Floats) -> Floats:
    lags = _p99_by_second(own)
    return np.array([lags.get(second, 0.0) for second in (at_ns // _NS).astype(np.int64).tolist()])


def longest_stall_ns(samples: Samples, worker: NDArray[np.int64], responses: Responses) -> Floats:
    """Return the longest stall of its worker while each response was in flight; 0 without one.

    A stall is a timer that was late by over a period; it lasted about as long as that.
    """
    found = np.zeros(len(responses))
    for own in samples.by_worker():
        late = own.where(own.loop_lag_ns > PERIOD_NS)
        if not len(late.at_ns):
            continue
        chosen = np.flatnonzero(worker == own.worker[0])
        first = np.searchsorted(late.at_ns, responses.send_ns[chosen])
        last = np.searchsorted(late.at_ns - late.loop_lag_ns, responses.end_ns[chosen], "right")
        has = last > first
        places = np.column_stack((first, last))[has].ravel()
        lengths = np.append(late.loop_lag_ns, 0)  # a place may be the end
        if len(places):
            found[chosen[has]] = np.maximum.reduceat(lengths, places)[::2]
    return found


def loop_lag_series(samples: Samples, window: Window) -> Series:
    """Return the loop lag in the window, for the histogram log."""
    inside = samples.within(window)
    return Series(
        "loop_lag", inside.at_ns.astype(np.float64), inside.loop_lag_ns.astype(np.float64)
    )

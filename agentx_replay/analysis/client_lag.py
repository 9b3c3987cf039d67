"""The client's own error: its send lag, loop lag, CPU and timestamps, as pure functions of samples.

A worker arms a timer every 10 ms. Each worker is judged by its own timers, and a stall weighs by
its length, so that neither the samples of other workers nor a quiet second hide it. Whether the
client was the bottleneck is judged in ``findings.py``.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from agentx_replay.analysis.latency import present, response_itl, send_lag_ns, ttft_ns
from agentx_replay.analysis.percentiles import percentiles
from agentx_replay.analysis.responses import (
    Floats,
    Mask,
    Responses,
    Window,
    happened_in,
    measured,
)
from agentx_replay.results.histograms import Series
from agentx_replay.units import NS_PER_S

PERIOD_NS = 10_000_000
"""Between two timers of a worker; one that is later than this has kept others from being due."""
CPU_SPAN_S = 10
STALL_NS = 50_000_000
_STALL_OF_A_RESPONSE = 0.025
"""A response is marked by a stall that is longer than this share of it, and than ``STALL_NS``."""

Timestamps = Literal["kernel", "process"]


@dataclass(frozen=True, slots=True)
class InstrumentReport:
    """The instrument's own error; None without samples, or without anything to measure it on.

    ``itl_shift`` and ``ttft_shift`` are how far, relatively, the P90 response ITL and the P90 TTFT
    may be from the truth. ``stalled_share`` is of the measured responses, those in flight while
    their worker stood still; None where the kernel took the timestamps. ``late_event_share`` is of
    their token events, those whose timestamp is only an upper bound.
    """

    send_lag_p99_s: float | None
    loop_lag_p99_s: float | None
    itl_shift: float | None
    busiest_cpu_share: float | None
    ttft_shift: float | None = None
    stalled_share: float | None = None
    late_event_share: float | None = None
    timestamps: Timestamps = "process"


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
        return self.where(happened_in(self.at_ns, window))

    def by_worker(self) -> "list[Samples]":
        ordered = self.where(np.lexsort((self.at_ns, self.worker)))
        return [ordered.where(ordered.worker == worker) for worker in np.unique(self.worker)]


def samples_of(table: pa.Table) -> Samples | None:
    names = ("worker", "at_ns", "loop_lag_ns", "cpu_ns")
    return Samples(*(table[name].to_numpy() for name in names)) if len(table) else None


def examine(
    window_set: Responses, window: Window, samples: Samples, timestamps: Timestamps
) -> InstrumentReport:
    """Return the instrument's error in the responses sent in a window. ``timestamps`` says who took
    them.
    """
    ok = window_set.where(measured(window_set))
    lags = present(send_lag_ns(window_set))
    inside = samples.within(window)
    loop_lag_ns, events = lag_p99_ns(inside), int(ok.event_counts.sum())
    return InstrumentReport(
        send_lag_p99_s=percentiles(lags, (0.99,))[0] / NS_PER_S if len(lags) else None,
        loop_lag_p99_s=None if loop_lag_ns is None else loop_lag_ns / NS_PER_S,
        itl_shift=itl_shift(ok),
        busiest_cpu_share=busiest_cpu_share(inside),
        ttft_shift=ttft_shift(ok),
        stalled_share=_stalled_share(ok, samples) if timestamps == "process" else None,
        late_event_share=float(np.nansum(ok.late_events)) / events if events else None,
        timestamps=timestamps,
    )


# --- how far late timestamps can move a P90 -------------------------------------------------------


def itl_shift(ok: Responses) -> float | None:
    """Return how far, relatively, the P90 response ITL may be from the truth.

    At worst every first token came early and every last one on time, or the other way round. A
    response that the client read all at once, late, has no ITL: it had one, of up to its interval.
    None where there is no ITL, or it is 0.
    """
    itl, (first_ns, last_ns, _) = response_itl(ok), _uncertainties_ns(ok)
    has = ~np.isnan(itl.itl_ns)
    itl_ns, later = itl.itl_ns[has], itl.later_tokens[has]
    at_once = ~has & (ok.event_counts > 1) & (first_ns > 0)
    longest_ns = first_ns[at_once] / (ok.event_counts[at_once] - 1.0)
    return _shift(
        itl_ns,
        np.append(itl_ns - last_ns[has] / later, np.zeros(len(longest_ns))),
        np.append(itl_ns + first_ns[has] / later, longest_ns),
    )


def ttft_shift(ok: Responses) -> float | None:
    """Return how far, relatively, the P90 TTFT may be from the truth: it is too long, if at all."""
    ttft, (first_ns, _, send_ns) = ttft_ns(ok), _uncertainties_ns(ok)
    has = ~np.isnan(ttft)
    return _shift(ttft[has], (ttft - first_ns - send_ns)[has], ttft[has])


def _uncertainties_ns(ok: Responses) -> tuple[Floats, Floats, Floats]:
    """Return by how much the first and the last token may have come before their timestamps, and
    the request have left after its own, at most.
    """
    return (
        np.nan_to_num(ok.first_token_uncertainty_ns),
        np.nan_to_num(ok.last_token_uncertainty_ns),
        np.nan_to_num(ok.send_uncertainty_ns),
    )


def _shift(values: Floats, low: Floats, high: Floats) -> float | None:
    if not len(values):
        return None
    measured, lowest, highest = (percentiles(each, (0.9,))[0] for each in (values, low, high))
    return max(highest - measured, measured - lowest) / measured if measured > 0 else None


# --- how late the workers' loops were -------------------------------------------------------------


def lag_p99_ns(samples: Samples) -> float | None:
    """Return the P99 of the loop lag of the worker in which it is highest; None without samples.

    Every timer that was due in a stall counts, though one alone fired at its end.
    """
    lags = [_every_timer(own.loop_lag_ns)[1] for own in samples.by_worker()]
    return max((percentiles(lag_ns, (0.99,))[0] for lag_ns in lags), default=None)


def lag_p99_by_second(samples: Samples) -> dict[int, float]:
    """Return the same for each second (since the origin) with samples, in ns."""
    highest: dict[int, float] = {}
    for own in samples.by_worker():
        of, lag_ns = _every_timer(own.loop_lag_ns)
        seconds, starts = np.unique((own.at_ns // NS_PER_S)[of], return_index=True)
        for second, group in zip(seconds.tolist(), np.split(lag_ns, starts[1:]), strict=True):
            highest[second] = max(percentiles(group, (0.99,))[0], highest.get(second, 0.0))
    return dict(sorted(highest.items()))


def _every_timer(lag_ns: NDArray[np.int64]) -> tuple[NDArray[np.int64], Floats]:
    """Return how late every timer was that was due, and which sample (index) says so.

    One that fired 25 ms late kept two others from being armed, which had been 15 and 5 ms late.
    """
    timers = np.maximum(lag_ns, 0) // PERIOD_NS + 1
    of = np.repeat(np.arange(len(lag_ns)), timers)
    place = np.arange(len(of)) - np.repeat(np.cumsum(timers) - timers, timers)
    return of, (lag_ns[of] - place * PERIOD_NS).astype(np.float64)


def loop_lag_series(samples: Samples, window: Window) -> Series:
    inside = samples.within(window)
    return Series("loop_lag", inside.at_ns.astype(float), inside.loop_lag_ns.astype(float))


def busiest_cpu_share(samples: Samples) -> float | None:
    """Return the highest share of a core a worker used over any 10 s (its whole run, if shorter).

    None where no worker has two samples.
    """
    shares = [share for own in samples.by_worker() for share in _cpu_shares(own)]
    return max(shares, default=None)


def _cpu_shares(own: Samples) -> list[float]:
    at_ns, cpu_ns = own.at_ns, own.cpu_ns
    if at_ns[-1] - at_ns[0] <= CPU_SPAN_S * NS_PER_S:
        starts, stops = np.array([0]), np.array([len(at_ns) - 1])
    else:
        stops = np.searchsorted(at_ns, at_ns + CPU_SPAN_S * NS_PER_S)
        starts = np.flatnonzero(stops < len(at_ns))
        stops = stops[starts]
    spans = at_ns[stops] - at_ns[starts]
    used = cpu_ns[stops] - cpu_ns[starts]
    return [float(u / s) for u, s in zip(used, spans, strict=True) if s]


def _stalled_share(ok: Responses, samples: Samples) -> float | None:
    if not len(ok):
        return None
    stall_ns = longest_stall_ns(samples, ok)
    lasted_ns = np.nan_to_num(ok.last_token_ns - ok.first_token_ns)
    return float(np.mean(stall_ns > np.maximum(STALL_NS, _STALL_OF_A_RESPONSE * lasted_ns)))


def longest_stall_ns(samples: Samples, responses: Responses) -> Floats:
    """Return the longest stall of its worker while each response was in flight; 0 without one.

    A stall is a timer that was late by over a period; it lasted about as long as that. Worker k of
    w played the lanes k, k + w, k + 2w, …
    """
    worker = responses.lane % (int(samples.worker.max(initial=0)) + 1)
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

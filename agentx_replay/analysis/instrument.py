"""The client's own error: its send lag, loop lag and CPU, as pure functions of samples.

Whether it was the bottleneck is judged in ``findings.py``.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from agentx_replay.analysis.latency import present, response_itl, send_lag_ns
from agentx_replay.analysis.percentiles import percentiles
from agentx_replay.analysis.responses import Floats, Responses
from agentx_replay.analysis.window import Window, measured, sent_in
from agentx_replay.results.histograms import Series

_NS = 1_000_000_000
CPU_SPAN_S = 10


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples of workers' event loops, all of shape ``(samples,)``: worker number, instant since
    the point's origin, how late a timer fired, and CPU time used by then.
    """

    worker: NDArray[np.int64]
    at_ns: NDArray[np.int64]
    loop_lag_ns: NDArray[np.int64]
    cpu_ns: NDArray[np.int64]

    def within(self, window: Window) -> "Samples":
        """Return the samples taken while the window was open."""
        inside = (self.at_ns >= window.open_ns) & (self.at_ns < window.close_ns)
        return Samples(
            self.worker[inside], self.at_ns[inside], self.loop_lag_ns[inside], self.cpu_ns[inside]
        )


def samples_of(table: pa.Table) -> Samples | None:
    """Return the samples of ``instrument.parquet``; None where there are none."""
    names = ("worker", "at_ns", "loop_lag_ns", "cpu_ns")
    return Samples(*(table[name].to_numpy() for name in names)) if len(table) else None


@dataclass(frozen=True, slots=True)
class InstrumentReport:
    """The instrument's own error. ``itl_shift`` is how far, relatively, the P90 response ITL
    could move by late stamps. None where there are no samples, or nothing to shift.
    """

    send_lag_p99_s: float | None
    loop_lag_p99_s: float | None
    itl_shift: float | None
    busiest_cpu_share: float | None


def lag_p99_by_second(samples: Samples) -> dict[int, float]:
    """Return the P99 of the loop lag in ns for each second (since the origin) with samples."""
    if not len(samples.at_ns):
        return {}
    second = samples.at_ns // _NS
    order = np.argsort(second, kind="stable")
    seconds, starts = np.unique(second[order], return_index=True)
    groups = np.split(samples.loop_lag_ns[order], starts[1:])
    return {
        int(s): percentiles(group.astype(np.float64), (0.99,))[0]
        for s, group in zip(seconds, groups, strict=True)
    }


def itl_shift(ok: Responses, lag_by_second: dict[int, float]) -> float | None:
    """Return how far the P90 response ITL could be off, relatively, because stamps are late.

    A stamp may be late by anything up to the loop lag P99 of its second: at worst the first stamp
    of every response is late and the last is not, or the other way round.
    """
    itl = response_itl(ok)
    has = ~np.isnan(itl.itl_ns)
    if not has.any() or not lag_by_second:
        return None
    later, itl_ns = itl.later_tokens[has], itl.itl_ns[has]
    first_late = itl_ns + _lag_at(ok.first_token_ns[has], lag_by_second) / later
    last_late = itl_ns - _lag_at(ok.last_token_ns[has], lag_by_second) / later
    measured_ns, high_ns, low_ns = (
        percentiles(values, (0.9,))[0] for values in (itl_ns, first_late, last_late)
    )
    if not measured_ns:
        return None
    return max(high_ns - measured_ns, measured_ns - low_ns) / measured_ns


def _lag_at(at_ns: Floats, lag_by_second: dict[int, float]) -> Floats:
    seconds = (at_ns // _NS).astype(np.int64).tolist()
    return np.array([lag_by_second.get(second, 0.0) for second in seconds])


def busiest_cpu_share(samples: Samples) -> float | None:
    """Return the highest share of a core a worker used over any 10 s (its whole run, if shorter).

    None where no worker has two samples.
    """
    shares = [
        share
        for worker in np.unique(samples.worker)
        for share in _cpu_shares(samples, samples.worker == worker)
    ]
    return max(shares, default=None)


def _cpu_shares(samples: Samples, mask: NDArray[np.bool_]) -> list[float]:
    order = np.argsort(samples.at_ns[mask], kind="stable")
    at_ns, cpu_ns = samples.at_ns[mask][order], samples.cpu_ns[mask][order]
    if at_ns[-1] - at_ns[0] <= CPU_SPAN_S * _NS:
        starts, stops = np.array([0]), np.array([len(at_ns) - 1])
    else:
        stops = np.searchsorted(at_ns, at_ns + CPU_SPAN_S * _NS)
        starts = np.flatnonzero(stops < len(at_ns))
        stops = stops[starts]
    spans = at_ns[stops] - at_ns[starts]
    used = cpu_ns[stops] - cpu_ns[starts]
    return [float(u / s) for u, s in zip(used, spans, strict=True) if s]


def examine(responses: Responses, window: Window, samples: Samples) -> InstrumentReport:
    """Return the instrument's error in one point."""
    window_set = sent_in(responses, window)
    ok = window_set.where(measured(window_set))
    lags = present(send_lag_ns(window_set))
    loop_lags = samples.within(window).loop_lag_ns.astype(np.float64)
    send_lag_s = percentiles(lags, (0.99,))[0] / _NS if len(lags) else None
    loop_lag_s = percentiles(loop_lags, (0.99,))[0] / _NS if len(loop_lags) else None
    shift = itl_shift(ok, lag_p99_by_second(samples))
    cpu = busiest_cpu_share(samples.within(window))
    return InstrumentReport(
        send_lag_p99_s=send_lag_s,
        loop_lag_p99_s=loop_lag_s,
        itl_shift=shift,
        busiest_cpu_share=cpu,
    )


def loop_lag_series(samples: Samples, window: Window) -> Series:
    """Return the loop lag in the window, for the histogram log."""
    inside = samples.within(window)
    return Series(
        "loop_lag", inside.at_ns.astype(np.float64), inside.loop_lag_ns.astype(np.float64)
    )

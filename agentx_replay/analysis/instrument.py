"""The client's own error: its send lag, loop lag, CPU and timestamps, as pure functions of samples.

Whether it was the bottleneck is judged in ``findings.py``.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from agentx_replay.analysis.lag import Samples, lag_p99_ns, longest_stall_ns, workers_of
from agentx_replay.analysis.latency import present, send_lag_ns
from agentx_replay.analysis.percentiles import percentiles
from agentx_replay.analysis.responses import Responses
from agentx_replay.analysis.timestamps import (
    itl_shift,
    recorded_intervals,
    ttft_shift,
    widened_by_lag,
)
from agentx_replay.analysis.window import Window, measured, sent_in

_NS = 1_000_000_000
CPU_SPAN_S = 10
STALL_NS = 50_000_000
_STALL_OF_A_RESPONSE = 0.025
"""A response is marked by a stall that is longer than this share of it, and than ``STALL_NS``."""

Timestamps = Literal["kernel", "process"]


@dataclass(frozen=True, slots=True)
class InstrumentReport:
    """The instrument's own error; None where there are no samples, or nothing to tell it of.

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


def busiest_cpu_share(samples: Samples) -> float | None:
    """Return the highest share of a core a worker used over any 10 s (its whole run, if shorter).

    None where no worker has two samples.
    """
    shares = [share for own in samples.by_worker() for share in _cpu_shares(own)]
    return max(shares, default=None)


def _cpu_shares(own: Samples) -> list[float]:
    at_ns, cpu_ns = own.at_ns, own.cpu_ns
    if at_ns[-1] - at_ns[0] <= CPU_SPAN_S * _NS:
        starts, stops = np.array([0]), np.array([len(at_ns) - 1])
    else:
        stops = np.searchsorted(at_ns, at_ns + CPU_SPAN_S * _NS)
        starts = np.flatnonzero(stops < len(at_ns))
        stops = stops[starts]
    spans = at_ns[stops] - at_ns[starts]
    used = cpu_ns[stops] - cpu_ns[starts]
    return [float(u / s) for u, s in zip(used, spans, strict=True) if s]


def examine(
    responses: Responses, window: Window, samples: Samples, timestamps: Timestamps
) -> InstrumentReport:
    """Return the instrument's error in one point. ``timestamps`` says who took them."""
    window_set = sent_in(responses, window)
    ok = window_set.where(measured(window_set))
    lags = present(send_lag_ns(window_set))
    loop_lag_ns = lag_p99_ns(samples.within(window))
    intervals = recorded_intervals(ok)
    by_process = timestamps == "process"
    if by_process:
        intervals = widened_by_lag(intervals, ok, samples)
    return InstrumentReport(
        send_lag_p99_s=percentiles(lags, (0.99,))[0] / _NS if len(lags) else None,
        loop_lag_p99_s=None if loop_lag_ns is None else loop_lag_ns / _NS,
        itl_shift=itl_shift(ok, intervals),
        busiest_cpu_share=busiest_cpu_share(samples.within(window)),
        ttft_shift=ttft_shift(ok, intervals),
        stalled_share=_stalled_share(ok, samples) if by_process else None,
        late_event_share=_late_event_share(ok),
        timestamps=timestamps,
    )


def _stalled_share(ok: Responses, samples: Samples) -> float | None:
    """Return the share of responses whose worker stood still for long while they were in flight."""
    if not len(ok):
        return None
    stall_ns = longest_stall_ns(samples, workers_of(ok.lane, samples), ok)
    lasted_ns = np.nan_to_num(ok.last_token_ns - ok.first_token_ns)
    marked = stall_ns > np.maximum(STALL_NS, _STALL_OF_A_RESPONSE * lasted_ns)
    return float(np.mean(marked))


def _late_event_share(ok: Responses) -> float | None:
    events = int(ok.event_counts.sum())
    return float(np.nansum(ok.late_events)) / events if events else None

"""How far timestamps that may be late can move a level's P90 ITL and its P90 TTFT.

Every timestamp is an upper bound: the truth lies in [timestamp − uncertainty, timestamp]. A
kernel's carry their own intervals; a process's are as late as its event loop may have been.
"""

from dataclasses import dataclass

import numpy as np

from agentx_replay.analysis.lag import Samples, late_ns, workers_of
from agentx_replay.analysis.latency import response_itl, ttft_ns
from agentx_replay.analysis.percentiles import percentiles
from agentx_replay.analysis.responses import Floats, Responses

_MEASURED = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """By how much each response's first and last token may have come before its timestamp, and its
    request have left after it, at most, in ns; all of shape ``(responses,)``.
    """

    first_token_ns: Floats
    last_token_ns: Floats
    send_ns: Floats


def recorded_intervals(responses: Responses) -> Intervals:
    """Return the intervals that were recorded with the timestamps."""
    return Intervals(
        np.nan_to_num(responses.first_token_uncertainty_ns),
        np.nan_to_num(responses.last_token_uncertainty_ns),
        np.nan_to_num(responses.send_uncertainty_ns),
    )


def widened_by_lag(intervals: Intervals, responses: Responses, samples: Samples) -> Intervals:
    """Return the intervals of timestamps that the process took by itself: as wide as its loop may
    have been late.
    """
    worker = workers_of(responses.lane, samples)
    return Intervals(
        np.maximum(intervals.first_token_ns, late_ns(samples, worker, responses.first_token_ns)),
        np.maximum(intervals.last_token_ns, late_ns(samples, worker, responses.last_token_ns)),
        intervals.send_ns,
    )


def itl_shift(ok: Responses, intervals: Intervals) -> float | None:
    """Return how far, relatively, the P90 response ITL may be from the truth.

    At worst every first token came early and every last one on time, or the other way round. A
    response that the client read all at once, late, has no ITL: it had one, of up to its interval.
    None where there is no ITL, or it is 0.
    """
    itl = response_itl(ok)
    has = ~np.isnan(itl.itl_ns)
    early_ns = intervals.first_token_ns[has] / itl.later_tokens[has]
    late_ns = intervals.last_token_ns[has] / itl.later_tokens[has]
    at_once = ~has & (ok.event_counts > 1) & (intervals.first_token_ns > 0)
    longest_ns = intervals.first_token_ns[at_once] / (ok.event_counts[at_once] - 1.0)
    return _shift(
        itl.itl_ns[has],
        np.append(itl.itl_ns[has] - late_ns, np.zeros(len(longest_ns))),
        np.append(itl.itl_ns[has] + early_ns, longest_ns),
    )


def ttft_shift(ok: Responses, intervals: Intervals) -> float | None:
    """Return how far, relatively, the P90 TTFT may be from the truth: it is too long, if at all."""
    ttft = ttft_ns(ok)
    has = ~np.isnan(ttft)
    earliest_ns = ttft - intervals.first_token_ns - intervals.send_ns
    return _shift(ttft[has], earliest_ns[has], ttft[has])


def _shift(values: Floats, low: Floats, high: Floats) -> float | None:
    if not len(values):
        return None
    measured, lowest, highest = (percentiles(each, (_MEASURED,))[0] for each in (values, low, high))
    return max(highest - measured, measured - lowest) / measured if measured > 0 else None

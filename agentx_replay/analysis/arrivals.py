"""The arrivals of each response: what its token events look like as reads of the socket.

All events that one read brought have one timestamp, and are one arrival. Whoever sits between
server and client and gathers events makes arrivals of several; what that does to a latency is
``itl_error.py``'s.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentx_replay.results.sums import Floats, begins

Counts = NDArray[np.int64]
_NS = 1_000_000_000


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Figures of each response, all of shape ``(responses,)``; 0 or NaN where it has too few.

    ``arrival_counts`` arrivals, of which ``crowded_arrivals`` have several events and the fullest
    ``most_events``. ``first_arrival_events``, ``first_arrival_tokens`` and ``first_arrival_bytes``
    are what the first brought, ``last_arrival_events`` and ``fewest_inner_events`` what the last
    did and each in between at least, ``told_tokens`` and ``text_bytes`` what all did (NaN where
    tokens are not told, texts not recorded). ``gap_after_first_ns`` and ``gap_before_last_ns`` are
    the gaps between arrivals at both ends, ``gap_variation`` the coefficient of variation of all
    but the last (a last arrival brings what is left), ``longest_gap`` the longest over the median
    (computed where asked for). ``largest_share`` is what the fullest arrival brought of all tokens,
    as told, else by the length of the texts, else one an event.
    """

    arrival_counts: Counts
    crowded_arrivals: Counts
    most_events: Counts
    first_arrival_events: Counts
    first_arrival_tokens: Floats
    first_arrival_bytes: Floats
    last_arrival_events: Floats
    fewest_inner_events: Floats
    told_tokens: Floats
    text_bytes: Floats
    gap_after_first_ns: Floats
    gap_before_last_ns: Floats
    gap_variation: Floats
    longest_gap: Floats
    largest_share: Floats


def arrivals_of(
    event_counts: Counts,
    at_ns: Floats,
    tokens: Floats,
    text_bytes: Floats,
    wants_longest_gap: NDArray[np.bool_],
) -> Arrivals:
    """Return the arrivals of responses whose events follow one another.

    ``event_counts`` and ``wants_longest_gap`` have shape ``(responses,)``, the others, one entry an
    event, ``(events,)``.
    """
    responses = len(event_counts)
    event_of = np.repeat(np.arange(responses), event_counts)
    first_events = np.flatnonzero(begins(event_of))
    starts = np.flatnonzero(begins(event_of) | begins(at_ns))
    of, at_ns = event_of[starts], at_ns[starts]
    events = np.diff(starts, append=len(event_of))
    counts = np.bincount(of, minlength=responses)
    some, two = counts > 0, counts > 1
    first = np.cumsum(counts) - counts
    last = first + counts - 1

    def at(places: Counts, where: NDArray[np.bool_], values: NDArray[np.float64]) -> Floats:
        found = np.full(responses, np.nan)
        found[where] = values[places[where]]
        return found

    def whole(values: Floats) -> Floats:
        found = np.full(responses, np.nan)
        found[some] = np.add.reduceat(values, first_events) if len(first_events) else []
        return found

    def by_arrival(values: Floats) -> Floats:
        return np.add.reduceat(values, starts) if len(starts) else np.empty(0)

    weights = np.where(np.isnan(tokens), np.where(np.isnan(text_bytes), 1.0, text_bytes), tokens)
    brought, fullest = by_arrival(weights), np.full(responses, np.nan)
    fullest[some] = np.maximum.reduceat(brought, first[some]) if some.any() else []
    most = np.zeros(responses, np.int64)
    most[some] = np.maximum.reduceat(events, first[some]) if some.any() else []
    gap_ns = np.diff(at_ns, prepend=0.0)  # of an arrival that is the first, of nothing
    is_later = ~begins(of)
    is_inner = is_later & np.append(~begins(of)[1:], False)
    return Arrivals(
        arrival_counts=counts,
        crowded_arrivals=np.bincount(of[events > 1], minlength=responses),
        most_events=most,
        first_arrival_events=np.nan_to_num(at(first, some, events.astype(float))).astype(np.int64),
        first_arrival_tokens=at(first, some, by_arrival(tokens)),
        first_arrival_bytes=at(first, some, by_arrival(text_bytes)),
        last_arrival_events=at(last, two, events.astype(float)),
        fewest_inner_events=_fewest(of[is_inner], events[is_inner], responses),
        told_tokens=whole(tokens),
        text_bytes=whole(text_bytes),
        gap_after_first_ns=at(first + 1, two, gap_ns),
        gap_before_last_ns=at(last, two, gap_ns),
        gap_variation=_variation(of[is_inner], gap_ns[is_inner] / _NS, responses),
        longest_gap=_longest(of[is_later], gap_ns[is_later], wants_longest_gap),
        largest_share=fullest / np.maximum(whole(weights), 1.0),
    )


def _fewest(of: Counts, events: Counts, responses: int) -> Floats:
    """Return the fewest events among each response's arrivals, NaN for none."""
    found = np.full(responses, np.nan)
    starts = np.flatnonzero(begins(of))
    if len(starts):
        found[of[starts]] = np.minimum.reduceat(events, starts)
    return found


def _variation(of: Counts, gap_s: Floats, responses: int) -> Floats:
    """Return the coefficient of variation of each response's gaps, NaN for under two."""
    counts = np.bincount(of, minlength=responses)
    mean = np.bincount(of, gap_s, responses) / np.maximum(counts, 1)
    square = np.bincount(of, (gap_s - mean[of]) ** 2, responses) / np.maximum(counts, 1)
    known = (counts > 1) & (mean > 0)
    found = np.full(responses, np.nan)
    found[known] = np.sqrt(square[known]) / mean[known]
    return found


def _longest(of: Counts, gap_ns: Floats, wanted: NDArray[np.bool_]) -> Floats:
    """Return the longest gap of each wanted response over its median gap, NaN for none."""
    found = np.full(len(wanted), np.nan)
    kept = wanted[of]
    if not kept.any():
        return found
    order = np.lexsort((gap_ns[kept], of[kept]))
    of, gap_ns = of[kept][order], gap_ns[kept][order]
    starts = np.flatnonzero(begins(of))
    counts = np.diff(starts, append=len(of))
    median = (gap_ns[starts + (counts - 1) // 2] + gap_ns[starts + counts // 2]) / 2
    found[of[starts]] = gap_ns[starts + counts - 1] / median
    return found

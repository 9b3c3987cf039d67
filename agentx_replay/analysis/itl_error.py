"""How far the P90 response ITL may be off because somebody between server and client gathered
events, or because tokens were counted that no event showed; and the P90 TTFT, by the former.

Both are bounds from the records alone. Not for: what the client itself does to timestamps
(client_lag.py).
"""

from dataclasses import dataclass

import numpy as np

from agentx_replay.analysis.latency import (
    exceed,
    first_arrival_share,
    hides_reasoning,
    response_itl,
    shares_tokens,
    ttft_ns,
    visible_tokens,
)
from agentx_replay.analysis.percentiles import percentiles
from agentx_replay.analysis.responses import Floats, Mask, Responses
from agentx_replay.units import NS_PER_S

REGULAR_VARIATION = 0.2
REGULAR_EVENTS = 8
ACCIDENTAL_SHARE = 0.1
"""Arrivals of several events that are the client's own lag, where it could not tell who made them:
at most this share of a response's arrivals. Its effect is bounded as every lag is."""
LONG_GAP = 10.0
"""A gap so many times the median may have made hidden tokens between visible ones."""
MORE_THAN_ACCEPTED = 1.1
SHOWN_BY_PIECES = 0.75
"""A text of several tokens has at least this share of their number as pieces: 0.78 to 0.92 of the
tokens after an event's first, of DeepSeek V3, in prose, code and JSON."""
MOST_PIECES = 0.92
BURST_SHARE = 0.5
BURST_TOKENS = 30
"""A response of so many tokens that had over this share of them in one read: its ITL, a mean, does
not show how long its reader waited for that read."""


@dataclass(frozen=True, slots=True)
class ItlError:
    """Bounds on the P90 response ITL of a level, over its measured responses.

    ``in_one_arrival`` responses of several tokens came in one read, and have no ITL; ``read_late``
    of them because this client was late.
    ``gathered`` responses may be off because they had reads of several events, up to
    ``most_events``, that neither the engine's counters nor this client explains; they move the P90
    by at most ``gathered_error``, relatively. ``late_first`` of them had first reads of several
    events, the first of which had waited; they move the P90 TTFT by at most ``ttft_error``.
    ``unshown`` responses have completion tokens of which no event tells whether they came between
    the others; the P90 lies between ``least_s`` and ``most_s`` whether they did or not.
    ``by_text`` responses have several tokens an event, counted by the length of their texts alone;
    if some of them are hidden all the same, the P90 is up to ``by_text_most_s``. ``bursts`` had
    most of their tokens in one read.
    ``hidden_reasoning`` responses had reasoning that no event brought. None where there is no ITL.
    """

    in_one_arrival: int = 0
    read_late: int = 0
    gathered: int = 0
    most_events: int = 0
    gathered_error: float | None = None
    late_first: int = 0
    ttft_error: float | None = None
    unshown: int = 0
    least_s: float | None = None
    most_s: float | None = None
    hidden_reasoning: int = 0
    by_text: int = 0
    by_text_most_s: float | None = None
    p90_s: float | None = None
    bursts: int = 0

    @property
    def unshown_range(self) -> float | None:
        """How wide the range from ``least_s`` to ``most_s`` is, relatively to its lower end."""
        if not self.least_s or self.most_s is None:
            return None
        return self.most_s / self.least_s - 1.0


def itl_error(ok: Responses, accept_length: float | None) -> ItlError:
    """Return the bounds of measured responses. ``accept_length`` is how many tokens a step of the
    engine commits, by its own counters; None where they do not tell.
    """
    itl = response_itl(ok)
    has = ~np.isnan(itl.itl_ns)
    is_whole = (visible_tokens(ok) > 1) & (ok.arrival_counts == 1)
    whole, read_late = int(is_whole.sum()), int((is_whole & _client_was_late(ok)).sum())
    hidden = int(hides_reasoning(ok).sum())
    if not has.any():
        return ItlError(in_one_arrival=whole, read_late=read_late, hidden_reasoning=hidden)
    some, itl_ns, later = ok.where(has), itl.itl_ns[has], itl.later_tokens[has]
    is_gathered = _gathered(some, later, accept_length)
    first_waited_ns = np.zeros(len(ok))
    first_waited_ns[has] = np.where(is_gathered, _first_waited_ns(some), 0.0)
    error = np.where(is_gathered, _off_by_ns(some, is_gathered) / _span_ns(some), 0.0)
    is_gathered &= error > 0.0
    fewest, most, proved, is_by_text = _later_tokens(some, later, accept_length)
    p90, low, high, fast, slow, hidden_slow = (
        percentiles(values, (0.9,))[0] / NS_PER_S
        for values in (
            itl_ns,
            itl_ns * (1.0 - np.minimum(error, 1.0)),
            itl_ns * (1.0 + error),
            itl_ns * later / most,
            itl_ns * later / fewest,
            itl_ns * later / proved,
        )
    )
    return ItlError(
        in_one_arrival=whole,
        read_late=read_late,
        gathered=int(is_gathered.sum()),
        most_events=int(some.most_events[is_gathered].max(initial=0)),
        gathered_error=max(high - p90, p90 - low) / p90,
        late_first=int((first_waited_ns > 0.0).sum()),
        ttft_error=_ttft_error(ttft_ns(ok), first_waited_ns),
        unshown=int((fewest < most).sum()),
        least_s=fast,
        most_s=slow,
        hidden_reasoning=hidden,
        by_text=int(is_by_text.sum()),
        by_text_most_s=hidden_slow,
        p90_s=p90,
        bursts=int(
            ((some.largest_share > BURST_SHARE) & (visible_tokens(some) >= BURST_TOKENS)).sum()
        ),
    )


def _client_was_late(ok: Responses) -> Mask:
    """Return whose reads of several events are this client's doing: none was made in time; where
    that is not known, a timestamp is only an upper bound.
    """
    unknown = np.isnan(ok.gathered_reads)
    late: Mask = np.where(unknown, ok.late_events > 0, ok.gathered_reads == 0)
    return late & (ok.event_counts > 1)


def _gathered(some: Responses, later: Floats, accept_length: float | None) -> Mask:
    """Return which responses had events gathered on their way.

    The client says so of each read, or else it is taken to be so of more reads than its own lag
    brings about by accident. An engine that writes a step's tokens, or a few steps' events, at once
    is told by its counters.
    """
    share = some.crowded_arrivals / some.arrival_counts
    known = ~np.isnan(some.gathered_reads)
    gathered = np.where(known, some.gathered_reads > 0, share > ACCIDENTAL_SHARE)
    gathered &= some.crowded_arrivals > 0
    if accept_length is not None and gathered.any():
        reads = (some.arrival_counts[gathered] - 1).sum()
        if later[gathered].sum() <= MORE_THAN_ACCEPTED * accept_length * reads:
            return np.zeros(len(some), bool)
    return np.asarray(gathered, bool)


def _span_ns(some: Responses) -> Floats:
    return some.last_token_ns - some.first_token_ns


def _ttft_error(waiting_ns: Floats, first_waited_ns: Floats) -> float | None:
    came = ~np.isnan(waiting_ns)
    earliest_ns = np.maximum(waiting_ns - first_waited_ns, 0.0)
    p90, least = (percentiles(each[came], (0.9,))[0] for each in (waiting_ns, earliest_ns))
    return (p90 - least) / p90 if p90 > 0 else None


def _first_waited_ns(some: Responses) -> Floats:
    """Return how long the first event of each first read may have waited for the others: an event's
    mean time for each.
    """
    event_ns: Floats = _span_ns(some) / (some.event_counts - some.first_arrival_events)
    waited_ns: Floats = (some.first_arrival_events - 1) * event_ns
    return waited_ns


def _off_by_ns(some: Responses, gathered: Mask) -> Floats:
    """Return by how much (last arrival − first arrival) of gathered responses may be off, at most.

    In general by the gaps at both ends. Where reads come regularly and bring few events, whether an
    engine or a timer makes them, events are as far apart as in the reads in between. The last
    read's may then have waited for what its gap exceeds theirs by: for nothing where it came as
    soon as they did. Where reads do not all bring as many, a timer may also have run out up to one
    event's time after the last event of either end.
    """
    regular = gathered & (some.gap_variation < REGULAR_VARIATION)
    regular &= some.most_events <= REGULAR_EVENTS
    inner = some.event_counts - some.first_arrival_events - some.last_arrival_events
    inner = np.where(regular, inner, np.nan)  # regular responses have reads in between
    event_ns = (_span_ns(some) - some.gap_before_last_ns) / inner
    most = inner[regular] / (some.arrival_counts[regular] - 2)
    uneven = most.max(initial=0.0) > some.fewest_inner_events[regular].min(initial=np.inf)
    waited_ns = np.maximum(some.gap_before_last_ns - some.last_arrival_events * event_ns, 0.0)
    ends_ns = some.gap_after_first_ns + some.gap_before_last_ns
    return np.where(regular, waited_ns + uneven * event_ns, ends_ns)


def _later_tokens(
    some: Responses, later: Floats, accept_length: float | None
) -> tuple[Floats, Floats, Floats, Mask]:
    """Return the fewest and the most tokens that can have come after each first arrival, then the
    fewest that the texts prove, and of which responses nothing else does: of DeepSeek V3 a text has
    up to ``MOST_PIECES`` of the tokens after an event's first as pieces, so that a rest below that
    may be hidden.
    """
    events, completion = some.event_counts, some.completion_tokens
    shared, after_first = shares_tokens(some), 1.0 - first_arrival_share(some)
    by_text, by_drafts = _told_by_text(some), _told_by_drafts(some, shared, accept_length)
    between = hides_reasoning(some) & (some.longest_gap > LONG_GAP)
    most = np.where(between, completion * after_first, later)
    one_an_event = (events - some.first_arrival_events).astype(np.float64)
    fewest = np.where(shared & ~by_text & ~by_drafts, one_an_event, later)
    told = completion + np.nan_to_num(some.reasoning_tokens)
    split = np.isnan(some.told_tokens) & exceed(events, completion) & exceed(events, told)
    fewest = np.where(split, np.maximum(completion * after_first, 1.0), fewest)
    by_text_alone = shared & by_text & ~by_drafts
    proved = (events + (some.text_pieces - events) / MOST_PIECES) * after_first
    proved = np.where(by_text_alone, np.maximum(proved, 1.0), later)
    return (
        np.minimum(fewest, later),
        np.maximum(most, later),
        np.minimum(proved, later),
        by_text_alone,
    )


def _told_by_text(some: Responses) -> Mask:
    """Return where the texts of the events can have said all visible tokens.

    A token's text is one piece, so that events of one token have as many pieces as there are
    events, whatever is not shown.
    """
    beyond = (some.text_pieces - some.event_counts) / SHOWN_BY_PIECES
    told: Mask = visible_tokens(some) <= some.event_counts + beyond
    return told


def _told_by_drafts(some: Responses, shared: Mask, accept_length: float | None) -> Mask:
    """Return where the events hold as many tokens as the engine commits at a time."""
    if accept_length is None or not shared.any():
        return np.zeros(len(some), bool)
    visible, events = visible_tokens(some)[shared].sum(), some.event_counts[shared].sum()
    return np.full(len(some), bool(visible <= accept_length * events))

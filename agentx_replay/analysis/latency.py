"""Latency of responses and tokens, each definition once.

Every function takes the responses, or token events, to measure and keeps their order. Which those
are (the ok ones of the window) is decided by the caller.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentx_replay.analysis.responses import Counts, Events, Floats, Mask, Responses, TimedTokens
from agentx_replay.results.sums import begins
from agentx_replay.units import NS_PER_S


def ttft_ns(responses: TimedTokens) -> Floats:
    """Time to first token from send; NaN without a token."""
    return responses.first_token_ns - responses.send_ns


def ttft_from_connect_ns(responses: Responses) -> Floats:
    """Time to first token from the start of connecting, from send where already connected.

    A connection made ahead waits for its request's time, which is no part of it.
    """
    start_ns = np.fmin(responses.connect_start_ns, responses.send_ns)
    waited_ns = np.fmax(responses.intended_start_ns - responses.connected_ns, 0.0)
    return responses.first_token_ns - start_ns - waited_ns


def ttft_from_intended_ns(responses: Responses) -> Floats:
    """Time to first token from when the protocol said to send: shows coordinated omission."""
    return responses.first_token_ns - responses.intended_start_ns


def end_to_end_ns(responses: TimedTokens) -> Floats:
    return responses.end_ns - responses.send_ns


def normalised_interactivity(responses: Responses) -> Floats:
    """Completion tokens / end-to-end latency, in tokens/s; NaN where it took no time."""
    took_s = end_to_end_ns(responses) / NS_PER_S
    return responses.completion_tokens / np.where(took_s > 0, took_s, np.nan)


def send_lag_ns(responses: Responses) -> Floats:
    """Send − intended start, without what connecting took between the two.

    NaN where connecting failed: nothing was sent.
    """
    began_ns = np.fmax(responses.connect_start_ns, responses.intended_start_ns)
    ready_ns = np.fmin(responses.connected_ns, responses.send_ns)  # made after it, to send again
    connecting_ns = np.fmax(ready_ns - began_ns, 0.0)
    opened = ~np.isnan(responses.connect_start_ns)
    lag_ns = responses.send_ns - responses.intended_start_ns - np.where(opened, connecting_ns, 0.0)
    return np.where(opened & np.isnan(responses.connected_ns), np.nan, lag_ns)


def exceed(more: Floats | Counts, fewer: Floats | Counts) -> Mask:
    """Return where one count exceeds another by over 2 and over 1 %: by more than an end-of-turn
    token, and the like, explains.
    """
    over: Mask = (more > fewer + 2) & (more > 1.01 * fewer)
    return over


def hides_reasoning(responses: TimedTokens) -> Mask:
    """Return where usage tells reasoning tokens that no event brought.

    Summaries count as nothing: their texts hold under half of the tokens told. More events than
    the other tokens explain mean that reasoning is not among the completion tokens.
    """
    told = responses.reasoning_tokens
    unseen = np.isnan(responses.told_tokens) & (responses.reasoning_pieces < 0.5 * told)
    rest = responses.completion_tokens - told
    hides: Mask = unseen & (rest >= 0) & ~exceed(responses.event_counts, rest)
    return hides


def visible_tokens(responses: TimedTokens) -> Floats:
    hidden = np.where(hides_reasoning(responses), responses.reasoning_tokens, 0.0)
    return responses.completion_tokens - hidden


def shares_tokens(responses: TimedTokens) -> Mask:
    """Return where visible tokens exceed token events, and nothing tells how many are in each:
    they are shared out over the events by the length of their text (evenly where it is not known).
    """
    untold: Mask = np.isnan(responses.told_tokens)
    return untold & exceed(visible_tokens(responses), responses.event_counts)


@dataclass(frozen=True, slots=True, eq=False)
class ResponseItl:
    """Response ITL in ns and its divisor, NaN where a response has no later token."""

    itl_ns: Floats
    later_tokens: Floats


def response_itl(responses: TimedTokens) -> ResponseItl:
    """(last arrival − first arrival) / tokens that came after the first arrival: the mean gap in a
    response. An event's tokens are those that usage tells; else one; else its share of them all.
    """
    told = ~np.isnan(responses.told_tokens)
    shared = shares_tokens(responses)
    visible = visible_tokens(responses)
    one_an_event = (responses.event_counts - responses.first_arrival_events).astype(np.float64)
    later = np.where(shared, visible * (1.0 - first_arrival_share(responses)), one_an_event)
    later = np.where(np.isnan(visible), np.nan, later)
    later = np.where(told, responses.told_tokens - responses.first_arrival_tokens, later)
    later = np.where((later > 0) & (responses.arrival_counts > 1), later, np.nan)
    return ResponseItl((responses.last_token_ns - responses.first_token_ns) / later, later)


def first_arrival_share(responses: TimedTokens) -> Floats:
    """Return which share of a response's text, else of its events, the first arrival brought."""
    with np.errstate(divide="ignore", invalid="ignore"):
        of_events = responses.first_arrival_events / responses.event_counts
        of_text = responses.first_arrival_bytes / responses.text_bytes
    return np.where(responses.text_bytes > 0, of_text, of_events)


def agentx_itl_ns(responses: Responses) -> Floats:
    """(last token − first token) / (completion − 1): AgentX's divisor, which counts the tokens of
    the first arrival but one as if they had come after it.
    """
    later = np.where(responses.arrival_counts > 1, responses.completion_tokens - 1.0, np.nan)
    span_ns = responses.last_token_ns - responses.first_token_ns
    return span_ns / np.where(later > 0, later, np.nan)


def full_response_itl_ns(responses: TimedTokens) -> Floats:
    """(end − first token) / (completion − 1): what InferenceX prefers where present."""
    later = responses.completion_tokens - 1.0
    return (responses.end_ns - responses.first_token_ns) / np.where(later > 0, later, np.nan)


LATENCIES: Mapping[str, Callable[[TimedTokens], Floats]] = {
    "itl": lambda of: response_itl(of).itl_ns,
    "full-itl": full_response_itl_ns,
    "ttft": ttft_ns,
    "e2e": end_to_end_ns,
}
"""The latencies in ns that an objective may bound, by the names of ``objective.py``."""


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Gaps with the response (row) of each, the instant that ends it and how many tokens (or
    events) it stands for.
    """

    row: NDArray[np.int64]
    at_ns: Floats
    gap_ns: Floats
    weight: Floats


def event_gaps(events: Events) -> Gaps:
    """The raw gaps between token events: what vLLM's own benchmark calls ITL.

    Events of one socket read have one stamp, so gaps of 0 are among them.
    """
    later = ~events.is_first
    gap_ns = np.diff(events.at_ns, prepend=0.0)[later]
    return Gaps(events.row[later], events.at_ns[later], gap_ns, np.ones(len(gap_ns)))


def token_gaps(events: Events, tokens: Floats) -> Gaps:
    """Token ITL: each arrival's gap divided equally among its tokens, one entry an arrival.

    ``tokens`` (shape ``(events,)``) says how many tokens are in each event. Events of one socket
    read are one arrival; the first arrival of a response has no gap.
    """
    first = events.is_first
    starts = np.flatnonzero(first | begins(events.at_ns))
    if not len(starts):
        return Gaps(np.empty(0, np.int64), *(np.empty(0) for _ in range(3)))
    at_ns, weight = events.at_ns[starts], np.add.reduceat(tokens, starts)
    kept = ~first[starts] & (weight > 0)
    gap_ns = np.diff(at_ns, prepend=0.0)[kept]
    return Gaps(events.row[starts][kept], at_ns[kept], gap_ns / weight[kept], weight[kept])


def usual_tokens(responses: Responses, among: Mask) -> float:
    """Return completion tokens over token events of the responses ``among`` that have both, one
    where none has: what an event of a response that never told its usage (it was cut) counts as.
    """
    counts, completion = responses.event_counts, responses.completion_tokens
    counted = ~np.isnan(completion) & (counts > 0) & among
    events = counts[counted].sum()
    return float(completion[counted].sum() / events) if events else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class EventWeights:
    """Tokens in an event of each response where its own usage does not tell, ``an_event`` and
    ``a_byte`` of text; ``hidden`` is all completion tokens over the visible ones. Shapes
    ``(responses,)``.
    """

    an_event: Floats
    a_byte: Floats
    hidden: Floats


def event_weights(responses: Responses, usual: float) -> EventWeights:
    """Return the weights of events; an event of a response without usage counts as ``usual``."""
    shared, visible = shares_tokens(responses), visible_tokens(responses)
    has_text = shared & (responses.text_bytes > 0)
    told = ~np.isnan(responses.told_tokens)
    with np.errstate(divide="ignore", invalid="ignore"):
        a_byte = np.where(has_text, visible / responses.text_bytes, 0.0)
        an_event = np.where(shared, visible / responses.event_counts, 1.0)
        seen = np.where(shared, visible, responses.event_counts)
        hidden = responses.completion_tokens / np.where(told, responses.told_tokens, seen)
    an_event = np.where(has_text, 0.0, np.where(np.isnan(visible), usual, an_event))
    return EventWeights(an_event, a_byte, np.where(np.isfinite(hidden), hidden, 1.0))


def tokens_of_events(events: Events, weights: EventWeights) -> Floats:
    of_text = weights.a_byte[events.row] * np.nan_to_num(events.text_bytes)
    untold = weights.an_event[events.row] + of_text
    return np.where(np.isnan(events.tokens), untold, events.tokens)


def produced_tokens(events: Events, weights: EventWeights) -> Floats:
    """Return all completion tokens, hidden ones too, spread over the events as the visible are:
    what throughput counts.
    """
    return tokens_of_events(events, weights) * weights.hidden[events.row]


def present(values: Floats) -> NDArray[np.float64]:
    return values[~np.isnan(values)]

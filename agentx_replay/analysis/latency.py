"""Latency of responses and tokens, each definition once.

Every function takes the responses, or token events, to measure and keeps their order. Which those
are (the ok ones of the window) is decided by the caller.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentx_replay.analysis.responses import Events, Floats, Mask, Responses
from agentx_replay.results.sums import begins


def ttft_ns(responses: Responses) -> Floats:
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


def end_to_end_ns(responses: Responses) -> Floats:
    """End of the stream − send."""
    return responses.end_ns - responses.send_ns


def normalised_interactivity(responses: Responses) -> Floats:
    """Completion tokens / end-to-end latency, in tokens/s; NaN where it took no time."""
    took_s = end_to_end_ns(responses) / 1e9
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


@dataclass(frozen=True, slots=True, eq=False)
class ResponseItl:
    """Response ITL in ns and its divisor, NaN where a response has no later token.

    ``divisor_told`` says where the server told the tokens of the first event; elsewhere the first
    event is taken to hold one.
    """

    itl_ns: Floats
    later_tokens: Floats
    divisor_told: Mask


def response_itl(responses: Responses) -> ResponseItl:
    """(last token − first token) / tokens after the first event: the mean gap in a response."""
    told = ~np.isnan(responses.first_event_tokens)
    later = responses.completion_tokens - np.where(told, responses.first_event_tokens, 1.0)
    later = np.where((later > 0) & (responses.event_counts > 1), later, np.nan)
    return ResponseItl((responses.last_token_ns - responses.first_token_ns) / later, later, told)


def full_response_itl_ns(responses: Responses) -> Floats:
    """(end − first token) / (completion − 1): what InferenceX prefers where present."""
    later = responses.completion_tokens - 1.0
    return (responses.end_ns - responses.first_token_ns) / np.where(later > 0, later, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Gaps with the instant that ends each and how many tokens (or events) it stands for."""

    at_ns: Floats
    gap_ns: Floats
    weight: Floats


def event_gaps(events: Events) -> Gaps:
    """The raw gaps between token events: what vLLM's own benchmark calls ITL.

    Events of one socket read have one stamp, so gaps of 0 are among them.
    """
    later = ~events.is_first
    gap_ns = np.diff(events.at_ns, prepend=0.0)[later]
    return Gaps(events.at_ns[later], gap_ns, np.ones(len(gap_ns)))


def token_gaps(events: Events, tokens: Floats) -> Gaps:
    """Token ITL: each arrival's gap divided equally among its tokens, one entry an arrival.

    ``tokens`` (shape ``(events,)``) says how many tokens are in each event. Events of one socket
    read are one arrival; the first arrival of a response has no gap.
    """
    first = events.is_first
    starts = np.flatnonzero(first | begins(events.at_ns))
    if not len(starts):
        return Gaps(*(np.empty(0) for _ in range(3)))
    at_ns, weight = events.at_ns[starts], np.add.reduceat(tokens, starts)
    kept = ~first[starts] & (weight > 0)
    gap_ns = np.diff(at_ns, prepend=0.0)[kept]
    return Gaps(at_ns[kept], gap_ns / weight[kept], weight[kept])


def tokens_an_event(responses: Responses, among: Mask) -> Floats:
    """Tokens in an event of each response where they are not told: completion tokens / events.

    A response without a count of completion tokens (it was cut before its usage came) takes the
    mean of those ``among`` all that have one, or one where none has.
    """
    counts, completion = responses.event_counts, responses.completion_tokens
    counted = ~np.isnan(completion) & (counts > 0)
    usual_of = counted & among
    total_events = counts[usual_of].sum()
    usual = completion[usual_of].sum() / total_events if total_events else 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(counted, completion / counts, usual)


def tokens_of_events(events: Events, an_event: Floats) -> Floats:
    """Tokens in each event: as the server tells, else as many as ``an_event`` says of its response
    (shape ``(responses,)``).
    """
    return np.where(np.isnan(events.tokens), an_event[events.row], events.tokens)


def present(values: Floats) -> NDArray[np.float64]:
    """Return the values that are there (not NaN)."""
    return values[~np.isnan(values)]

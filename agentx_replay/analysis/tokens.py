"""What needs every token of a point, gathered in one pass over its token events.

Millions of events are never held together: they come a batch at a time and go into tallies and
sums of bounded size, or one number a response. What the definitions mean is in ``latency.py``,
``throughput.py`` and ``curve.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from agentx_replay.analysis.latency import (
    Gaps,
    end_to_end_ns,
    event_gaps,
    event_weights,
    present,
    produced_tokens,
    response_itl,
    send_lag_ns,
    token_gaps,
    tokens_of_events,
    ttft_ns,
    usual_tokens,
)
from agentx_replay.analysis.percentiles import Tally
from agentx_replay.analysis.responses import (
    Events,
    Floats,
    Records,
    Window,
    happened_in,
    in_window_set,
    measured,
    sent_in,
)
from agentx_replay.results.histograms import Series
from agentx_replay.results.sums import begins


@dataclass(frozen=True, slots=True)
class TokenFigures:
    """Token ITL and event gaps of the window's measured responses.

    ``output_inside`` counts output tokens that arrived inside the window, ``cut_output_inside``
    those of cut responses. ``cut_itl_ns`` is the ITL of cut responses, ``inside_itl_ns`` that of
    measured ones by their events in the window alone, ``within_p90_ns`` the P90 of each one's gaps.
    """

    token_itl: Tally
    event_gap: Tally
    output_inside: float
    cut_output_inside: float
    cut_itl_ns: Floats
    inside_itl_ns: Floats
    within_p90_ns: Floats


def token_figures(records: Records, window: Window) -> TokenFigures:
    responses = records.responses
    window_set = in_window_set(responses, window)
    ok, cut = window_set & measured(responses), window_set & (responses.status == "cut")
    weights = event_weights(responses, usual_tokens(responses, among=window_set))
    token_itl, event_gap = Tally(), Tally()
    output_inside = cut_output_inside = 0.0
    cut_itl, inside_itl, within = [np.empty(0)], [np.empty(0)], [np.empty(0)]
    for events in records.events():
        mine, others = events.of(ok), events.of(cut)
        tokens = tokens_of_events(mine, weights)
        gaps = token_gaps(mine, tokens)
        token_itl.add(gaps.gap_ns, gaps.weight)
        event_gap.add(event_gaps(mine).gap_ns)
        within.append(p90_within(gaps))
        cut_itl.append(itl_of_events(others, tokens_of_events(others, weights)))
        inside = mine.where(happened_in(mine.at_ns, window))
        inside_itl.append(itl_of_events(inside, tokens_of_events(inside, weights)))
        output_inside += float(produced_tokens(inside, weights).sum())
        others = others.where(happened_in(others.at_ns, window))
        cut_output_inside += float(produced_tokens(others, weights).sum())
    return TokenFigures(
        token_itl,
        event_gap,
        output_inside,
        cut_output_inside,
        cut_itl_ns=np.concatenate(cut_itl),
        inside_itl_ns=np.concatenate(inside_itl),
        within_p90_ns=np.concatenate(within),
    )


def itl_of_events(events: Events, tokens: Floats) -> Floats:
    """Return the mean gap after the first arrival of each response, in ns, for those with a later
    token; ``tokens`` (shape ``(events,)``) are in each event.
    """
    if not len(events.row):
        return np.empty(0)
    at_ns, first = events.at_ns, np.flatnonzero(events.is_first)
    last = np.append(first[1:], len(at_ns)) - 1
    first_at_ns = np.repeat(at_ns[first], last - first + 1)
    later = np.add.reduceat(np.where(at_ns > first_at_ns, tokens, 0.0), first)
    has = later > 0
    itl_ns: Floats = (at_ns[last[has]] - at_ns[first[has]]) / later[has]
    return itl_ns


def p90_within(gaps: Gaps) -> Floats:
    """Return the P90 of the token ITL within each response that has any, in ns. An arrival counts
    once, whatever its tokens.
    """
    gap_ns = gaps.gap_ns[np.lexsort((gaps.gap_ns, gaps.row))]
    first = np.flatnonzero(begins(gaps.row))
    number = np.diff(np.append(first, len(gaps.row)))
    rank = 0.9 * (number - 1)
    below = np.floor(rank).astype(np.int64)
    low, high = gap_ns[first + below], gap_ns[first + np.minimum(below + 1, number - 1)]
    p90_ns: Floats = low + (rank - below) * (high - low)
    return p90_ns


def latency_series(records: Records, window: Window) -> Iterator[Series]:
    """Yield what the histogram log of a point holds, each observation at the time of its event.

    The same observations as the distributions of ``summarise``; send lag is of every request of
    the window. Those of tokens come in many pieces.
    """
    responses = records.responses
    is_ok = in_window_set(responses, window) & measured(responses)
    weights = event_weights(responses, usual_tokens(responses, among=is_ok))
    for events in records.events():
        mine = events.of(is_ok)
        tokens, gaps = token_gaps(mine, tokens_of_events(mine, weights)), event_gaps(mine)
        yield Series("token_itl", tokens.at_ns, tokens.gap_ns, tokens.weight)
        yield Series("event_gap", gaps.at_ns, gaps.gap_ns)
    window_set, ok = sent_in(responses, window), responses.where(is_ok)
    for tag, at_ns, value_ns in (
        ("ttft", ok.first_token_ns, ttft_ns(ok)),
        ("response_itl", ok.last_token_ns, response_itl(ok).itl_ns),
        ("e2e", ok.end_ns, end_to_end_ns(ok)),
        ("send_lag", window_set.send_ns, send_lag_ns(window_set)),
    ):
        yield Series(tag, at_ns[~np.isnan(value_ns)], present(value_ns))

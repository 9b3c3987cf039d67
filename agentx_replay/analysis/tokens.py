"""What needs every token of a point, gathered in one pass over its token events.

Millions of events are never held together: they come a batch at a time and go into tallies and
sums of bounded size. What the definitions mean is in ``latency.py`` and ``throughput.py``.
"""

from dataclasses import dataclass

from agentx_replay.analysis.latency import (
    event_gaps,
    event_weights,
    produced_tokens,
    token_gaps,
    tokens_of_events,
    usual_tokens,
)
from agentx_replay.analysis.percentiles import Distribution, Tally
from agentx_replay.analysis.responses import Records
from agentx_replay.analysis.window import Window, happened_in, in_window_set, measured


@dataclass(frozen=True, slots=True)
class TokenFigures:
    """Token ITL and event gaps of the window's measured responses; None where there are none.

    ``output_inside`` counts output tokens that arrived inside the window, ``cut_output_inside``
    those of cut responses.
    """

    token_itl: Distribution | None
    event_gap: Distribution | None
    output_inside: float
    cut_output_inside: float


def token_figures(records: Records, window: Window) -> TokenFigures:
    """Return the figures of the window's set. Reads the token events once."""
    responses = records.responses
    window_set = in_window_set(responses, window)
    ok, cut = window_set & measured(responses), window_set & (responses.status == "cut")
    weights = event_weights(responses, usual_tokens(responses, among=window_set))
    token_itl, event_gap = Tally(), Tally()
    output_inside = cut_output_inside = 0.0
    for events in records.events():
        mine = events.of(ok)
        gaps = token_gaps(mine, tokens_of_events(mine, weights))
        token_itl.add(gaps.gap_ns, gaps.weight)
        event_gap.add(event_gaps(mine).gap_ns)
        inside = events.where(happened_in(events.at_ns, window))
        tokens = produced_tokens(inside, weights)
        output_inside += float(tokens[ok[inside.row]].sum())
        cut_output_inside += float(tokens[cut[inside.row]].sum())
    return TokenFigures(
        token_itl.distribution(), event_gap.distribution(), output_inside, cut_output_inside
    )

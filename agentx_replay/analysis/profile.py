"""How a level's latencies are spread, as curves to draw: value against share of observations."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentx_replay.analysis.latency import (
    end_to_end_ns,
    event_weights,
    present,
    response_itl,
    token_gaps,
    tokens_of_events,
    ttft_ns,
    usual_tokens,
)
from agentx_replay.analysis.percentiles import percentiles
from agentx_replay.analysis.responses import Events, Floats, Mask, Records, Responses
from agentx_replay.analysis.window import Window, in_window_set, measured

_NS = 1_000_000_000
_FINEST = 4.0
_STEPS = 96
_ENOUGH = 1_000_000
"""Token events that a curve is drawn from, about; the numbers in tables are of all."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """A distribution as a curve: ``values_s`` at ``shares``, both rising, of shape ``(n,)``."""

    shares: Floats
    values_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """The spreads of one level, None where there is nothing; and mean tokens an event: as the
    server tells of each, else completion tokens over token events; None where it tells neither.
    """

    response_itl: Spread | None
    token_itl: Spread | None
    ttft: Spread | None
    end_to_end: Spread | None
    tokens_per_event: float | None


def profile_of(records: Records, window: Window) -> Profile:
    """Return the spreads over the measured responses of the window."""
    responses = records.responses
    is_ok = in_window_set(responses, window) & measured(responses)
    some = _every_nth(is_ok, responses.event_counts)
    events = _together([events.of(some) for events in records.events()])
    weights = event_weights(responses, usual_tokens(responses, among=some))
    tokens = token_gaps(events, tokens_of_events(events, weights))
    told = present(events.tokens)
    ok = responses.where(is_ok)
    return Profile(
        response_itl=spread(present(response_itl(ok).itl_ns)),
        token_itl=spread(tokens.gap_ns, tokens.weight),
        ttft=spread(present(ttft_ns(ok))),
        end_to_end=spread(end_to_end_ns(ok)),
        tokens_per_event=float(told.mean()) if len(told) else _mean_tokens_per_event(ok),
    )


def _mean_tokens_per_event(ok: Responses) -> float | None:
    """Return completion tokens over token events, for a server that tells no event's own."""
    told = ~np.isnan(ok.completion_tokens) & (ok.event_counts > 0)
    if not told.any():
        return None
    return float(ok.completion_tokens[told].sum() / ok.event_counts[told].sum())


def _every_nth(is_ok: Mask, event_counts: NDArray[np.int64]) -> Mask:
    """Return all of the responses, or every second, third …, with about a million events."""
    stride = max(1, -(-int(event_counts[is_ok].sum()) // _ENOUGH))
    chosen: Mask = is_ok & ((np.cumsum(is_ok) - 1) % stride == 0)
    return chosen


def _together(parts: list[Events]) -> Events:
    if not parts:
        return Events(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0))
    return Events(
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.at_ns for part in parts]),
        np.concatenate([part.tokens for part in parts]),
        np.concatenate([part.text_bytes for part in parts]),
    )


def spread(values_ns: Floats, weights: Floats | None = None) -> Spread | None:
    """Return the curve of a distribution, evenly spaced in the logarithm of the share above.

    It ends at the share that a single observation makes, 1 − 1/n, and at 0.9999 at the latest.
    """
    if not len(values_ns):
        return None
    total = len(values_ns) if weights is None else float(weights.sum())
    finest = min(_FINEST, float(np.log10(max(total, 2.0))))
    shares = 1.0 - 10.0 ** -np.linspace(0.0, finest, _STEPS)
    values = np.array(percentiles(values_ns, tuple(shares.tolist()), weights))
    return Spread(shares, values / _NS)

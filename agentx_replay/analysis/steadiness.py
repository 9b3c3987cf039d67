"""Whether a level's window was long enough: its halves, since when it was settled, its plays.

Not an interval: load is correlated over minutes, so what parts of one window differ by does not say
how far another start would lie.
"""

from dataclasses import dataclass

import numpy as np

from agentx_replay.analysis.percentiles import percentiles
from agentx_replay.analysis.responses import Floats, Responses
from agentx_replay.analysis.throughput import tokens_inside
from agentx_replay.analysis.window import Window, measured

LEAST_IN_A_HALF = 30
"""Responses with an ITL, under which the P90 of a half is one or two of them."""
SETTLED_WITHIN = 0.05
_QUARTERS = (0.25, 0.5, 0.75)
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Halves:
    """The two halves of a window: P90 response ITL of the responses sent in each, tokens per second
    that came in each.

    ``settled_s`` is the first quarter from which on both numbers, taken from the opening until
    then, stayed within 5 % of those of the whole window; None if they never did.
    """

    p90_itl_s: tuple[float, float]
    tokens_per_s: tuple[float, float]
    settled_s: float | None


@dataclass(frozen=True, slots=True)
class PlayWeights:
    """How the measured tokens spread over ``plays``: Kish's effective number, (Σw)² / Σw², and the
    share of the largest.
    """

    plays: int
    effective: float
    largest_share: float


def halves(window_set: Responses, itl_ns: Floats, window: Window) -> Halves | None:
    """Return the halves of a window; ``itl_ns`` belongs to ``window_set``, NaN where a response has
    none or is not measured. None if a half has under 30.
    """
    has_itl = ~np.isnan(itl_ns)
    sent, itl_ns = (
        (window_set.send_ns[has_itl] - window.open_ns) / _length_ns(window),
        itl_ns[has_itl],
    )
    is_first = sent < 0.5
    if min(is_first.sum(), (~is_first).sum()) < LEAST_IN_A_HALF:
        return None
    whole_itl, whole = _p90_s(itl_ns), _tokens_until(window_set, window, 1.0)
    if not whole or not whole_itl:
        return None
    settled_s = None
    for share in reversed(_QUARTERS):
        until = itl_ns[sent < share]
        if not len(until) or not _alike(_p90_s(until), whole_itl):
            break
        if not _alike(_tokens_until(window_set, window, share) / share, whole):
            break
        settled_s = share * window.length_s
    half_s, first = window.length_s / 2, _tokens_until(window_set, window, 0.5)
    return Halves(
        p90_itl_s=(_p90_s(itl_ns[is_first]), _p90_s(itl_ns[~is_first])),
        tokens_per_s=(first / half_s, (whole - first) / half_s),
        settled_s=settled_s,
    )


def play_weights(window_set: Responses) -> PlayWeights | None:
    """Return how the tokens of the measured responses spread over plays; None without tokens."""
    ok = window_set.where(measured(window_set))
    tokens = np.nan_to_num(ok.prompt_tokens + ok.completion_tokens)
    if not tokens.sum():
        return None
    _, play = np.unique(np.stack([ok.lane, ok.play_number]), axis=1, return_inverse=True)
    weights = np.bincount(play.ravel(), weights=tokens)
    total = weights.sum()
    return PlayWeights(
        plays=len(weights),
        effective=float(total**2 / (weights**2).sum()),
        largest_share=float(weights.max() / total),
    )


def _length_ns(window: Window) -> int:
    return window.close_ns - window.open_ns


def _tokens_until(window_set: Responses, window: Window, share: float) -> float:
    """Return the tokens that came in the first ``share`` of the window."""
    close_ns = window.open_ns + round(share * _length_ns(window))
    until = Window(window.open_ns, close_ns, window.nominal_s)
    return float(tokens_inside(window_set, until).sum())


def _p90_s(itl_ns: Floats) -> float:
    return float(percentiles(itl_ns, (0.9,))[0]) / _NS


def _alike(value: float, whole: float) -> bool:
    return abs(value / whole - 1.0) <= SETTLED_WITHIN

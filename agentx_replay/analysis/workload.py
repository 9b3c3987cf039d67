"""What was played in a level's window: whether it was long enough, by its halves and its plays,
what its lanes alone say of throughput, and what its completed requests were like.

None of it is an interval of the system: load is correlated over minutes and lanes share an engine,
so parts of one window do not say how far another start would lie (``starts.py``). A lane over its
whole window is the unit; lanes whose first session is the same form one cluster, since they play
the same work, and clusters are drawn with replacement (the cluster bootstrap of Davison and
Hinkley, *Bootstrap Methods and their Application*, 1997, section 3.8). The loop is closed: a faster
server gets through more of each session, so even runs of one plan complete different requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from agentx_replay.analysis.percentiles import percentiles
from agentx_replay.analysis.responses import Floats, Responses, Window, measured, sent_in
from agentx_replay.analysis.throughput import headline_of, tokens_inside
from agentx_replay.results.sums import begins
from agentx_replay.units import NS_PER_S

LEAST_IN_A_HALF = 30
"""Responses with an ITL, under which the P90 of a half is one or two of them."""
SETTLED_WITHIN = 0.05
_QUARTERS = (0.25, 0.5, 0.75)


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


def play_weights(ok: Responses) -> PlayWeights | None:
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
    return float(percentiles(itl_ns, (0.9,))[0]) / NS_PER_S


def _alike(value: float, whole: float) -> bool:
    return abs(value / whole - 1.0) <= SETTLED_WITHIN


REPLICATES = 2000
MIN_CLUSTERS = 10
SEED = 20261016


@dataclass(frozen=True, slots=True, eq=False)
class LaneTokens:
    """Lanes of each cluster, and its tokens that the headline counts: ``(clusters,)``."""

    lanes: Floats
    tokens: Floats


def lane_tokens(responses: Responses, window: Window, concurrency: int) -> LaneTokens:
    """Return a level's tokens by cluster.

    A lane that sent nothing is a cluster of its own: it is work of zero tokens, not no work.
    """
    order = np.lexsort((responses.play_number, responses.lane))
    first = order[begins(responses.lane[order])]
    names = -1 - np.arange(concurrency)
    names[responses.lane[first]] = responses.session[first]
    index = {name: number for number, name in enumerate(dict.fromkeys(names.tolist()))}
    cluster_of_lane = np.array([index[name] for name in names.tolist()])
    window_set = sent_in(responses, window)
    if headline_of(window.nominal_s) == "windowed":
        counted, of = tokens_inside(window_set, window), window_set
    else:
        of = window_set.where(measured(window_set))
        counted = of.prompt_tokens + of.completion_tokens
    tokens = np.bincount(cluster_of_lane[of.lane], weights=counted, minlength=len(index))
    lanes = np.bincount(cluster_of_lane).astype(np.float64)
    return LaneTokens(lanes, tokens.astype(np.float64))


def lanes_half_width(of: LaneTokens) -> float | None:
    """Return half the 95 % percentile interval of throughput over drawn clusters, relative to the
    throughput; None under 10 clusters.

    A replicate that drew clusters of more lanes than the level has is scaled down to them.
    """
    clusters = len(of.lanes)
    if clusters < MIN_CLUSTERS or not of.tokens.any():
        return None
    rng = np.random.default_rng(SEED)
    drawn = rng.multinomial(clusters, np.full(clusters, 1.0 / clusters), size=REPLICATES)
    rates = (drawn @ of.tokens) / (drawn @ of.lanes)
    low, high = np.quantile(rates, (0.025, 0.975))
    return float((high - low) / 2 / (of.tokens.sum() / of.lanes.sum()))


_QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """Measured requests: input and output in tokens, depth (turns before it in its conversation),
    and the share of the prompt that an unlimited cache would hold. All of shape ``(requests,)``.
    """

    input_tokens: Floats
    output_tokens: Floats
    depth_turns: Floats
    reuse_share: Floats


MIX_PARTS = tuple(field.name for field in fields(Mix))


@dataclass(frozen=True, slots=True)
class MixSummary:
    """One distribution: mean and P10, P50, P90; None of nothing."""

    mean: float
    p10: float
    p50: float
    p90: float


def mix_of(ok: Responses) -> Mix:
    planned = ok.planned_prompt_tokens
    return Mix(
        input_tokens=ok.prompt_tokens,
        output_tokens=ok.completion_tokens,
        depth_turns=ok.turn.astype(float),
        reuse_share=ok.reusable_tokens / np.where(planned > 0, planned, np.nan),
    )


def pooled(mixes: Sequence[Mix]) -> Mix:
    return Mix(*(np.concatenate([getattr(mix, p) for mix in mixes] or [[]]) for p in MIX_PARTS))


def summary(values: Floats) -> MixSummary | None:
    there = values[~np.isnan(values)]
    if not len(there):
        return None
    p10, p50, p90 = (float(q) for q in np.quantile(there, _QUANTILES))
    return MixSummary(float(there.mean()), p10, p50, p90)


def largest_gap(a: Floats, b: Floats) -> float | None:
    """Return the largest difference of the two cumulative distributions, from 0 (the same) to 1:
    the statistic of Kolmogorov and Smirnov. None where either is empty.
    """
    a, b = np.sort(a[~np.isnan(a)]), np.sort(b[~np.isnan(b)])
    if not len(a) or not len(b):
        return None
    everywhere = np.concatenate([a, b])
    shares = [np.searchsorted(v, everywhere, side="right") / len(v) for v in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())

"""The summary of one point: every number that is printed about it, from its records alone.

What the numbers mean is in ``latency.py`` and ``throughput.py``; whether they may be believed is
``findings.py``'s.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from agentx_replay.analysis.itl_error import ItlError, itl_error
from agentx_replay.analysis.latency import (
    end_to_end_ns,
    event_gaps,
    event_weights,
    full_response_itl_ns,
    present,
    response_itl,
    send_lag_ns,
    token_gaps,
    tokens_of_events,
    ttft_from_connect_ns,
    ttft_from_intended_ns,
    ttft_ns,
    usual_tokens,
)
from agentx_replay.analysis.percentiles import Distribution, distribution
from agentx_replay.analysis.responses import Floats, Records, Responses
from agentx_replay.analysis.steadiness import Halves, PlayWeights, halves, play_weights
from agentx_replay.analysis.throughput import (
    Rates,
    cache_hit,
    cache_hit_theoretical,
    rates,
)
from agentx_replay.analysis.tokens import token_figures
from agentx_replay.analysis.window import Window, in_window_set, measured, sent_in
from agentx_replay.results.histograms import Series

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Counts:
    """How the requests of the window ended. ``categories`` counts errors by kind, most first;
    ``cached_above_prompt`` responses that were measured and report more cached than prompt tokens.
    """

    sent: int
    ok: int
    length_mismatch: int
    failed: int
    overflow: int
    cut: int
    without_usage: int
    retries: int
    categories: tuple[tuple[str, int], ...]
    cached_above_prompt: int = 0

    @property
    def measured(self) -> int:
        """Responses that are in the metrics."""
        return self.ok + self.length_mismatch


@dataclass(frozen=True, slots=True)
class PromptLengths:
    """Prompt tokens as the server counts them against the recorded, over measured responses.

    ``mean_tokens`` are the server's; ``share_exact`` had no error; ``largest_error_tokens`` is the
    one farthest from 0; ``aggregate_error`` is the sum of errors over the recorded tokens.
    """

    count: int
    mean_tokens: float
    share_exact: float
    largest_error_tokens: int
    aggregate_error: float


@dataclass(frozen=True, slots=True)
class PointSummary:
    """The numbers of one point; None where there is nothing to measure or it was not told.

    Distributions are over measured responses sent in the window, token ITL and event gaps over
    their tokens. ``response_itl_divisor_told`` is the share of responses whose server told the
    tokens of each event, ``itl_error`` how far the P90 may be off by what happened on the way.
    ``interactivity`` is 1 / P90 response ITL in tokens/s/user.
    ``halves`` is None where a half of the window has under 30 responses.
    ``last_ttft_s`` and ``last_itl_s`` are when the last first token, and the last token of a
    response with an ITL, came; ``lanes_sent_90_s`` is when 90 % of the lanes had sent: all three
    since the window opened.
    """

    counts: Counts
    ttft: Distribution | None
    ttft_from_connect: Distribution | None
    ttft_from_intended: Distribution | None
    response_itl: Distribution | None
    response_itl_divisor_told: float | None
    itl_error: ItlError
    full_response_itl: Distribution | None
    token_itl: Distribution | None
    event_gap: Distribution | None
    end_to_end: Distribution | None
    interactivity: float | None
    rates: Rates
    cache_hit: float | None
    cache_hit_theoretical: float | None
    prompt_lengths: PromptLengths | None
    lanes_sent_90_s: float | None
    last_ttft_s: float | None
    last_itl_s: float | None
    halves: Halves | None = None
    play_weights: PlayWeights | None = None


def summarise(
    records: Records, window: Window, concurrency: int, accept_length: float | None = None
) -> PointSummary:
    """Return the summary of a point from all its records, warm-up included or not.

    ``accept_length`` is how many tokens a step of the engine commits, where its counters tell.
    """
    window_set = sent_in(records.responses, window)
    ok = window_set.where(measured(window_set))
    itl = response_itl(ok)
    has_itl = ~np.isnan(itl.itl_ns)
    tokens = token_figures(records, window)
    itl_distribution = distribution(itl.itl_ns[has_itl])
    return PointSummary(
        counts=count(window_set),
        ttft=distribution(present(ttft_ns(ok))),
        ttft_from_connect=distribution(present(ttft_from_connect_ns(ok))),
        ttft_from_intended=distribution(present(ttft_from_intended_ns(ok))),
        response_itl=itl_distribution,
        response_itl_divisor_told=(
            float(itl.divisor_told[has_itl].mean()) if has_itl.any() else None
        ),
        itl_error=itl_error(ok, accept_length),
        full_response_itl=distribution(present(full_response_itl_ns(ok))),
        token_itl=tokens.token_itl,
        event_gap=tokens.event_gap,
        end_to_end=distribution(end_to_end_ns(ok)),
        interactivity=interactivity(itl_distribution),
        rates=rates(window_set, window, tokens),
        cache_hit=cache_hit(ok),
        cache_hit_theoretical=cache_hit_theoretical(ok),
        prompt_lengths=prompt_lengths(ok),
        lanes_sent_90_s=lanes_sent_s(window_set, window, concurrency, 0.9),
        last_ttft_s=_latest_s(ok.first_token_ns, window),
        last_itl_s=_latest_s(ok.last_token_ns[has_itl], window),
        halves=halves(ok, itl.itl_ns, window),
        play_weights=play_weights(ok),
    )


def interactivity(response_itl_distribution: Distribution | None) -> float | None:
    """1 / P90 response ITL in tokens/s/user; None without one, or where it is 0."""
    if response_itl_distribution is None or not response_itl_distribution.p90_s:
        return None
    return 1.0 / response_itl_distribution.p90_s


def count(window_set: Responses) -> Counts:
    """Count how the requests of the window's set ended."""
    by_status = Counter(window_set.status.tolist())
    categories = Counter(c for c in window_set.error_category.tolist() if c)
    usage = window_set.prompt_tokens + window_set.completion_tokens
    return Counts(
        sent=len(window_set),
        ok=by_status["ok"],
        length_mismatch=by_status["length_mismatch"],
        failed=by_status["failed"],
        overflow=by_status["overflow"],
        cut=by_status["cut"],
        without_usage=int(np.isnan(usage[measured(window_set)]).sum()),
        retries=int(np.nansum(window_set.retries)),
        categories=tuple(sorted(categories.items(), key=lambda item: (-item[1], item[0]))),
        cached_above_prompt=int(window_set.cached_above_prompt[measured(window_set)].sum()),
    )


def prompt_lengths(ok: Responses) -> PromptLengths | None:
    """Compare prompt lengths with the recording; None where the server tells none."""
    told = ok.where(~np.isnan(ok.prompt_tokens))
    if not len(told):
        return None
    errors = told.prompt_tokens - told.recorded_input_tokens
    return PromptLengths(
        count=len(told),
        mean_tokens=float(told.prompt_tokens.mean()),
        share_exact=float((errors == 0).mean()),
        largest_error_tokens=int(errors[np.argmax(np.abs(errors))]),
        aggregate_error=float(errors.sum() / max(told.recorded_input_tokens.sum(), 1.0)),
    )


def lanes_sent_s(
    window_set: Responses, window: Window, concurrency: int, share: float
) -> float | None:
    """Seconds since the window opened until ``share`` of the lanes had sent; None: never did."""
    _, lane_index = np.unique(window_set.lane, return_inverse=True)
    first_ns = np.full(lane_index.max(initial=-1) + 1, np.inf)
    np.minimum.at(first_ns, lane_index, window_set.send_ns)
    wanted = math.ceil(share * concurrency)
    if len(first_ns) < wanted:
        return None
    return float(np.sort(first_ns)[wanted - 1] - window.open_ns) / _NS


def _latest_s(at_ns: Floats, window: Window) -> float | None:
    seen_ns = present(at_ns)
    return float(seen_ns.max() - window.open_ns) / _NS if len(seen_ns) else None


def latency_series(records: Records, window: Window) -> Iterator[Series]:
    """Yield what the histogram log of a point holds, each observation at the time of its event.

    The same observations as the distributions of ``summarise``; send lag is of every request of
    the window. Those of tokens come in many pieces.
    """
    yield from _token_series(records, window)
    window_set = sent_in(records.responses, window)
    ok = window_set.where(measured(window_set))
    at_response = {
        "ttft": (ok.first_token_ns, ttft_ns(ok)),
        "response_itl": (ok.last_token_ns, response_itl(ok).itl_ns),
        "e2e": (ok.end_ns, end_to_end_ns(ok)),
        "send_lag": (window_set.send_ns, send_lag_ns(window_set)),
    }
    for tag, (at_ns, value_ns) in at_response.items():
        yield Series(tag, at_ns[~np.isnan(value_ns)], present(value_ns))


def _token_series(records: Records, window: Window) -> Iterator[Series]:
    responses = records.responses
    ok = in_window_set(responses, window) & measured(responses)
    weights = event_weights(responses, usual_tokens(responses, among=ok))
    for events in records.events():
        mine = events.of(ok)
        tokens = token_gaps(mine, tokens_of_events(mine, weights))
        gaps = event_gaps(mine)
        yield Series("token_itl", tokens.at_ns, tokens.gap_ns, tokens.weight)
        yield Series("event_gap", gaps.at_ns, gaps.gap_ns)

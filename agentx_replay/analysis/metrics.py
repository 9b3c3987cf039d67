"""The summary of one point: every number that is printed about it, from its records alone.

What the numbers mean is in ``latency.py`` and ``throughput.py``; whether they may be believed is
``findings.py``'s.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from agentx_replay.analysis.itl_error import ItlError, itl_error
from agentx_replay.analysis.latency import (
    agentx_itl_ns,
    end_to_end_ns,
    full_response_itl_ns,
    normalised_interactivity,
    present,
    response_itl,
    ttft_from_connect_ns,
    ttft_from_intended_ns,
    ttft_ns,
)
from agentx_replay.analysis.percentiles import Distribution, distribution, percentiles
from agentx_replay.analysis.responses import Floats, Responses, Window, measured
from agentx_replay.analysis.throughput import (
    Rates,
    cache_hit,
    cache_hit_theoretical,
    rates,
)
from agentx_replay.analysis.tokens import TokenFigures
from agentx_replay.analysis.workload import Halves, PlayWeights, halves, play_weights
from agentx_replay.units import NS_PER_S

_MAX_QUOTED = 200


@dataclass(frozen=True, slots=True)
class Counts:
    """How the requests of the window ended. ``categories`` counts errors by kind, most first;
    ``first_errors`` is the first error text of each status; ``cached_above_prompt`` responses that
    were measured and report more cached than prompt tokens.
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
    first_errors: tuple[tuple[str, str], ...] = ()

    @property
    def measured(self) -> int:
        return self.ok + self.length_mismatch

    def quoted(self, status: str) -> str:
        """Return the first error of a status as the end of a clause, "" if there is none."""
        text = dict(self.first_errors).get(status, "")
        short = text if len(text) <= _MAX_QUOTED else f"{text[: _MAX_QUOTED - 1]}…"
        return text and f" ({short})"


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
    their tokens. ``itl_error`` is how far the P90 may be off by what happened on the way.
    ``interactivity`` is 1 / P90 response ITL in tokens/s/user. ``last_ttft_s`` and ``last_itl_s``
    are when the last first token, and the last token of a response with an ITL, came, since the
    window opened. ``halves`` is None where a half of the window has under 30 responses.
    """

    counts: Counts
    ttft: Distribution | None
    ttft_from_connect: Distribution | None
    ttft_from_intended: Distribution | None
    response_itl: Distribution | None
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
    last_ttft_s: float | None
    last_itl_s: float | None
    halves: Halves | None = None
    play_weights: PlayWeights | None = None


def summarise(
    window_set: Responses,
    ok: Responses,
    window: Window,
    tokens: TokenFigures,
    accept_length: float | None = None,
) -> PointSummary:
    """Return the summary of a point from all responses sent in the window and those ``ok``.

    ``accept_length`` is how many tokens a step of the engine commits, where its counters tell.
    """
    itl_ns = response_itl(ok).itl_ns
    itl = distribution(present(itl_ns))
    return PointSummary(
        counts=count(window_set),
        ttft=distribution(present(ttft_ns(ok))),
        ttft_from_connect=distribution(present(ttft_from_connect_ns(ok))),
        ttft_from_intended=distribution(present(ttft_from_intended_ns(ok))),
        response_itl=itl,
        itl_error=itl_error(ok, accept_length),
        full_response_itl=distribution(present(full_response_itl_ns(ok))),
        token_itl=distribution(*tokens.token_itl.seen()),
        event_gap=distribution(*tokens.event_gap.seen()),
        end_to_end=distribution(end_to_end_ns(ok)),
        interactivity=1.0 / itl.p90_s if itl and itl.p90_s else None,
        rates=rates(window_set, window, tokens),
        cache_hit=cache_hit(ok),
        cache_hit_theoretical=cache_hit_theoretical(ok),
        prompt_lengths=prompt_lengths(ok),
        last_ttft_s=_latest_s(ok.first_token_ns, window),
        last_itl_s=_latest_s(ok.last_token_ns[~np.isnan(itl_ns)], window),
        halves=halves(ok, itl_ns, window),
        play_weights=play_weights(ok),
    )


def count(window_set: Responses) -> Counts:
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
        first_errors=_first_errors(window_set),
    )


def _first_errors(window_set: Responses) -> tuple[tuple[str, str], ...]:
    first: dict[str, str] = {}
    for at in np.flatnonzero(window_set.error_text != ""):
        first.setdefault(str(window_set.status[at]), window_set.error_text[at])
    return tuple(sorted(first.items()))


def prompt_lengths(ok: Responses) -> PromptLengths | None:
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


def _latest_s(at_ns: Floats, window: Window) -> float | None:
    seen_ns = present(at_ns)
    return float(seen_ns.max() - window.open_ns) / NS_PER_S if len(seen_ns) else None


def speeds(ok: Responses, summary: PointSummary, tokens: TokenFigures) -> dict[str, float | None]:
    """Return the speed in tokens/s/user under each definition of ``curve.py``."""
    itl_ns = present(response_itl(ok).itl_ns)
    itl, token, full = summary.response_itl, summary.token_itl, summary.full_response_itl
    normalised = normalised_interactivity(ok)
    return {
        "p50": _inverse(itl.p50_s if itl else None),
        "p90": _inverse(itl.p90_s if itl else None),
        "p95": _inverse(itl.p95_s if itl else None),
        "p99": _inverse(itl.p99_s if itl else None),
        "p90_by_index": _inverse(_by_index_s(itl_ns, 0.9)),
        "token": _inverse(token.p90_s if token else None),
        "agentx": _speed(present(agentx_itl_ns(ok))),
        "within": _speed(tokens.within_p90_ns, 0.5),
        "full": _inverse(full.p90_s if full else None),
        "with_ttft": _speed(NS_PER_S / normalised[normalised > 0]),
        "with_cut": _speed(np.concatenate((itl_ns, tokens.cut_itl_ns))),
        "in_window": _speed(tokens.inside_itl_ns),
    }


def _inverse(seconds: float | None) -> float | None:
    return 1.0 / seconds if seconds else None


def _speed(itl_ns: Floats, share: float = 0.9) -> float | None:
    return _inverse(percentiles(itl_ns, (share,))[0] / NS_PER_S) if len(itl_ns) else None


def _by_index_s(itl_ns: Floats, share: float) -> float | None:
    """The simplified rule of many a script: the value at place int(n · share), counted from 0."""
    return float(np.sort(itl_ns)[int(len(itl_ns) * share)]) / NS_PER_S if len(itl_ns) else None

"""Throughput of the system, two ways, and what makes them differ.

*Headline* (AgentX's): all tokens of the ok responses over the time from the earliest send to the
latest end. *Windowed*: tokens counted when they happen, inside the window, over its length.
Numbers here are per system; ``per`` divides by GPUs.
"""

from dataclasses import dataclass

import numpy as np

from agentx_replay.analysis.responses import Floats, Mask, Responses
from agentx_replay.analysis.tokens import TokenFigures
from agentx_replay.analysis.window import Window, happened_in, measured

_NS = 1_000_000_000
WORTH_EXPLAINING = 0.03


@dataclass(frozen=True, slots=True)
class Throughput:
    """Tokens per second. ``total`` counts reused input, ``uncached`` leaves it out (None where
    the server does not report cached tokens), ``output`` counts completion tokens only.
    """

    total_tokens_per_s: float
    uncached_tokens_per_s: float | None
    output_tokens_per_s: float

    def per(self, gpus: int | None) -> "Throughput | None":
        """Return the same per GPU; None where the number of GPUs is not known."""
        if gpus is None:
            return None
        uncached = self.uncached_tokens_per_s
        return Throughput(
            self.total_tokens_per_s / gpus,
            None if uncached is None else uncached / gpus,
            self.output_tokens_per_s / gpus,
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """Why the two throughputs differ: an identity in tokens and seconds.

    windowed tokens = headline tokens − ``drained_tokens`` (of ok responses, after the window)
    + ``cut_tokens`` (of cut responses, inside it); headline seconds = window − ``ramp_s`` (from
    its opening to the first send) + ``drain_s`` (from its close to the last end; negative where
    the last response ended before).
    """

    relative: float
    drained_tokens: float
    cut_tokens: float
    ramp_s: float
    drain_s: float


@dataclass(frozen=True, slots=True)
class Rates:
    """Both throughputs of one point; None where there is nothing, or not enough, to count."""

    headline: Throughput | None
    windowed: Throughput | None
    difference: Difference | None


@dataclass(frozen=True, slots=True, eq=False)
class _Input:
    """Prompt and cached tokens of each response; planned and estimated where one was cut."""

    prompt: Floats
    cached: Floats | None


def cached_tokens(responses: Responses) -> Floats | None:
    """Cached tokens of each response, None where the server reports none at all.

    Servers leave the field out when nothing was cached; so where any response has it, its absence
    in another means 0. A count above the prompt's length is as good as absent.
    """
    if np.isnan(responses.cached_tokens).all():
        return None
    return np.nan_to_num(responses.cached_tokens, nan=0.0)


def cache_hit(responses: Responses) -> float | None:
    """Cached / prompt tokens of ``responses`` as the server reports; None where it does not."""
    cached, prompt = cached_tokens(responses), np.nansum(responses.prompt_tokens)
    return None if cached is None or not prompt else float(cached.sum() / prompt)


def cache_hit_theoretical(responses: Responses) -> float | None:
    """The share of the prompt tokens sent that an unlimited prefix cache would hold."""
    planned = responses.planned_prompt_tokens.sum()
    return float(responses.reusable_tokens.sum() / planned) if planned else None


def rates(window_set: Responses, window: Window, arrived: TokenFigures) -> Rates:
    """Return both throughputs of the window's set, whose tokens ``arrived`` so.

    A measured response without usage makes all of them unknown: a sum over the others would be a
    wrong number. So do responses that report no token at all, or took no time.
    """
    ok = measured(window_set)
    usage = window_set.where(ok)
    told = not np.isnan(usage.prompt_tokens + usage.completion_tokens).any()
    if not len(usage) or not told:
        return Rates(None, None, None)
    span_s = float(usage.end_ns.max() - usage.send_ns.min()) / _NS
    total = float((usage.prompt_tokens + usage.completion_tokens).sum())
    if min(span_s, window.length_s, total) <= 0:
        return Rates(None, None, None)
    tokens = _input(window_set, ok)
    headline = _headline(usage, span_s)
    ok_output = arrived.output_inside
    both = ok | (window_set.status == "cut")
    inside = _windowed_tokens(
        window_set, tokens, window, both, ok_output + arrived.cut_output_inside
    )
    ok_inside = _windowed_tokens(window_set, tokens, window, ok, ok_output)
    windowed = _per_second(inside, window.length_s)
    open_s, close_s = window.open_ns / _NS, window.close_ns / _NS
    headline_tokens = headline.total_tokens_per_s * span_s
    difference = Difference(
        relative=windowed.total_tokens_per_s / headline.total_tokens_per_s - 1.0,
        drained_tokens=headline_tokens - ok_inside.total,
        cut_tokens=inside.total - ok_inside.total,
        ramp_s=float(usage.send_ns.min()) / _NS - open_s,
        drain_s=float(usage.end_ns.max()) / _NS - close_s,
    )
    return Rates(headline, windowed, difference)


@dataclass(frozen=True, slots=True)
class _Tokens:
    total: float
    uncached: float | None
    output: float


def _per_second(tokens: _Tokens, seconds: float) -> Throughput:
    uncached = None if tokens.uncached is None else tokens.uncached / seconds
    return Throughput(tokens.total / seconds, uncached, tokens.output / seconds)


def _headline(usage: Responses, span_s: float) -> Throughput:
    prompt, output = float(usage.prompt_tokens.sum()), float(usage.completion_tokens.sum())
    cached = cached_tokens(usage)
    uncached = None if cached is None else prompt - float(cached.sum()) + output
    return _per_second(_Tokens(prompt + output, uncached, output), span_s)


def _input(window_set: Responses, ok: Mask) -> _Input:
    """Usage where it came. A response cut before it has its planned length, and is taken to have
    been cached as much as the measured ones were.
    """
    prompt = window_set.prompt_tokens
    prompt = np.where(np.isnan(prompt), window_set.planned_prompt_tokens, prompt)
    hit = cache_hit(window_set.where(ok))
    if hit is None:
        return _Input(prompt, None)
    silent = np.isnan(window_set.cached_tokens)
    estimate = np.where(ok, 0.0, hit * prompt)
    return _Input(prompt, np.where(silent, estimate, window_set.cached_tokens))


def _windowed_tokens(
    window_set: Responses, tokens: _Input, window: Window, counted: Mask, output: float
) -> _Tokens:
    """Tokens that happened in the window: a prompt at its first token (at its end where no token
    came), an output token when it arrived, which makes ``output``.
    """
    first_ns = window_set.first_token_ns
    prompt_at_ns = np.where(np.isnan(first_ns), window_set.end_ns, first_ns)
    has_happened = ~np.isnan(first_ns) | measured(window_set)
    prompts = counted & has_happened & happened_in(prompt_at_ns, window)
    prompt = float(tokens.prompt[prompts].sum())
    uncached = None if tokens.cached is None else prompt - float(tokens.cached[prompts].sum())
    return _Tokens(prompt + output, None if uncached is None else uncached + output, output)


def worth_explaining(difference: Difference | None) -> bool:
    """Whether the throughputs differ by more than 3 %."""
    return difference is not None and abs(difference.relative) > WORTH_EXPLAINING


def explanation(difference: Difference) -> str | None:
    """Say why the throughputs differ, or None where that is not ``worth_explaining``."""
    if not worth_explaining(difference):
        return None
    return (
        f"windowed throughput is {difference.relative:+.1%} from the headline: "
        f"{difference.drained_tokens:,.0f} tokens came after the window (drain), "
        f"{difference.cut_tokens:,.0f} tokens of cut responses came inside it (cut), "
        f"the first request was sent {difference.ramp_s:.1f} s after the window opened (ramp) and "
        f"the last ended {abs(difference.drain_s):.1f} s "
        f"{'after' if difference.drain_s >= 0 else 'before'} it closed"
    )

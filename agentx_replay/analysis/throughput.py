"""Throughput of the system by several definitions, and what makes them differ.

*Overall*: all tokens of the ok responses over the time from the earliest send to the latest end.
*Windowed*: tokens counted when they happen, inside the window, over its length. *Phase*: all tokens
of the ok responses over the time from the window's opening to the end of its last request, and no
less than the window, which is what agentx-harness 1.0.12 divides by. ``headline_of`` decides which
of the first two a curve, a ratio and a cost are made of. Numbers here are per system.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from agentx_replay.analysis.responses import (
    Floats,
    Mask,
    Responses,
    Window,
    came_ns,
    happened_in,
    measured,
)
from agentx_replay.analysis.tokens import TokenFigures
from agentx_replay.units import NS_PER_S

WORTH_EXPLAINING = 0.03
SHORT_WINDOW_S = 900.0
"""Under it the drain is so much of the time from the first send to the last end (9 to 40 % of a
window of 20 s) that overall throughput says little of the server at work.
"""

Headline = Literal["windowed", "overall"]


def headline_of(window_s: float) -> Headline:
    return "windowed" if window_s < SHORT_WINDOW_S else "overall"


@dataclass(frozen=True, slots=True)
class Throughput:
    """Tokens per second. ``total`` counts reused input, ``uncached`` leaves it out (None where
    the server does not report cached tokens), ``output`` counts completion tokens only.
    """

    total_tokens_per_s: float
    uncached_tokens_per_s: float | None
    output_tokens_per_s: float

    def per(self, divisor: float) -> "Throughput":
        uncached = self.uncached_tokens_per_s
        return Throughput(
            self.total_tokens_per_s / divisor,
            None if uncached is None else uncached / divisor,
            self.output_tokens_per_s / divisor,
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """Why the two throughputs differ: an identity in tokens and seconds.

    windowed tokens = overall tokens − ``drained_tokens`` (of ok responses, after the window)
    + ``cut_tokens`` (of cut responses, inside it); overall seconds = window − ``ramp_s`` (from
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
    """The throughputs of one point; None where there is nothing, or not enough, to count.

    ``headline`` is the one that ``headline_is`` names.
    """

    headline_is: Headline
    headline: Throughput | None
    overall: Throughput | None
    windowed: Throughput | None
    phase: Throughput | None
    difference: Difference | None

    @property
    def beside(self) -> Throughput | None:
        return self.overall if self.headline_is == "windowed" else self.windowed


def cached_tokens(responses: Responses) -> Floats | None:
    """Cached tokens of each response, None where the server reports none at all.

    Servers leave the field out when nothing was cached; so where any response has it, its absence
    in another means 0. A count above the prompt's length is as good as absent.
    """
    if np.isnan(responses.cached_tokens).all():
        return None
    return np.nan_to_num(responses.cached_tokens, nan=0.0)


def cache_hit(responses: Responses) -> float | None:
    cached, prompt = cached_tokens(responses), np.nansum(responses.prompt_tokens)
    return None if cached is None or not prompt else float(cached.sum() / prompt)


def cache_hit_theoretical(responses: Responses) -> float | None:
    """The share of the prompt tokens sent that an unlimited prefix cache would hold."""
    planned = responses.planned_prompt_tokens.sum()
    return float(responses.reusable_tokens.sum() / planned) if planned else None


def rates(window_set: Responses, window: Window, arrived: TokenFigures) -> Rates:
    """Return the throughputs of the window's set, whose tokens ``arrived`` so.

    A measured response without usage makes all of them unknown: a sum over the others would be a
    wrong number. So do responses that report no token at all, or took no time.
    """
    headline_is = headline_of(window.nominal_s)
    nothing = Rates(headline_is, None, None, None, None, None)
    ok = measured(window_set)
    usage = window_set.where(ok)
    told = not np.isnan(usage.prompt_tokens + usage.completion_tokens).any()
    if not len(usage) or not told:
        return nothing
    span_s = float(usage.end_ns.max() - usage.send_ns.min()) / NS_PER_S
    total = float((usage.prompt_tokens + usage.completion_tokens).sum())
    if min(span_s, window.length_s, total) <= 0:
        return nothing
    prompt, cached = _input(window_set, ok)
    whole = _tokens(prompt, cached, ok, float(usage.completion_tokens.sum()))
    came = _came_inside(window_set, window)
    inside = _tokens(prompt, cached, came, arrived.output_inside + arrived.cut_output_inside)
    cut_tokens = float(prompt[came & ~ok].sum()) + arrived.cut_output_inside
    open_s, close_s = window.open_ns / NS_PER_S, window.close_ns / NS_PER_S
    phase_s = max(close_s, float(window_set.end_ns.max()) / NS_PER_S) - open_s
    overall, windowed = whole.per(span_s), inside.per(window.length_s)
    return Rates(
        headline_is=headline_is,
        headline=windowed if headline_is == "windowed" else overall,
        overall=overall,
        windowed=windowed,
        phase=whole.per(phase_s),
        difference=Difference(
            relative=windowed.total_tokens_per_s / overall.total_tokens_per_s - 1.0,
            drained_tokens=total - (inside.total_tokens_per_s - cut_tokens),
            cut_tokens=cut_tokens,
            ramp_s=float(usage.send_ns.min()) / NS_PER_S - open_s,
            drain_s=float(usage.end_ns.max()) / NS_PER_S - close_s,
        ),
    )


def _tokens(prompt: Floats, cached: Floats | None, of: Mask, output: float) -> Throughput:
    """Return the tokens of some responses, as if all were of one second."""
    read = float(prompt[of].sum())
    uncached = None if cached is None else read - float(cached[of].sum()) + output
    return Throughput(read + output, uncached, output)


def _input(window_set: Responses, ok: Mask) -> tuple[Floats, Floats | None]:
    """Return prompt and cached tokens (None if no response has any) as usage tells. A response cut
    before it is taken to have been cached as the measured ones were.
    """
    prompt = _prompt_tokens(window_set)
    if cached_tokens(window_set.where(ok)) is None:
        return prompt, None
    hit, cached = cache_hit(window_set.where(ok)) or 0.0, window_set.cached_tokens
    return prompt, np.where(np.isnan(cached), np.where(ok, 0.0, hit * prompt), cached)


def _prompt_tokens(window_set: Responses) -> Floats:
    """Return prompt tokens as usage tells; of a response cut before it, the planned ones."""
    told = window_set.prompt_tokens
    return np.where(np.isnan(told), window_set.planned_prompt_tokens, told)


def _came_inside(window_set: Responses, window: Window) -> Mask:
    """Return which responses, measured or cut after a token, began to come in the window."""
    began = (window_set.status == "cut") & ~np.isnan(window_set.first_token_ns)
    inside: Mask = (measured(window_set) | began) & happened_in(came_ns(window_set), window)
    return inside


def tokens_inside(window_set: Responses, window: Window) -> Floats:
    """Return the tokens of each response that came in the window, as far as its first and last
    token say: the prompt at the first, the output evenly from there to the last.

    A cut response without usage has its planned prompt, and a token an event. Bounds how lanes
    vary; what a point shows is counted event by event (``rates``).
    """
    completion = window_set.completion_tokens
    output = np.where(np.isnan(completion), window_set.event_counts, completion)
    took_ns = np.fmax(window_set.last_token_ns - window_set.first_token_ns, 1.0)
    share = np.clip((window.close_ns - came_ns(window_set)) / took_ns, 0.0, 1.0)
    tokens = _prompt_tokens(window_set) + share * output
    return np.where(_came_inside(window_set, window), tokens, 0.0)


def worth_explaining(difference: Difference | None) -> bool:
    return difference is not None and abs(difference.relative) > WORTH_EXPLAINING

"""Whether a level keeps an objective, and what its tokens that do are worth.

A *margin* is ln(value / bound) of a clause, turned so that at most 0 keeps it. *Attainment* is the
share of the requests sent in the window that keep every clause, each by itself whatever statistic
the clause bounds; a request that failed or was cut keeps none. *Goodput* is the part of the
headline throughput that these requests brought.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentx_replay.analysis.latency import LATENCIES, present
from agentx_replay.analysis.objective import Clause, Objective
from agentx_replay.analysis.percentiles import percentiles
from agentx_replay.analysis.responses import (
    Floats,
    Mask,
    Responses,
    Window,
    measured,
    sent_in,
)
from agentx_replay.analysis.throughput import cached_tokens, headline_of, tokens_inside
from agentx_replay.units import NS_PER_S

_LEAST_RATIO = 0.01
"""A share of 0 has no logarithm: no value is taken to be better than its bound by more."""
DEPTHS = ((0, 9), (10, 29), (30, 99), (100, None))
"""Turns of a conversation before a request, from and to."""


@dataclass(frozen=True, slots=True, eq=False)
class SentRequests:
    """The requests sent in a window, each array of shape ``(requests,)``; NaN for what is not
    known of one.

    ``well`` says which were answered, ``latency_s`` holds ``LATENCIES`` by their names;
    ``tokens`` are what the headline counts of each, ``output`` its completion tokens among them.
    """

    well: Mask
    failed: Mask
    cut: Mask
    lane: NDArray[np.int64]
    play_number: NDArray[np.int64]
    depth: NDArray[np.int64]
    latency_s: Mapping[str, Floats]
    prompt: Floats
    cached: Floats | None
    tokens: Floats
    output: Floats


def sent_requests(responses: Responses, window: Window) -> SentRequests:
    sent = sent_in(responses, window)
    well = measured(sent)
    prompt = np.nan_to_num(sent.prompt_tokens)
    if headline_of(window.nominal_s) == "windowed":
        tokens = tokens_inside(sent, window)
        output = np.maximum(tokens - prompt, 0.0)
    else:
        output = np.where(well, np.nan_to_num(sent.completion_tokens), 0.0)
        tokens = np.where(well, prompt, 0.0) + output
    cached = cached_tokens(sent.where(well))
    return SentRequests(
        well=well,
        failed=sent.status == "failed",
        cut=sent.status == "cut",
        lane=sent.lane,
        play_number=sent.play_number,
        depth=sent.turn,
        latency_s={
            name: np.where(well, of(sent) / NS_PER_S, np.nan) for name, of in LATENCIES.items()
        },
        prompt=prompt,
        cached=None if cached is None else np.nan_to_num(sent.cached_tokens),
        tokens=tokens,
        output=output,
    )


@dataclass(frozen=True, slots=True)
class Jobs:
    """Plays of a level. ``finished`` ended in the window, ``whole_s`` are the times of those that
    also began in it, in seconds, skipped idle time not among them: long plays are under-represented
    in a window that is not much longer. ``model_share`` is the part of all agents' time in the
    window in which an agent had a request in flight.
    """

    finished: int
    per_hour: float
    whole_s: tuple[float, ...]
    model_share: float


# --- margins -------------------------------------------------------------------------------------


def value_of(clause: Clause, sent: SentRequests, jobs: Jobs | None) -> float | None:
    """Return what a clause bounds, as measured at a level; None if the level does not tell."""
    if not len(sent.well):
        return None
    if clause.metric in ("failed", "cut"):
        return float((sent.failed if clause.metric == "failed" else sent.cut).mean())
    if clause.metric == "hit":
        read = sent.prompt[sent.well].sum()
        return None if sent.cached is None or not read else sent.cached[sent.well].sum() / read
    if clause.metric == "play":
        values = np.array(jobs.whole_s if jobs else ())
    else:
        values = present(sent.latency_s[clause.metric])
    if len(values) < clause.responses_needed:
        return None
    return float(values.mean() if clause.share is None else percentiles(values, (clause.share,))[0])


def margin(clause: Clause, value: float) -> float:
    """Return how far a value is beyond its bound, as a logarithm; at most 0 keeps the clause."""
    ratio = clause.bound / max(value, 1e-12) if clause.upward else value / clause.bound
    return math.log(max(ratio, _LEAST_RATIO))


def margins(objective: Objective, sent: SentRequests, jobs: Jobs | None) -> list[float | None]:
    """Return the margin of every clause, the implied ones too; None if one cannot be measured."""
    found = [(clause, value_of(clause, sent, jobs)) for clause in objective.clauses]
    return [None if value is None else margin(clause, value) for clause, value in found]


# --- attainment and goodput ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attained:
    """Of ``sent`` requests ``kept`` that keep every clause."""

    sent: int
    kept: int

    @property
    def share(self) -> float | None:
        return self.kept / self.sent if self.sent else None


@dataclass(frozen=True, slots=True)
class Goodput:
    """What keeps an objective at a level: requests, by depth (``DEPTHS``) too, plays of which all
    requests in the window do, and the shares of the headline's tokens.
    """

    requests: Attained
    by_depth: tuple[Attained, ...]
    plays: Attained
    token_share: float
    output_share: float


def keeping(objective: Objective, sent: SentRequests) -> Mask:
    """Return which requests keep every clause. One without a later token has no ITL to bound; one
    whose prompt's cached tokens are not told does not keep a clause on hits.
    """
    kept = sent.well.copy()
    for clause in objective.typed:
        if clause.metric == "hit":
            cached = np.zeros(len(kept)) if sent.cached is None else sent.cached
            kept &= cached >= clause.bound * sent.prompt
        elif clause.metric in LATENCIES:
            values = sent.latency_s[clause.metric]
            unbounded = np.isnan(values) if "itl" in clause.metric else False
            kept &= (values <= clause.bound) | unbounded
    return kept


def goodput(objective: Objective, sent: SentRequests) -> Goodput:
    kept = keeping(objective, sent)
    play = np.unique(np.stack([sent.lane, sent.play_number]), axis=1, return_inverse=True)[1]
    broken = np.bincount(play.ravel(), weights=~kept)
    depths = [
        (sent.depth >= low) & ((sent.depth <= high) if high is not None else True)
        for low, high in DEPTHS
    ]
    return Goodput(
        requests=_attained(kept),
        by_depth=tuple(_attained(kept[of]) for of in depths),
        plays=_attained(broken == 0),
        token_share=_part(sent.tokens, kept),
        output_share=_part(sent.output, kept),
    )


def _attained(kept: Mask) -> Attained:
    return Attained(len(kept), int(kept.sum()))


def _part(tokens: Floats, kept: Mask) -> float:
    whole = float(tokens.sum())
    return float(tokens[kept].sum()) / whole if whole else 0.0


# --- jobs ----------------------------------------------------------------------------------------


def jobs_of(
    plays: Sequence[tuple[float | None, int, int | None]], responses: Responses, window: Window
) -> Jobs:
    """Return the jobs of a level; of each play t* (None: from its beginning), start and end."""
    ended = [
        (start_ns, end_ns, t_star_s)
        for t_star_s, start_ns, end_ns in plays
        if end_ns is not None and window.open_ns <= end_ns < window.close_ns
    ]
    whole_s = [(end - start) / NS_PER_S for start, end, t_star_s in ended if t_star_s is None]
    lanes = len(np.unique(responses.lane))
    busy_s = _busy_ns(sent_in(responses, window), window) / NS_PER_S
    return Jobs(
        finished=len(ended),
        per_hour=len(ended) / window.length_s * 3600.0,
        whole_s=tuple(sorted(whole_s)),
        model_share=busy_s / (lanes * window.length_s) if lanes else 0.0,
    )


def _busy_ns(sent: Responses, window: Window) -> float:
    """Return how long, over all lanes, a lane had a request in flight: each instant once."""
    apart = float(window.close_ns) + 1.0  # lanes one after the other on one axis
    begun = np.minimum(sent.send_ns, window.close_ns) + sent.lane * apart
    ended = np.minimum(sent.end_ns, window.close_ns) + sent.lane * apart
    order = np.argsort(begun, kind="stable")
    begun, ended = begun[order], ended[order]
    before = np.maximum.accumulate(np.concatenate([[-np.inf], ended]))[:-1]
    return float(np.maximum(ended - np.maximum(begun, before), 0.0).sum())

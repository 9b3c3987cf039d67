"""The same records under other definitions: what a result would be if terms meant something else.

One row changes one definition of the headline: the percentile, what is an ITL, what counts as a
token, what it is divided by. Not for judging which definition is right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentx_replay.analysis.frontier import CurvePoint, throughput_at
from agentx_replay.analysis.latency import (
    full_response_itl_ns,
    normalised_interactivity,
    present,
    response_itl,
    token_gaps,
    tokens_of_events,
)
from agentx_replay.analysis.percentiles import percentiles
from agentx_replay.analysis.responses import Floats, Mask, Responses
from agentx_replay.analysis.throughput import rates
from agentx_replay.analysis.window import Window, measured, sent_in

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Definition:
    """One row: its name, and the keys of the speed and the throughput it takes."""

    name: str
    speed: str
    throughput: str


DEFINITIONS = (
    Definition("headline: P90 response ITL, total tokens", "p90", "total"),
    Definition("P50 instead of P90", "p50", "total"),
    Definition("P95 instead of P90", "p95", "total"),
    Definition("P99 instead of P90", "p99", "total"),
    Definition("P90 by the rule sorted[int(0.9·n)]", "p90_by_index", "total"),
    Definition("token ITL", "token", "total"),
    Definition("ITL up to the end of the stream", "full", "total"),
    Definition("ITL with TTFT: end to end / output tokens", "with_ttft", "total"),
    Definition("ITL of cut responses added", "with_cut", "total"),
    Definition("ITL from events in the window alone", "in_window", "total"),
    Definition("tokens as they happen in the window", "p90", "windowed"),
    Definition("without reused input", "p90", "uncached"),
    Definition("output tokens only", "p90", "output"),
)


@dataclass(frozen=True, slots=True)
class LevelVariants:
    """One level under every definition: speeds in tokens/s/user and throughput of the system in
    tokens/s, by key; None where there is nothing to compute it from.
    """

    concurrency: int
    speeds: Mapping[str, float | None]
    throughputs: Mapping[str, float | None]


def level_variants(responses: Responses, window: Window, concurrency: int) -> LevelVariants:
    """Return a level under every definition."""
    window_set = sent_in(responses, window)
    ok = window_set.where(measured(window_set))
    return LevelVariants(concurrency, _speeds(window_set, ok, window), _rates(window_set, window))


def values_at(
    levels: Sequence[LevelVariants], definition: Definition, target: float, gpus: int
) -> float | None:
    """Return throughput per GPU at the target interactivity under a definition; None: not reached,
    or a level has nothing to compute it from.
    """
    points = []
    for level in levels:
        speed = level.speeds[definition.speed]
        throughput = level.throughputs[definition.throughput]
        if speed is None or throughput is None:
            return None
        points.append(CurvePoint(level.concurrency, speed, throughput / gpus))
    return throughput_at(points, target).throughput


def _speeds(window_set: Responses, ok: Responses, window: Window) -> dict[str, float | None]:
    itl_ns = present(response_itl(ok).itl_ns)
    tokens = token_gaps(ok.events, tokens_of_events(ok))
    with_ttft_ns = _NS / normalised_interactivity(ok)
    cut = window_set.where(window_set.status == "cut")
    inside = (ok.events.at_ns >= window.open_ns) & (ok.events.at_ns < window.close_ns)
    return {
        **{f"p{share}": _speed(itl_ns, share / 100) for share in (50, 90, 95, 99)},
        "p90_by_index": _speed_by_index(itl_ns, 0.9),
        "token": _speed(tokens.gap_ns, 0.9, tokens.weight),
        "full": _speed(present(full_response_itl_ns(ok)), 0.9),
        "with_ttft": _speed(present(with_ttft_ns), 0.9),
        "with_cut": _speed(np.concatenate([itl_ns, itl_of_events(cut, None)]), 0.9),
        "in_window": _speed(itl_of_events(ok, inside), 0.9),
    }


def itl_of_events(responses: Responses, kept: Mask | None) -> Floats:
    """Return the mean gap after the first of the ``kept`` events (all, where None) of each
    response, in ns, for those with a later token among them.

    Where the server does not tell the tokens of events they are estimated as for token ITL.
    """
    events, tokens = responses.events, tokens_of_events(responses)
    row, at_ns = events.row, events.at_ns
    if kept is not None:
        row, at_ns, tokens = row[kept], at_ns[kept], tokens[kept]
    if not len(row):
        return np.empty(0)
    first = np.flatnonzero(np.diff(row, prepend=-1))
    last = np.append(first[1:], len(row)) - 1
    later = np.add.reduceat(tokens, first) - tokens[first]
    has = (later > 0) & (last > first)
    itl_ns: Floats = (at_ns[last[has]] - at_ns[first[has]]) / later[has]
    return itl_ns


def _speed(itl_ns: Floats, share: float, weights: Floats | None = None) -> float | None:
    if not len(itl_ns):
        return None
    (value_ns,) = percentiles(itl_ns, (share,), weights)
    return _NS / value_ns if value_ns else None


def _speed_by_index(itl_ns: Floats, share: float) -> float | None:
    """The simplified rule of many a script: the value at place int(n · share), counted from 0."""
    if not len(itl_ns):
        return None
    value_ns = float(np.sort(itl_ns)[int(len(itl_ns) * share)])
    return _NS / value_ns if value_ns else None


def _rates(window_set: Responses, window: Window) -> dict[str, float | None]:
    found = rates(window_set, window)
    headline, windowed = found.headline, found.windowed
    return {
        "total": headline.total_tokens_per_s if headline else None,
        "windowed": windowed.total_tokens_per_s if windowed else None,
        "uncached": headline.uncached_tokens_per_s if headline else None,
        "output": headline.output_tokens_per_s if headline else None,
    }

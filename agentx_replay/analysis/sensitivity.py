"""The same records under other definitions: what a result would be if terms meant something else.

One row changes one definition of the headline: the percentile, what is an ITL, what counts as a
token, what it is divided by. Not for judging which definition is right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentx_replay.analysis.frontier import AtTarget, CurvePoint, mean_at, throughput_at
from agentx_replay.analysis.latency import (
    agentx_itl_ns,
    event_weights,
    normalised_interactivity,
    present,
    response_itl,
    tokens_of_events,
    usual_tokens,
)
from agentx_replay.analysis.metrics import PointSummary
from agentx_replay.analysis.percentiles import percentiles
from agentx_replay.analysis.responses import Events, Floats, Records
from agentx_replay.analysis.throughput import Rates
from agentx_replay.analysis.window import Window, happened_in, in_window_set, measured
from agentx_replay.results.sums import begins

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
    Definition("ITL by AgentX's divisor: output tokens − 1", "agentx", "total"),
    Definition("P90 of each response's gaps, then median", "within", "total"),
    Definition("ITL up to the end of the stream", "full", "total"),
    Definition("ITL with TTFT: end to end / output tokens", "with_ttft", "total"),
    Definition("ITL of cut responses added", "with_cut", "total"),
    Definition("ITL from events in the window alone", "in_window", "total"),
    Definition("window throughput", "p90", "windowed"),
    Definition("overall throughput", "p90", "overall"),
    Definition("throughput by agentx-harness 1.0.12", "p90", "phase"),
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


def level_variants(
    records: Records, summary: PointSummary, window: Window, concurrency: int
) -> LevelVariants:
    """Return a level under every definition, of which ``summary`` has most."""
    speeds = _told(summary) | _speeds(records, window)
    return LevelVariants(concurrency, speeds, _throughputs(summary.rates))


@dataclass(frozen=True, slots=True)
class Reading:
    """Throughput per GPU at a target under one definition. ``at`` is None where a level has
    nothing to compute it from; ``why`` says why there is no value, None where there is one.
    """

    at: AtTarget | None
    why: str | None

    @property
    def throughput(self) -> float | None:
        """The value itself."""
        return None if self.at is None else self.at.throughput


def reading_at(
    starts: Sequence[Sequence[LevelVariants]], definition: Definition, target: float, gpus: int
) -> Reading:
    """Return throughput per GPU at the target interactivity under a definition: the mean over
    ``starts``, each read off its own levels.
    """
    found = []
    for levels in starts:
        points = []
        for level in levels:
            speed = level.speeds[definition.speed]
            throughput = level.throughputs[definition.throughput]
            if speed is None or throughput is None:
                lacking = "speed" if speed is None else "throughput"
                return Reading(None, f"concurrency {level.concurrency} has no such {lacking}")
            points.append(CurvePoint(level.concurrency, speed, throughput / gpus))
        found.append(throughput_at(points, target))
    at = mean_at(found)
    return Reading(at, at.why_not_reached)


def _told(summary: PointSummary) -> dict[str, float | None]:
    itl, token, full = summary.response_itl, summary.token_itl, summary.full_response_itl
    return {
        "p50": _inverse(itl.p50_s if itl else None),
        "p90": _inverse(itl.p90_s if itl else None),
        "p95": _inverse(itl.p95_s if itl else None),
        "p99": _inverse(itl.p99_s if itl else None),
        "token": _inverse(token.p90_s if token else None),
        "full": _inverse(full.p90_s if full else None),
    }


def _inverse(seconds: float | None) -> float | None:
    return 1.0 / seconds if seconds else None


def _speeds(records: Records, window: Window) -> dict[str, float | None]:
    responses = records.responses
    window_set = in_window_set(responses, window)
    is_ok, is_cut = window_set & measured(responses), window_set & (responses.status == "cut")
    ok = responses.where(is_ok)
    weights = event_weights(responses, usual_tokens(responses, among=is_ok))
    itl_ns = present(response_itl(ok).itl_ns)
    with_cut, in_window, within = [itl_ns], [itl_ns[:0]], [itl_ns[:0]]
    for events in records.events():
        cut = events.of(is_cut)
        with_cut.append(itl_of_events(cut, tokens_of_events(cut, weights)))
        inside = events.of(is_ok)
        within.append(p90_within(inside, tokens_of_events(inside, weights)))
        inside = inside.where(happened_in(inside.at_ns, window))
        in_window.append(itl_of_events(inside, tokens_of_events(inside, weights)))
    return {
        "agentx": _speed(present(agentx_itl_ns(ok))),
        "p90_by_index": _speed_by_index(itl_ns, 0.9),
        "with_ttft": _speed(_ns_a_token(normalised_interactivity(ok))),
        "with_cut": _speed(np.concatenate(with_cut)),
        "in_window": _speed(np.concatenate(in_window)),
        "within": _speed(np.concatenate(within), 0.5),
    }


def itl_of_events(events: Events, tokens: Floats) -> Floats:
    """Return the mean gap after the first arrival of each response, in ns, for those with a later
    token; ``tokens`` (shape ``(events,)``) are in each event.
    """
    if not len(events.row):
        return np.empty(0)
    at_ns, first = events.at_ns, np.flatnonzero(events.is_first)
    last = np.append(first[1:], len(at_ns)) - 1
    first_at_ns = np.repeat(at_ns[first], last - first + 1)
    later = np.add.reduceat(np.where(at_ns > first_at_ns, tokens, 0.0), first)
    has = later > 0
    itl_ns: Floats = (at_ns[last[has]] - at_ns[first[has]]) / later[has]
    return itl_ns


def p90_within(events: Events, tokens: Floats) -> Floats:
    """Return the P90 of the gaps before each later arrival of a response, each divided by the
    arrival's tokens, in ns, for those responses that have one.

    ``tokens`` (shape ``(events,)``) says how many are in each event. An arrival counts once,
    whatever its tokens.
    """
    starts = np.flatnonzero(events.is_first | begins(events.at_ns))
    if not len(starts):
        return np.empty(0)
    weight = np.add.reduceat(tokens, starts)
    later = ~events.is_first[starts] & (weight > 0)
    gap_ns = np.diff(events.at_ns[starts], prepend=0.0)[later] / weight[later]
    row = events.row[starts][later]
    gap_ns = gap_ns[np.lexsort((gap_ns, row))]
    first = np.flatnonzero(begins(row))
    number = np.diff(np.append(first, len(row)))
    rank = 0.9 * (number - 1)
    below = np.floor(rank).astype(np.int64)
    low, high = gap_ns[first + below], gap_ns[first + np.minimum(below + 1, number - 1)]
    p90_ns: Floats = low + (rank - below) * (high - low)
    return p90_ns


def _ns_a_token(speeds: Floats) -> Floats:
    """Return the inverse of speeds in tokens/s; a response without a token has none."""
    return _NS / speeds[speeds > 0]


def _speed(itl_ns: Floats, share: float = 0.9) -> float | None:
    """Return the inverse of a percentile, in tokens/s."""
    return _inverse(percentiles(itl_ns, (share,))[0] / _NS) if len(itl_ns) else None


def _speed_by_index(itl_ns: Floats, share: float) -> float | None:
    """The simplified rule of many a script: the value at place int(n · share), counted from 0."""
    if not len(itl_ns):
        return None
    return _inverse(float(np.sort(itl_ns)[int(len(itl_ns) * share)]) / _NS)


def _throughputs(found: Rates) -> dict[str, float | None]:
    headline = found.headline
    totals = {
        "total": headline,
        "windowed": found.windowed,
        "overall": found.overall,
        "phase": found.phase,
    }
    return {key: each.total_tokens_per_s if each else None for key, each in totals.items()} | {
        "uncached": headline.uncached_tokens_per_s if headline else None,
        "output": headline.output_tokens_per_s if headline else None,
    }

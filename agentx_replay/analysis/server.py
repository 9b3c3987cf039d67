"""What follows from a server's own metrics: series over time, its cache against the client's count,
and what speculative decoding brings.

Of several names of one meaning only one is believed (``server_metrics.RANK``), so that an engine
and the router before it are not added up.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from agentx_replay.analysis.cost import break_even_cycle_growth
from agentx_replay.analysis.responses import Floats
from agentx_replay.analysis.timeline import Requests
from agentx_replay.analysis.window import Window
from agentx_replay.results.server_metrics import RANK, Metric

_NS = 1_000_000_000
_POSITION = re.compile(r'position="(\d+)"')
_SUMMED = (Metric.RUNNING, Metric.WAITING)
MAX_HIT_DIFFERENCE = 0.01
MAX_FOREIGN_SHARE = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples of one line of a metrics page: instants (s since the window opened) and values."""

    labels: str
    at_s: Floats
    values: Floats


Metrics = Mapping[Metric, tuple[Samples, ...]]


def metrics_of(table: pa.Table, window: Window) -> Metrics:
    """Return the samples of ``server.parquet`` by meaning, one entry an endpoint and label set."""
    text = {name: np.array(table[name].to_pylist(), object) for name in ("metric", "name")}
    best: dict[str, str] = {}
    for metric, name in sorted(set(zip(text["metric"], text["name"], strict=True))):
        if (metric, name) in RANK:
            best.setdefault(metric, name)
            best[metric] = min(best[metric], name, key=lambda n: RANK[metric, n])
    where = np.array(table["endpoint"].to_pylist(), object)
    labels = np.array(table["labels"].to_pylist(), object)
    at_s = (table["at_ns"].to_numpy() - window.open_ns) / _NS
    values = table["value"].to_numpy()
    found: dict[Metric, tuple[Samples, ...]] = {}
    for metric, name in best.items():
        chosen = (text["metric"] == metric) & (text["name"] == name)
        lines = sorted(set(zip(where[chosen], labels[chosen], strict=True)))
        masks = [(chosen & (where == w) & (labels == line), line) for w, line in lines]
        found[Metric(metric)] = tuple(Samples(line, at_s[m], values[m]) for m, line in masks)
    return found


def gauge_over_time(metric: Metric, samples: tuple[Samples, ...], edges_s: Floats) -> Floats:
    """Return the mean of a gauge between each two edges, NaN where it was not sampled.

    Counts of requests add up over endpoints and label sets, shares are averaged.
    """
    means = []
    for each in samples:
        sums = np.histogram(each.at_s, edges_s, weights=each.values)[0]
        numbers = np.histogram(each.at_s, edges_s)[0]
        means.append(np.where(numbers > 0, sums / np.maximum(numbers, 1), np.nan))
    told = ~np.isnan(means)
    total: Floats = np.where(told, means, 0.0).sum(axis=0)
    count = told.sum(axis=0)
    whole = total if metric in _SUMMED else total / np.maximum(count, 1)
    return np.where(count > 0, whole, np.nan)


def growth(samples: Samples) -> tuple[Floats, Floats]:
    """Return a counter's increases and when each was seen; after a restart it counts from 0."""
    steps = np.diff(samples.values)
    return samples.at_s[1:], np.where(steps < 0, samples.values[1:], steps)


def growth_over_time(samples: tuple[Samples, ...], edges_s: Floats) -> Floats:
    """Return how much counters grew, together, between each two edges."""
    total = np.zeros(len(edges_s) - 1)
    for each in samples:
        at_s, steps = growth(each)
        total += np.histogram(at_s, edges_s, weights=steps)[0]
    return total


def growth_in(metrics: Metrics, metric: Metric, length_s: float) -> float | None:
    """Return how much a counter grew in the window; None where it was not told."""
    samples = metrics.get(metric)
    return _grown(samples, length_s) if samples else None


def _grown(samples: tuple[Samples, ...], length_s: float) -> float:
    """Sum the increases seen in (0, ``length_s``]: one seen at 0 came before."""
    total = 0.0
    for each in samples:
        at_s, steps = growth(each)
        total += float(steps[(at_s > 0) & (at_s <= length_s)].sum())
    return total


# --- the cache, as the server and the client count it ------------------------------------------


@dataclass(frozen=True, slots=True)
class CacheAgreement:
    """Cache hit in the window by the server's counters and by the usage the client was told, for
    prompts whose first token came in it; ``foreign_share``: how many more prompt tokens the server
    looked up than this client sent, relatively.
    """

    server_hit: float
    client_hit: float
    foreign_share: float

    @property
    def disagreement(self) -> str | None:
        """Return what does not fit, None where all does."""
        if self.foreign_share > MAX_FOREIGN_SHARE:
            return (
                f"the server looked up {self.foreign_share:.0%} more prompt tokens than this run "
                "sent: somebody else used it, or it computed prompts again"
            )
        if abs(self.server_hit - self.client_hit) > MAX_HIT_DIFFERENCE:
            return (
                f"the server's counters say {self.server_hit:.1%} of prompt tokens were cached, "
                f"its responses say {self.client_hit:.1%}"
            )
        return None


def cache_agreement(metrics: Metrics, requests: Requests, length_s: float) -> CacheAgreement | None:
    """Return how server and client agree; None where either does not tell."""
    hits = growth_in(metrics, Metric.CACHE_HITS, length_s)
    queries = growth_in(metrics, Metric.CACHE_QUERIES, length_s)
    inside = (requests.first_s >= 0) & (requests.first_s < length_s) & requests.good
    prompt, cached = requests.prompt[inside], requests.cached[inside]
    if hits is None or not queries or np.isnan(cached).all() or not np.nansum(prompt):
        return None
    sent = float(np.nansum(prompt))
    return CacheAgreement(hits / queries, float(np.nansum(cached)) / sent, queries / sent - 1.0)


# --- speculative decoding ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Speculation:
    """What drafting brings. ``accept_length`` is mean tokens a cycle commits, the verified one
    included. ``accepted`` holds, by position of the draft token, the share of cycles that accept
    it. ``last_pays_below``: how much longer the last draft token may make a cycle, relatively, to
    pay; ``next_pays_below_at_most`` bounds the same for one more, since a token further on is
    accepted no more often than the one before it. None where the server does not tell enough.
    """

    accept_length: float
    drafted_tokens: float | None
    accepted: tuple[float, ...]
    last_pays_below: float | None
    next_pays_below_at_most: float | None


def speculation(metrics: Metrics, length_s: float) -> Speculation | None:
    """Return what the server tells of speculative decoding in the window; None where nothing."""
    drafts = growth_in(metrics, Metric.DRAFTS, length_s)
    accepted = growth_in(metrics, Metric.ACCEPTED_TOKENS, length_s)
    drafted = growth_in(metrics, Metric.DRAFT_TOKENS, length_s)
    if not drafts or accepted is None:
        length = _mean_accept_length(metrics, length_s)
        return None if length is None else Speculation(length, None, (), None, None)
    shares = tuple(
        count / drafts for count in _by_position(metrics.get(Metric.ACCEPTED_AT, ()), length_s)
    )
    last, following = break_evens(shares)
    return Speculation(
        accept_length=1.0 + accepted / drafts,
        drafted_tokens=None if drafted is None else drafted / drafts,
        accepted=shares,
        last_pays_below=last,
        next_pays_below_at_most=following,
    )


def break_evens(accepted: tuple[float, ...]) -> tuple[float | None, float | None]:
    """Return how much longer a cycle may become, relatively, for the last draft token to pay, and
    at most for one more, from the share of cycles that accept each position.
    """
    if not accepted:
        return None, None
    with_last = 1.0 + sum(accepted)
    without_last = with_last - accepted[-1]
    return (
        break_even_cycle_growth(without_last, with_last),
        break_even_cycle_growth(with_last, with_last + accepted[-1]),
    )


def _by_position(samples: tuple[Samples, ...], length_s: float) -> list[float]:
    grown: dict[int, float] = {}
    for each in samples:
        position = _POSITION.search(each.labels)
        if position is not None:
            more = _grown((each,), length_s)
            grown[int(position[1])] = grown.get(int(position[1]), 0.0) + more
    return [grown[position] for position in sorted(grown)]


def _mean_accept_length(metrics: Metrics, length_s: float) -> float | None:
    samples = metrics.get(Metric.ACCEPT_LENGTH)
    if not samples:
        return None
    inside: list[NDArray[np.float64]] = [
        each.values[(each.at_s >= 0) & (each.at_s < length_s) & (each.values > 0)]
        for each in samples
    ]
    values = np.concatenate(inside)
    return float(values.mean()) if len(values) else None

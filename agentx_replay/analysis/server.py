"""What follows from a server's own metrics: series over time, its cache against the client's count,
and what speculative decoding brings.

Of an engine's several names of one meaning the best on its page is believed
(``server_metrics.RANK``), so that replicas may be of several versions, and a router's only where no
engine tells, so that the two are not added up. Engines of several kinds are.
"""

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from agentx_replay.analysis.cost import break_even_cycle_growth
from agentx_replay.analysis.responses import Floats, Window
from agentx_replay.analysis.timeline import Timeline
from agentx_replay.results.server_metrics import GREATEST_VALUE
from agentx_replay.results.server_names import NEEDS, RANK, Metric
from agentx_replay.units import NS_PER_S

_POSITION = re.compile(r'position="(\d+)"')  # of token_position too
_SUMMED = (Metric.RUNNING, Metric.WAITING, Metric.WAITING_FOR)
_BY_LABEL = (Metric.ACCEPTED_AT, Metric.CACHED_FROM, Metric.WAITING_FOR)
"""Of these a line without labels is no total of the others: each is told apart."""
_Told = tuple[str, str, str]
"""Page, meaning and name."""
_LINE = ("endpoint", "metric", "name", "labels")
_ROUTER = "dynamo"
_DIVIDED = (
    (Metric.CACHE_QUERIES, Metric.CACHE_HITS),
    (Metric.DRAFTS, Metric.DRAFT_TOKENS, Metric.ACCEPTED_TOKENS, Metric.ACCEPTED_AT),
    (Metric.POOL_BLOCKS, Metric.BLOCK_TOKENS),
)
"""Counts that are divided by each other, so must be of the same engines: of kinds that tell only
some of those told, none is taken.
"""
OLDEST_S = 2.0
"""How old a sample of a counter may be: a scrape's interval for an answer on its way, and another
for an engine, or what collects for it, that brings its page up to date no more often than that.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples of one line of a metrics page: instants (s since the window opened) and values."""

    labels: str
    at_s: Floats
    values: Floats
    name: str = ""


Metrics = Mapping[Metric, tuple[Samples, ...]]


def metrics_of(table: pa.Table, window: Window) -> Metrics:
    """Return the samples of ``server.parquet`` by meaning, one entry an endpoint and label set.

    Values that no metric can have, which older versions kept, are passed over.
    """
    values = table["value"].to_numpy()
    told = _told(table.filter(pa.array((values >= 0.0) & (values <= GREATEST_VALUE))), window)
    found: dict[Metric, tuple[Samples, ...]] = {}
    for page, metric, name in sorted(_believed(told.keys()), key=lambda each: (*each[1:], each[0])):
        lines = _that_add_up(Metric(metric), told[page, metric, name])
        more = tuple(lines[labels] for labels in sorted(lines))
        found[Metric(metric)] = found.get(Metric(metric), ()) + more
    return found


def _told(table: pa.Table, window: Window) -> dict[_Told, dict[str, Samples]]:
    lines = table.sort_by("at_ns").group_by([*_LINE], use_threads=False)
    listed = lines.aggregate([("at_ns", "list"), ("value", "list")])
    columns = (listed[name] for name in (*_LINE, "at_ns_list", "value_list"))
    told: dict[_Told, dict[str, Samples]] = {}
    for *line, at_ns, value in zip(*columns, strict=True):
        page, metric, name, labels = (each.as_py() for each in line)
        if (metric, name) in RANK:
            at_s = (at_ns.values.to_numpy() - window.open_ns) / NS_PER_S
            samples = Samples(labels, at_s, value.values.to_numpy(), name)
            told.setdefault((page, metric, name), {})[labels] = samples
    return told


def _that_add_up(metric: Metric, lines: dict[str, Samples]) -> dict[str, Samples]:
    """Return the lines of one name on one page that count: of those beside one without labels it
    alone. A client library writes all lines of a name with the same labels, so one without is the
    total that a router, say, wrote beside its engines. A total is by no label.
    """
    return {"": lines[""]} if "" in lines and metric not in _BY_LABEL else lines


def _believed(told: Set[_Told]) -> set[_Told]:
    """Return which meanings and names count, and of which pages."""
    on_page: dict[str, set[str]] = {}
    for page, _, name in told:
        on_page.setdefault(page, set()).add(name)
    told = {each for each in told if each[1:] not in NEEDS or NEEDS[each[1:]] & on_page[each[0]]}
    best: dict[_Told, int] = {}
    for page, metric, name in told:
        of = page, metric, _kind(name)
        best[of] = min(best.get(of, RANK[metric, name]), RANK[metric, name])
    found = {(p, m, n) for p, m, n in told if RANK[m, n] == best[p, m, _kind(n)]}
    by_engines = {metric for _, metric, name in found if _kind(name) != _ROUTER}
    found = {(p, m, n) for p, m, n in found if m not in by_engines or _kind(n) != _ROUTER}
    for group in _DIVIDED:
        kinds = [{_kind(n) for _, m, n in found if m == metric} for metric in group]
        whole = set.intersection(*filter(None, kinds)) if any(kinds) else set()
        found = {(p, m, n) for p, m, n in found if m not in group or _kind(n) in whole}
    return found


def _kind(name: str) -> str:
    return name.removeprefix("nv_").replace("trt_llm", "trtllm").replace(":", "_").split("_")[0]


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


def mean_alive_at(start_s: Floats, end_s: Floats, at_s: Floats, edges_s: Floats) -> Floats:
    """Return how many of the spans [start, end) are alive at the instants ``at_s``, averaged over
    those between each two edges; NaN where there are none.
    """
    begun = np.searchsorted(np.sort(start_s), at_s, "right")
    alive = begun - np.searchsorted(np.sort(end_s), at_s, "right")
    sums, numbers = np.histogram(at_s, edges_s, weights=alive)[0], np.histogram(at_s, edges_s)[0]
    return np.where(numbers > 0, sums / np.maximum(numbers, 1), np.nan)


def growth(samples: Samples) -> tuple[Floats, Floats]:
    """Return a counter's increases and when each was seen; after a restart it counts from 0.

    A fall that the next sample makes up for is no restart: that page was older than the one before
    it, and is passed over. So is a fall at the end, of which that cannot be told.
    """
    before = np.insert(samples.values[:-1], 0, 0.0)
    following = np.append(samples.values[1:], np.inf)
    kept = (samples.values >= before) | (following < before)
    values = samples.values[kept]
    steps = np.diff(values)
    return samples.at_s[kept][1:], np.where(steps < 0, values[1:], steps)


def growth_over_time(samples: tuple[Samples, ...], edges_s: Floats) -> Floats:
    total = np.zeros(len(edges_s) - 1)
    for each in samples:
        at_s, steps = growth(each)
        total += np.histogram(at_s, edges_s, weights=steps)[0]
    return total


def growth_in(metrics: Metrics, metric: Metric, length_s: float) -> float | None:
    samples = metrics.get(metric)
    return _grown(samples, 0.0, length_s) if samples else None


def _grown(samples: tuple[Samples, ...], after_s: float, until_s: float) -> float:
    """Sum the increases seen in (``after_s``, ``until_s``]: one seen at its start came before."""
    total = 0.0
    for each in samples:
        at_s, steps = growth(each)
        total += float(steps[(at_s > after_s) & (at_s <= until_s)].sum())
    return total


# --- the cache, as the server and the client count it ------------------------------------------


@dataclass(frozen=True, slots=True)
class CacheAgreement:
    """Cache hit between the same two scrapes, by the server's counters and by the usage that the
    client was told.

    A prompt is counted by the server somewhere between its send (vLLM, when it is scheduled) and
    its end (SGLang, when it is finished), and the page may be ``OLDEST_S`` old: a prompt under way
    then may stand on either side of a scrape. ``client_hit`` counts it as of its first token;
    ``least_hit`` and ``most_hit`` are what it may be with those prompts left out or in.
    ``foreign_share`` is how many more prompt tokens the server looked up than this client can have
    sent, relatively; below 0, how many fewer than it certainly sent.
    """

    server_hit: float
    client_hit: float
    least_hit: float
    most_hit: float
    foreign_share: float


def cache_agreement(metrics: Metrics, requests: Timeline, length_s: float) -> CacheAgreement | None:
    """Return how server and client agree from the last scrape before the window opened to the last
    in it; None where either does not tell.
    """
    queries_told, hits_told = (
        metrics.get(metric, ()) for metric in (Metric.CACHE_QUERIES, Metric.CACHE_HITS)
    )
    spans = [_scraped_span(each, length_s) for each in queries_told]
    if not hits_told or not spans or np.isnan(requests.cached).all():
        return None
    queries = sum(_grown((s,), *span) for s, span in zip(queries_told, spans, strict=True))
    hits = sum(_grown((s,), *_scraped_span(s, length_s)) for s in hits_told)
    after, until = zip(*spans, strict=True)
    sent = np.nan_to_num(np.where(requests.good, requests.prompt, requests.planned))
    cached = np.nan_to_num(requests.cached)
    counted = requests.good & (requests.first_s > max(after)) & (requests.first_s <= min(until))
    surely = counted & (requests.send_s > max(after)) & (requests.end_s <= min(until) - OLDEST_S)
    maybe = (requests.send_s <= max(until)) & (requests.end_s > min(after) - OLDEST_S) & ~surely
    if not queries or not sent[counted].sum():
        return None
    certain, possible = float(sent[surely].sum()), float(sent[surely | maybe].sum())
    beyond = min(queries / certain - 1.0, 0.0) if certain else 0.0
    if queries > possible:
        beyond = queries / possible - 1.0
    # Of the prompts in doubt the least hit counts what was computed alone, the most what was found.
    least = cached[surely].sum() / max(certain + (sent - cached)[maybe].sum(), 1.0)
    most = 1.0 - (sent - cached)[surely].sum() / max(certain + cached[maybe].sum(), 1.0)
    return CacheAgreement(
        server_hit=hits / queries,
        client_hit=float(cached[counted].sum() / sent[counted].sum()),
        least_hit=float(least),
        most_hit=float(most),
        foreign_share=float(beyond),
    )


def _scraped_span(samples: Samples, length_s: float) -> tuple[float, float]:
    """Return the instants of the last sample before the window opened (of the first, where there
    is none) and of the last in it.
    """
    inside = samples.at_s[samples.at_s <= length_s]
    if not len(inside):
        return length_s, length_s
    before = inside[inside <= 0]
    return float(before[-1] if len(before) else inside[0]), float(inside[-1])


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
            more = _grown((each,), 0.0, length_s)
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


_LABELS = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
_TIER_LABELS = ("source", "cache_source", "tier")
_TIERS = {
    "local_cache_hit": "local",
    "external_kv_transfer": "external",
    "vllm:prefix_cache_hits_total": "local",
    "vllm:external_prefix_cache_hits_total": "external",
}
_REST = "local"
"""Where hits come from that no tier tells: an engine may count what it loaded alone."""
_WORTH_TELLING = 0.001


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a page tells of the window. ``cached_from`` holds, by tier, the share of the prompt
    tokens looked up that was found there, the largest first. ``pool_tokens`` is how many tokens
    the KV cache of all engines holds, ``longest_prompt_tokens`` the longest prompt that was
    answered, ``host_usage`` the greatest share of the tier in host memory
    in use. ``loaded_bytes`` and ``stored_bytes`` moved between tiers. ``waiting_for`` holds the
    mean number of requests that wait, by reason. The P90s are the server's own, from the buckets
    of its histograms. None where it does not tell.
    """

    cached_from: tuple[tuple[str, float], ...] = ()
    pool_tokens: float | None = None
    longest_prompt_tokens: float | None = None
    host_usage: float | None = None
    loaded_bytes: float | None = None
    stored_bytes: float | None = None
    waiting_for: tuple[tuple[str, float], ...] = ()
    ttft_p90_s: float | None = None
    itl_p90_s: float | None = None
    queue_p90_s: float | None = None


def server_facts(metrics: Metrics, requests: Timeline, length_s: float) -> ServerFacts | None:
    """Return what the page told of a window of ``length_s``; None where it told none of this."""
    prompts = requests.prompt[requests.good & ~np.isnan(requests.prompt)]
    pool = pool_tokens(metrics)
    found = ServerFacts(
        cached_from=cached_from(metrics, length_s),
        pool_tokens=pool,
        longest_prompt_tokens=float(prompts.max()) if pool and len(prompts) else None,
        host_usage=_host_usage(metrics),
        loaded_bytes=growth_in(metrics, Metric.OFFLOAD_LOADED_BYTES, length_s),
        stored_bytes=growth_in(metrics, Metric.OFFLOAD_STORED_BYTES, length_s),
        waiting_for=_waiting_for(metrics, length_s),
        ttft_p90_s=bucket_percentile(metrics.get(Metric.TTFT_BUCKETS, ()), length_s, 0.9),
        itl_p90_s=bucket_percentile(metrics.get(Metric.ITL_BUCKETS, ()), length_s, 0.9),
        queue_p90_s=bucket_percentile(metrics.get(Metric.QUEUE_BUCKETS, ()), length_s, 0.9),
    )
    return None if found == ServerFacts() else found


def _labels(of: Samples) -> dict[str, str]:
    return dict(_LABELS.findall(of.labels))


def cached_from(metrics: Metrics, length_s: float) -> tuple[tuple[str, float], ...]:
    queries = growth_in(metrics, Metric.CACHE_QUERIES, length_s)
    hits = growth_in(metrics, Metric.CACHE_HITS, length_s)
    if not queries or hits is None or Metric.CACHED_FROM not in metrics:
        return ()
    tiers: dict[str, float] = {}
    for each in metrics[Metric.CACHED_FROM]:
        tier = _tier(each)
        tiers[tier] = tiers.get(tier, 0.0) + _grown((each,), 0.0, length_s) / queries
    rest = hits / queries - sum(tiers.values())
    if rest > _WORTH_TELLING:
        tiers[_REST] = tiers.get(_REST, 0.0) + rest
    told = ((tier, share) for tier, share in tiers.items() if share > 0)
    return tuple(sorted(told, key=lambda each: -each[1]))


def _tier(of: Samples) -> str:
    labels = _labels(of)
    named = next((labels[name] for name in _TIER_LABELS if name in labels), of.name)
    return _TIERS.get(named, "lmcache" if "lmcache" in named else named)


def pool_tokens(metrics: Metrics) -> float | None:
    """Return how many tokens the KV cache of all engines holds: as told, or blocks × their size."""
    pools = [float(each.values[-1]) for each in metrics.get(Metric.POOL_TOKENS, ())]
    for each in metrics.get(Metric.CACHE_CONFIG, ()):
        labels = _labels(each)
        blocks, size = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
        if blocks.isdecimal() and size.isdecimal():
            pools.append(float(blocks) * float(size))
    sizes = [float(each.values[-1]) for each in metrics.get(Metric.BLOCK_TOKENS, ())]
    if sizes:
        blocks_told = metrics.get(Metric.POOL_BLOCKS, ())
        pools += [float(each.values[-1]) * sizes[0] for each in blocks_told]
    return sum(pools) if any(pools) else None


def _host_usage(metrics: Metrics) -> float | None:
    told = [float(each.values.max()) for each in metrics.get(Metric.HOST_USAGE, ())]
    most = [float(each.values[-1]) for each in metrics.get(Metric.HOST_TOKENS, ())]
    used = [float(each.values.max()) for each in metrics.get(Metric.HOST_USED_TOKENS, ())]
    if sum(most) > 0 and used:
        told.append(sum(used) / sum(most))
    return max(told, default=None)


def _waiting_for(metrics: Metrics, length_s: float) -> tuple[tuple[str, float], ...]:
    found: dict[str, float] = {}
    for each in metrics.get(Metric.WAITING_FOR, ()):
        labels = _labels(each)
        reason = labels.get("reason") or labels.get("stage") or each.name.split(":")[-1]
        inside = each.values[(each.at_s >= 0) & (each.at_s < length_s)]
        if len(inside):
            found[reason] = found.get(reason, 0.0) + float(inside.mean())
    return tuple((reason, mean) for reason, mean in sorted(found.items()) if mean > 0)


def bucket_percentile(buckets: tuple[Samples, ...], length_s: float, share: float) -> float | None:
    """Return a percentile of what a Prometheus histogram counted in the window, in its unit.

    Linear within a bucket, as PromQL's histogram_quantile; the highest finite bound where it lies
    beyond. None where nothing was counted.
    """
    upto: dict[float, float] = {}
    for each in buckets:
        bound = _bound(_labels(each))
        if bound is not None:
            upto[bound] = upto.get(bound, 0.0) + _grown((each,), 0.0, length_s)
    bounds = sorted(upto)
    if not bounds or not upto[bounds[-1]]:
        return None
    rank, low, below = share * upto[bounds[-1]], 0.0, 0.0
    for bound in bounds:
        if upto[bound] >= rank:
            if np.isinf(bound):
                return low
            inside = upto[bound] - below
            return low + (bound - low) * (rank - below) / inside if inside else bound
        low, below = bound, upto[bound]
    return None


def _bound(labels: Mapping[str, str]) -> float | None:
    try:
        return float(labels["le"])
    except (KeyError, ValueError):
        return None

"""What a server's own page tells of a level beside its load: the tiers of its cache, the size of
its pool, and its own count of latencies, which shows what lies between it and this client.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from agentx_replay.analysis.server import Metrics, Samples, growth, growth_in
from agentx_replay.analysis.timeline import Timeline
from agentx_replay.results.server_names import Metric

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


def _grown(samples: Samples, length_s: float) -> float:
    at_s, steps = growth(samples)
    return float(steps[(at_s > 0.0) & (at_s <= length_s)].sum())


def cached_from(metrics: Metrics, length_s: float) -> tuple[tuple[str, float], ...]:
    """Return the share of the prompt tokens looked up that each tier held."""
    queries = growth_in(metrics, Metric.CACHE_QUERIES, length_s)
    hits = growth_in(metrics, Metric.CACHE_HITS, length_s)
    if not queries or hits is None or Metric.CACHED_FROM not in metrics:
        return ()
    tiers: dict[str, float] = {}
    for each in metrics[Metric.CACHED_FROM]:
        tier = _tier(each)
        tiers[tier] = tiers.get(tier, 0.0) + _grown(each, length_s) / queries
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
            upto[bound] = upto.get(bound, 0.0) + _grown(each, length_s)
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

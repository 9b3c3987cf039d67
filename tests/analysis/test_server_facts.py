"""What an engine's page tells of a level, by fixtures of each engine's lines at two scrapes."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from agentx_replay.analysis import findings
from agentx_replay.analysis.responses import Window
from agentx_replay.analysis.server import (
    Metrics,
    bucket_percentile,
    cache_agreement,
    cached_from,
    metrics_of,
    pool_tokens,
    server_facts,
)
from agentx_replay.analysis.timeline import Timeline
from agentx_replay.results.layout import Measurement
from agentx_replay.results.rows import batch_of
from agentx_replay.results.schema import SERVER
from agentx_replay.results.server_metrics import known_samples
from agentx_replay.results.server_names import Metric

S = 1_000_000_000
WINDOW = Window(100 * S, 110 * S, 10.0)


def scraped(pages: dict[str, Sequence[str]]) -> Metrics:
    """Each page's lines, whose counters are 0 as the window opens and as written 9 s later."""
    rows = []
    for page, lines in pages.items():
        for series, value in known_samples(lines):
            counter = series.metric.value.endswith("_total")
            for at_ns, told in ((100 * S, 0.0 if counter else value), (109 * S, value)):
                rows.append((at_ns, page, series.metric.value, series.name, series.labels, told))
    batch = batch_of(SERVER, rows, Measurement(8))
    return metrics_of(pa.Table.from_batches([batch]), WINDOW)


def answered(prompt: float, cached: float) -> Timeline:
    """One prompt sent at 1 s and answered by 3 s, of which the usage says so much was cached."""
    one = np.ones(1)
    return Timeline(
        lane=np.zeros(1, np.int64), is_main=np.ones(1, bool), good=np.ones(1, bool),
        send_s=one, first_s=2 * one, end_s=3 * one, prompt=prompt * one, cached=cached * one,
        planned=prompt * one, reusable=cached * one,
    )  # fmt: skip


# vLLM with KV offload: of 1,000 tokens 555 were found on the device and 299 in the host's memory.
VLLM_COUNTS = [
    'vllm:prefix_cache_queries_total{engine="0"} 1000',
    'vllm:prefix_cache_hits_total{engine="0"} 555',
    'vllm:external_prefix_cache_queries_total{engine="0"} 445',
    'vllm:external_prefix_cache_hits_total{engine="0"} 299',
    'vllm:prompt_tokens_total{engine="0"} 1000',
]
VLLM_BY_SOURCE = [
    *VLLM_COUNTS,
    'vllm:prompt_tokens_by_source_total{engine="0",source="local_compute"} 146',
    'vllm:prompt_tokens_by_source_total{engine="0",source="local_cache_hit"} 555',
    'vllm:prompt_tokens_by_source_total{engine="0",source="external_kv_transfer"} 299',
]
VLLM_CACHED = [
    *VLLM_BY_SOURCE,
    'vllm:prompt_tokens_cached_total{engine="0"} 854',
    'vllm:prompt_tokens_cached_by_source_total{engine="0",source="device"} 555',
    'vllm:prompt_tokens_cached_by_source_total{engine="0",source="host"} 299',
]
SGLANG = [
    "sglang:prompt_tokens_total 1000",
    'sglang:cached_tokens_total{cache_source="device"} 555',
    'sglang:cached_tokens_total{cache_source="host"} 299',
]
ATOM = [
    "atom:prefix_cache_full_tokens_total 1000",
    "atom:prefix_cache_cached_tokens_total 854",
    "atom:lmcache_loaded_tokens_total 299",
]


@pytest.mark.parametrize(
    ("lines", "tiers"),
    [
        (VLLM_COUNTS, {"local": 0.555, "external": 0.299}),
        (VLLM_BY_SOURCE, {"local": 0.555, "external": 0.299}),
        (VLLM_CACHED, {"device": 0.555, "host": 0.299}),
        (SGLANG, {"device": 0.555, "host": 0.299}),
        (ATOM, {"local": 0.555, "lmcache": 0.299}),
    ],
)
def test_the_hits_of_every_tier_are_what_responses_call_cached(
    lines: list[str], tiers: dict[str, float]
) -> None:
    metrics = scraped({"e": lines})
    assert dict(cached_from(metrics, 10.0)) == pytest.approx(tiers)
    agreement = cache_agreement(metrics, answered(1000.0, 854.0), 10.0)
    assert agreement is not None
    assert agreement.server_hit == pytest.approx(0.854)
    assert not any(findings.cache_agreement(agreement))


def test_counters_of_all_tiers_5_points_off_are_a_warning() -> None:
    agreement = cache_agreement(scraped({"e": VLLM_CACHED}), answered(1000.0, 904.0), 10.0)
    assert agreement is not None
    assert [each.code for each in findings.cache_agreement(agreement)] == ["cache-hits-disagree"]


def test_all_prompt_tokens_are_not_what_the_prefix_cache_was_asked_for() -> None:
    metrics = scraped({"e": ["vllm:prompt_tokens_total 5000", *VLLM_COUNTS[:2]]})
    assert [each.values[-1] for each in metrics[Metric.CACHE_QUERIES]] == [1000.0]


def test_dynamo_in_front_of_vllm_is_not_counted_twice() -> None:
    router = [
        "dynamo_frontend_input_sequence_tokens_sum 1000",
        "dynamo_frontend_cached_tokens_sum 854",
        "dynamo_component_gpu_cache_usage_percent 0.5",
        "dynamo_component_total_blocks 60",
    ]
    both = scraped({"router": router, "engine": [*VLLM_CACHED, "vllm:kv_cache_usage_perc 0.5"]})
    agreement = cache_agreement(both, answered(1000.0, 854.0), 10.0)
    assert agreement is not None
    assert agreement.server_hit == pytest.approx(0.854)
    assert agreement.foreign_share == 0.0
    assert len(both[Metric.KV_USAGE]) == 1
    alone = cache_agreement(scraped({"router": router}), answered(1000.0, 854.0), 10.0)
    assert alone is not None
    assert alone.server_hit == pytest.approx(0.854)


@pytest.mark.parametrize(
    ("lines", "tokens"),
    [
        (['vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000"} 1'], 16_000),
        (['vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1'], None),
        (["sglang:max_total_num_tokens 2.1e6"], 2_100_000),
        (["trtllm_kv_cache_max_blocks 100", "trtllm_kv_cache_tokens_per_block 32"], 3_200),
        (["dynamo_component_total_blocks 60"], None),  # it does not tell how large a block is
    ],
)
def test_the_pool_is_told_in_tokens_or_in_blocks(lines: list[str], tokens: float | None) -> None:
    assert pool_tokens(scraped({"e": lines})) == tokens


def test_the_servers_percentile_is_interpolated_within_its_bucket() -> None:
    lines = [
        f'vllm:time_to_first_token_seconds_bucket{{engine="{engine}",le="{bound}"}} {count}'
        for engine in (0, 1)
        for bound, count in (("0.1", 10), ("0.5", 40), ("1.0", 48), ("+Inf", 50))
    ]
    buckets = scraped({"e": lines})[Metric.TTFT_BUCKETS]
    # Of 100 by both engines rank 90: 80 lie below 0.5 s, 96 below 1 s: 0.5 + 0.5 * 10 / 16.
    assert bucket_percentile(buckets, 10.0, 0.9) == pytest.approx(0.8125)
    assert bucket_percentile(buckets, 10.0, 0.99) == 1.0  # beyond the last finite bound
    assert bucket_percentile((), 10.0, 0.9) is None


def test_what_a_page_tells_beside_its_load() -> None:
    metrics = scraped(
        {
            "e": [
                "sglang:max_total_num_tokens 2800",
                "sglang:hicache_host_used_tokens 30",
                "sglang:hicache_host_total_tokens 120",
                "sglang:num_prefill_inflight_queue_reqs 2",
                'vllm:num_requests_waiting_by_reason{reason="capacity"} 3',
                "vllm:kv_offload_load_bytes_total 5e9",
            ]
        }
    )
    found = server_facts(metrics, answered(200.0, 0.0), 10.0)
    assert found is not None
    assert (found.pool_tokens, found.longest_prompt_tokens) == (2800.0, 200.0)
    assert found.host_usage == pytest.approx(0.25)
    assert found.waiting_for == (("capacity", 3.0), ("num_prefill_inflight_queue_reqs", 2.0))
    assert (found.loaded_bytes, found.stored_bytes) == (5e9, None)


def test_a_page_of_load_alone_tells_nothing_more() -> None:
    metrics = scraped({"e": ["vllm:num_requests_running 3"]})
    assert server_facts(metrics, answered(200.0, 0.0), 10.0) is None

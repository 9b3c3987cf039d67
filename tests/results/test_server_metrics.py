from pathlib import Path

import pytest
from record_cases import server_rows, write_rows

from agentx_replay.results.layout import Measurement
from agentx_replay.results.schema import SERVER
from agentx_replay.results.server_metrics import (
    Series,
    ServerSamples,
    known_samples,
    read_server_metrics,
)
from agentx_replay.results.server_names import NAMES, NEEDS, RANK, Metric

# One line of each engine's page, as its documentation or source shows them.
LINES = [
    ('vllm:num_requests_running{engine="0",model_name="m"} 3.0', Metric.RUNNING, 3.0),
    ('vllm:num_requests_waiting{engine="0"} 2', Metric.WAITING, 2.0),
    ("vllm:kv_cache_usage_perc 0.25", Metric.KV_USAGE, 0.25),
    ("vllm:gpu_cache_usage_perc 0.5", Metric.KV_USAGE, 0.5),
    ("vllm:num_preemptions_total 7.0", Metric.PREEMPTIONS, 7.0),
    ("vllm:prefix_cache_queries_total 1.5e+06", Metric.CACHE_QUERIES, 1.5e6),
    ("vllm:gpu_prefix_cache_hits_total 1.2e+06", Metric.CACHE_HITS, 1.2e6),
    ('vllm:num_requests_waiting_by_reason{reason="capacity"} 2', Metric.WAITING_FOR, 2),
    ("vllm:kv_offload_load_bytes_total 5e9", Metric.OFFLOAD_LOADED_BYTES, 5e9),
    ("vllm:kv_offload_cpu_cache_read_usage_perc 0.4", Metric.HOST_USAGE, 0.4),
    ('vllm:request_success_total{finished_reason="length"} 9', Metric.FINISHED, 9),
    ('vllm:time_to_first_token_seconds_bucket{le="0.5"} 9', Metric.TTFT_BUCKETS, 9),
    ('vllm:inter_token_latency_seconds_bucket{le="+Inf"} 9', Metric.ITL_BUCKETS, 9),
    ('vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1', Metric.CACHE_CONFIG, 1),
    ("sglang:spec_verify_calls_total 4", Metric.DRAFTS, 4),
    ("sglang:max_total_num_tokens 2e6", Metric.POOL_TOKENS, 2e6),
    ("sglang:hicache_host_used_tokens 7", Metric.HOST_USED_TOKENS, 7),
    ("sglang:evicted_tokens_total 7", Metric.EVICTED_TOKENS, 7),
    ("sglang:num_decode_transfer_queue_reqs 1", Metric.WAITING_FOR, 1),
    ("trtllm_server_queue_length 3", Metric.WAITING, 3),
    ("trtllm_spec_decode_num_draft_tokens_total 8", Metric.DRAFT_TOKENS, 8),
    ("trtllm_kv_cache_max_blocks 100", Metric.POOL_BLOCKS, 100),
    ("trtllm_kv_cache_tokens_per_block 32", Metric.BLOCK_TOKENS, 32),
    ("trtllm_generation_tokens_total 6", Metric.GENERATED_TOKENS, 6),
    ("dynamo_component_gpu_cache_usage_percent 0.6", Metric.KV_USAGE, 0.6),
    ("dynamo_component_total_blocks 60", Metric.POOL_BLOCKS, 60),
    ("dynamo_frontend_cached_tokens_sum 60", Metric.CACHE_HITS, 60),
    ("dynamo_frontend_input_sequence_tokens_sum 90", Metric.CACHE_QUERIES, 90),
    ("dynamo_frontend_router_queue_pending_requests 2", Metric.WAITING, 2),
    ("dynamo_component_router_kv_hit_rate 0.5", Metric.CACHE_HIT, 0.5),
    ("atom:prefix_cache_cached_tokens_total 5", Metric.CACHE_HITS, 5),
    ("atom_prefix_cache_full_tokens 9", Metric.CACHE_QUERIES, 9),
    ("atom:lmcache_loaded_tokens_total 2", Metric.CACHED_FROM, 2),
    ("atom:kv_cache_usage_ratio 0.2", Metric.KV_USAGE, 0.2),
    ('vllm:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 5', Metric.ACCEPTED_AT, 5),
    ('sglang:num_running_reqs{tp_rank="0"} 4.0', Metric.RUNNING, 4.0),
    ("sglang:num_queue_reqs 1.0", Metric.WAITING, 1.0),
    ("sglang:token_usage 0.9", Metric.KV_USAGE, 0.9),
    ("sglang:cached_tokens_total 10", Metric.CACHE_HITS, 10.0),
    ("sglang:spec_accept_length 3.36", Metric.ACCEPT_LENGTH, 3.36),
    ("sglang:num_retracted_requests_total 2", Metric.PREEMPTIONS, 2.0),
    ("llamacpp:requests_processing 4", Metric.RUNNING, 4.0),
    ("llamacpp:requests_deferred 46", Metric.WAITING, 46.0),
    ("llamacpp:kv_cache_usage_ratio 0.1", Metric.KV_USAGE, 0.1),
    ("llamacpp:tokens_predicted_total 50", Metric.GENERATED_TOKENS, 50.0),
    ("llamacpp:spec_decode_num_drafts_total 2", Metric.DRAFTS, 2.0),
    ("llamacpp:spec_decode_num_draft_tokens_total 6", Metric.DRAFT_TOKENS, 6.0),
    ("llamacpp:spec_decode_num_accepted_tokens_total 3", Metric.ACCEPTED_TOKENS, 3.0),
    (
        'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 2',
        Metric.ACCEPTED_AT,
        2,
    ),
    ('dynamo_frontend_inflight_requests{model="m"} 12', Metric.RUNNING, 12.0),
    ('dynamo_frontend_queued_requests{model="m"} 5', Metric.WAITING, 5.0),
    ("trtllm_kv_cache_utilization 0.4", Metric.KV_USAGE, 0.4),
    ("trtllm_kv_cache_hit_rate 0.8", Metric.CACHE_HIT, 0.8),
    ('nv_trt_llm_request_metrics{model="m",request_type="waiting"} 6', Metric.WAITING, 6.0),
    ('nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"} 0.3', Metric.KV_USAGE, 0.3),
]


@pytest.mark.parametrize(("line", "metric", "value"), LINES)
def test_every_engines_names_have_one_meaning(line: str, metric: Metric, value: float) -> None:
    ((series, found),) = known_samples([line])
    assert (series.metric, found) == (metric, value)


def test_a_name_that_needs_another_has_a_meaning_and_a_rank() -> None:
    for (metric, name), others in NEEDS.items():
        assert (metric, name) in RANK
        assert others <= {each for _, each, _ in NAMES}


def test_a_name_may_have_two_meanings() -> None:
    found = list(known_samples(["llamacpp:prompt_tokens_cached_total 678"]))
    assert {series.metric for series, _ in found} == {Metric.CACHE_HITS, Metric.CACHE_QUERIES}


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        ("vllm:num_requests_running\t3", "", 3.0),
        ("  vllm:num_requests_running   3  ", "", 3.0),
        ('vllm:num_requests_running {a="1", b="2",} 3\r', 'a="1", b="2",', 3.0),
        ('vllm:num_requests_running{a="1"}3', 'a="1"', 3.0),
        ("vllm:num_requests_running{} 3", "", 3.0),
        (r'vllm:num_requests_running{a="\"} 9 {\n"} 3', r'a="\"} 9 {\n"', 3.0),
        (r'vllm:num_requests_running{a="C:\\"} 3', r'a="C:\\"', 3.0),
        ('vllm:num_requests_running{a="1"} 3 # {trace_id="x}y"} 0.5 1700000000.1', 'a="1"', 3.0),
        ('vllm:num_requests_running{a="1"} 3 1700000000000 # {} 7', 'a="1"', 3.0),
        ("vllm:num_requests_running 1.5E-3", "", 0.0015),
    ],
)
def test_the_text_format_is_read_with_its_blanks_escapes_exemplars_and_times(
    line: str, labels: str, value: float
) -> None:
    assert [(series.labels, found) for series, found in known_samples([line])] == [(labels, value)]


def test_a_line_without_end_is_passed_over_at_once() -> None:
    for text in ('"' * 200_000, '"\\' * 100_000, "a=" * 100_000, '"x",' * 50_000, " " * 200_000):
        assert list(known_samples([f"vllm:num_requests_running{{{text}"])) == []


def test_name_and_labels_stay_as_they_were_told_and_a_timestamp_is_passed_over() -> None:
    line = 'vllm:num_requests_running{model_name="a}b {c"} 3 1700000000000'
    assert list(known_samples([line])) == [
        (Series(Metric.RUNNING, "vllm:num_requests_running", 'model_name="a}b {c"'), 3.0)
    ]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "# TYPE vllm:num_requests_running gauge",
        "python_gc_objects_collected_total 5",
        "vllm:num_requests_running_more 5",
        "vllm:num_requests_running",
        "vllm:num_requests_running NaN",
        "vllm:num_requests_running +Inf",
        "vllm:num_requests_running -Inf",
        "vllm:num_requests_running 1e999",
        "vllm:num_requests_running -1e308",
        "vllm:num_requests_running 1e308",
        "vllm:prompt_tokens_total -5",
        "vllm:num_requests_running 1_000",
        "vllm:num_requests_running 0x10",
        "vllm:num_requests_running 3;4",
        "vllm:num_requests_running 1.2.3",
        'vllm:num_requests_running{a="1"',
        'vllm:num_requests_running{a="1} 3',
        "vllm:num_requests_running many",
        'vllm:num_requests_running{model_name="m"',
        'nv_trt_llm_request_metrics{request_type="max"} 512',
        "<html>404</html>",
    ],
)
def test_what_is_not_known_or_says_nothing_is_passed_over(line: str) -> None:
    assert list(known_samples([line])) == []


def test_samples_come_back_as_they_were_written(tmp_path: Path) -> None:
    line = 'vllm:num_requests_running{engine="0"}'
    scrapes = [("http://a", 5, 3.0), ("http://b", 6, 4.0), ("http://a", 7, 5.0)]
    rows = server_rows((page, at_ns, [f"{line} {value}"]) for page, at_ns, value in scrapes)
    write_rows(tmp_path, SERVER, rows, Measurement(8, 2))
    found = read_server_metrics(tmp_path).to_pylist()
    assert [(row["endpoint"], row["at_ns"], row["value"]) for row in found] == scrapes
    assert {
        (row["concurrency"], row["start"], row["metric"], row["name"], row["labels"])
        for row in found
    } == {(8, 2, "running", "vllm:num_requests_running", 'engine="0"')}


def test_a_series_told_twice_on_one_page_is_no_step_of_a_counter() -> None:
    """Also if the page comes in slices."""
    counts = [(5, 100.0), (5, 40.0), (6, 110.0)]
    rows = server_rows(
        ("http://a/metrics", at_ns, [f"vllm:num_preemptions_total {value}"])
        for at_ns, value in counts
    )
    assert [row[-1] for row in rows] == [100.0, 110.0]


def test_no_label_brings_a_secret_into_the_file() -> None:
    rows: list[tuple[object, ...]] = []
    samples = ServerSamples(rows.append, {"sk-lookfor-me"})
    for at_ns in (1, 2):
        line = r'vllm:num_requests_running{a="sk-lookfor\u002dme",b="m"} 3'
        samples.add("http://h/metrics", at_ns, [line])
    assert [row[4] for row in rows] == ['a="***",b="m"'] * 2

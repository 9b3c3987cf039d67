"""The names that engines give their metrics, and what each means.

Engines name the same thing differently. Names were read in the sources of vLLM 0.32.0, SGLang
0.5.23, TensorRT-LLM (``trtllm-serve`` and Triton's backend), llama.cpp, Dynamo 1.6.1 and ATOM.
"""

from enum import StrEnum


class Metric(StrEnum):
    """What a metric means. Those that end in ``_total`` are counters, the others gauges.

    ``cache_config`` tells by its labels alone; a ``_buckets_total`` counts by its label ``le``.
    """

    RUNNING = "running"
    WAITING = "waiting"
    WAITING_FOR = "waiting_for"
    KV_USAGE = "kv_usage"
    PREEMPTIONS = "preemptions_total"
    RETRACTED_TOKENS = "retracted_tokens_total"
    CACHE_QUERIES = "cache_queries_total"
    CACHE_HITS = "cache_hits_total"
    CACHED_FROM = "cached_from_total"
    CACHE_HIT = "cache_hit"
    POOL_TOKENS = "pool_tokens"
    POOL_BLOCKS = "pool_blocks"
    BLOCK_TOKENS = "block_tokens"
    CACHE_CONFIG = "cache_config"
    HOST_USAGE = "host_usage"
    HOST_USED_TOKENS = "host_used_tokens"
    HOST_TOKENS = "host_tokens"
    OFFLOAD_LOADED_BYTES = "offload_loaded_bytes_total"
    OFFLOAD_STORED_BYTES = "offload_stored_bytes_total"
    OFFLOAD_LOAD_S = "offload_load_seconds_total"
    OFFLOAD_STORE_S = "offload_store_seconds_total"
    OFFLOAD_FAILURES = "offload_failures_total"
    EVICTED_TOKENS = "evicted_tokens_total"
    LOADED_BACK_TOKENS = "loaded_back_tokens_total"
    PROMPT_TOKENS = "prompt_tokens_total"
    GENERATED_TOKENS = "generated_tokens_total"
    TOKENS_BY_MODE = "tokens_by_mode_total"
    FINISHED = "finished_total"
    DRAFTS = "drafts_total"
    DRAFT_TOKENS = "draft_tokens_total"
    ACCEPTED_TOKENS = "accepted_tokens_total"
    ACCEPTED_AT = "accepted_at_total"
    ACCEPT_LENGTH = "accept_length"
    ACCEPT_RATE = "accept_rate"
    TTFT_BUCKETS = "ttft_buckets_total"
    ITL_BUCKETS = "itl_buckets_total"
    QUEUE_BUCKETS = "queue_buckets_total"
    PREFILL_BUCKETS = "prefill_buckets_total"
    DECODE_BUCKETS = "decode_buckets_total"


_TRITON_REQUESTS = "nv_trt_llm_request_metrics"
_TRITON_BLOCKS = "nv_trt_llm_kv_cache_block_metrics"

NAMES: tuple[tuple[Metric, str, str], ...] = (
    # meaning, name, text its labels must hold; of one meaning the engine's own name comes first,
    # a router's after it, an older name last
    (Metric.RUNNING, "vllm:num_requests_running", ""),
    (Metric.RUNNING, "sglang:num_running_reqs", ""),
    (Metric.RUNNING, "llamacpp:requests_processing", ""),
    (Metric.RUNNING, "trtllm_num_requests_running", ""),
    (Metric.RUNNING, "trtllm_num_active_requests", ""),
    (Metric.RUNNING, _TRITON_REQUESTS, 'request_type="active"'),
    (Metric.RUNNING, "dynamo_component_inflight_requests", ""),
    (Metric.RUNNING, "dynamo_frontend_inflight_requests", ""),
    (Metric.WAITING, "vllm:num_requests_waiting", ""),
    (Metric.WAITING, "sglang:num_queue_reqs", ""),
    (Metric.WAITING, "llamacpp:requests_deferred", ""),
    (Metric.WAITING, "trtllm_num_requests_waiting", ""),
    (Metric.WAITING, "trtllm_num_queued_requests", ""),
    (Metric.WAITING, "trtllm_server_queue_length", ""),
    (Metric.WAITING, _TRITON_REQUESTS, 'request_type="waiting"'),
    (Metric.WAITING, "dynamo_frontend_queued_requests", ""),
    (Metric.WAITING, "dynamo_frontend_router_queue_pending_requests", ""),
    (Metric.WAITING_FOR, "vllm:num_requests_waiting_by_reason", 'reason="'),
    (Metric.WAITING_FOR, "vllm:num_requests_kv_fetch_by_stage", 'stage="'),
    (Metric.WAITING_FOR, "sglang:num_prefill_bootstrap_queue_reqs", ""),
    (Metric.WAITING_FOR, "sglang:num_prefill_inflight_queue_reqs", ""),
    (Metric.WAITING_FOR, "sglang:num_decode_prealloc_queue_reqs", ""),
    (Metric.WAITING_FOR, "sglang:num_decode_transfer_queue_reqs", ""),
    (Metric.KV_USAGE, "vllm:kv_cache_usage_perc", ""),
    (Metric.KV_USAGE, "vllm:gpu_cache_usage_perc", ""),
    (Metric.KV_USAGE, "sglang:token_usage", ""),
    (Metric.KV_USAGE, "llamacpp:kv_cache_usage_ratio", ""),
    (Metric.KV_USAGE, "trtllm_kv_cache_utilization", ""),
    (Metric.KV_USAGE, _TRITON_BLOCKS, 'kv_cache_block_type="fraction"'),
    (Metric.KV_USAGE, "atom:kv_cache_usage_ratio", ""),
    (Metric.KV_USAGE, "atom_kv_cache_usage_ratio", ""),
    (Metric.KV_USAGE, "dynamo_component_gpu_cache_usage_percent", ""),
    (Metric.KV_USAGE, "dynamo_component_kvstats_gpu_cache_usage_percent", ""),
    (Metric.PREEMPTIONS, "vllm:num_preemptions_total", ""),
    (Metric.PREEMPTIONS, "sglang:num_retracted_requests_total", ""),
    (Metric.RETRACTED_TOKENS, "sglang:num_retracted_input_tokens_total", ""),
    (Metric.CACHE_QUERIES, "vllm:prompt_tokens_total", ""),
    (Metric.CACHE_QUERIES, "vllm:prefix_cache_queries_total", ""),
    (Metric.CACHE_QUERIES, "vllm:gpu_prefix_cache_queries_total", ""),
    (Metric.CACHE_QUERIES, "sglang:prompt_tokens_total", ""),
    (Metric.CACHE_QUERIES, "trtllm_prompt_tokens_total", ""),
    (Metric.CACHE_QUERIES, "llamacpp:prompt_tokens_total", ""),
    (Metric.CACHE_QUERIES, "llamacpp:prompt_tokens_cached_total", ""),
    (Metric.CACHE_QUERIES, "atom:prefix_cache_full_tokens_total", ""),
    (Metric.CACHE_QUERIES, "atom:prefix_cache_full_tokens", ""),
    (Metric.CACHE_QUERIES, "atom_prefix_cache_full_tokens_total", ""),
    (Metric.CACHE_QUERIES, "atom_prefix_cache_full_tokens", ""),
    (Metric.CACHE_QUERIES, "dynamo_frontend_input_sequence_tokens_sum", ""),
    (Metric.CACHE_HITS, "vllm:prompt_tokens_cached_total", ""),
    (Metric.CACHE_HITS, "vllm:prompt_tokens_by_source_total", 'source="local_cache_hit"'),
    (Metric.CACHE_HITS, "vllm:prompt_tokens_by_source_total", 'source="external_kv_transfer"'),
    (Metric.CACHE_HITS, "vllm:prefix_cache_hits_total", ""),
    (Metric.CACHE_HITS, "vllm:external_prefix_cache_hits_total", ""),
    (Metric.CACHE_HITS, "vllm:gpu_prefix_cache_hits_total", ""),
    (Metric.CACHE_HITS, "sglang:cached_tokens_total", ""),
    (Metric.CACHE_HITS, "trtllm_prompt_cached_tokens_total", ""),
    (Metric.CACHE_HITS, "llamacpp:prompt_tokens_cached_total", ""),
    (Metric.CACHE_HITS, "atom:prefix_cache_cached_tokens_total", ""),
    (Metric.CACHE_HITS, "atom:prefix_cache_cached_tokens", ""),
    (Metric.CACHE_HITS, "atom_prefix_cache_cached_tokens_total", ""),
    (Metric.CACHE_HITS, "atom_prefix_cache_cached_tokens", ""),
    (Metric.CACHE_HITS, "dynamo_frontend_cached_tokens_sum", ""),
    (Metric.CACHED_FROM, "vllm:prompt_tokens_cached_by_source_total", ""),
    (Metric.CACHED_FROM, "vllm:prompt_tokens_by_source_total", 'source="local_cache_hit"'),
    (Metric.CACHED_FROM, "vllm:prompt_tokens_by_source_total", 'source="external_kv_transfer"'),
    (Metric.CACHED_FROM, "vllm:prefix_cache_hits_total", ""),
    (Metric.CACHED_FROM, "vllm:external_prefix_cache_hits_total", ""),
    (Metric.CACHED_FROM, "sglang:cached_tokens_total", 'cache_source="'),
    (Metric.CACHED_FROM, "atom:lmcache_loaded_tokens_total", ""),
    (Metric.CACHED_FROM, "atom:lmcache_loaded_tokens", ""),
    (Metric.CACHED_FROM, "atom_lmcache_loaded_tokens_total", ""),
    (Metric.CACHED_FROM, "atom_lmcache_loaded_tokens", ""),
    (Metric.CACHE_HIT, "sglang:cache_hit_rate", ""),
    (Metric.CACHE_HIT, "trtllm_kv_cache_hit_rate", ""),
    (Metric.CACHE_HIT, "dynamo_component_router_kv_hit_rate", ""),
    (Metric.CACHE_HIT, "dynamo_component_router_shared_cache_hit_rate", ""),
    (Metric.CACHE_HIT, "dynamo_component_kvstats_gpu_prefix_cache_hit_rate", ""),
    (Metric.POOL_TOKENS, "sglang:max_total_num_tokens", ""),
    (Metric.POOL_BLOCKS, "trtllm_kv_cache_max_blocks", ""),
    (Metric.POOL_BLOCKS, _TRITON_BLOCKS, 'kv_cache_block_type="max"'),
    (Metric.POOL_BLOCKS, "atom:kv_cache_blocks_total", ""),
    (Metric.POOL_BLOCKS, "atom_kv_cache_blocks_total", ""),
    (Metric.POOL_BLOCKS, "dynamo_component_total_blocks", ""),
    (Metric.BLOCK_TOKENS, "trtllm_kv_cache_tokens_per_block", ""),
    (Metric.BLOCK_TOKENS, _TRITON_BLOCKS, 'kv_cache_block_type="tokens_per"'),
    (Metric.CACHE_CONFIG, "vllm:cache_config_info", 'num_gpu_blocks="'),
    (Metric.HOST_USAGE, "vllm:kv_offload_cpu_cache_read_usage_perc", ""),
    (Metric.HOST_USED_TOKENS, "sglang:hicache_host_used_tokens", ""),
    (Metric.HOST_TOKENS, "sglang:hicache_host_total_tokens", ""),
    (Metric.OFFLOAD_LOADED_BYTES, "vllm:kv_offload_load_bytes_total", ""),
    (Metric.OFFLOAD_LOADED_BYTES, "vllm:kv_offload_load_bytes", ""),
    (Metric.OFFLOAD_STORED_BYTES, "vllm:kv_offload_store_bytes_total", ""),
    (Metric.OFFLOAD_STORED_BYTES, "vllm:kv_offload_store_bytes", ""),
    (Metric.OFFLOAD_LOAD_S, "vllm:kv_offload_load_time_total", ""),
    (Metric.OFFLOAD_LOAD_S, "vllm:kv_offload_load_time", ""),
    (Metric.OFFLOAD_STORE_S, "vllm:kv_offload_store_time_total", ""),
    (Metric.OFFLOAD_STORE_S, "vllm:kv_offload_store_time", ""),
    (Metric.OFFLOAD_FAILURES, "vllm:kv_offload_allocation_failure_total", ""),
    (Metric.OFFLOAD_FAILURES, "vllm:kv_offload_allocation_failure", ""),
    (Metric.EVICTED_TOKENS, "sglang:evicted_tokens_total", ""),
    (Metric.LOADED_BACK_TOKENS, "sglang:load_back_tokens_total", ""),
    (Metric.PROMPT_TOKENS, "vllm:prompt_tokens_total", ""),
    (Metric.PROMPT_TOKENS, "llamacpp:prompt_tokens_total", ""),
    (Metric.PROMPT_TOKENS, "atom:prompt_tokens_total", ""),
    (Metric.PROMPT_TOKENS, "atom:prompt_tokens", ""),
    (Metric.PROMPT_TOKENS, "atom_prompt_tokens_total", ""),
    (Metric.PROMPT_TOKENS, "atom_prompt_tokens", ""),
    (Metric.GENERATED_TOKENS, "vllm:generation_tokens_total", ""),
    (Metric.GENERATED_TOKENS, "sglang:generation_tokens_total", ""),
    (Metric.GENERATED_TOKENS, "llamacpp:tokens_predicted_total", ""),
    (Metric.GENERATED_TOKENS, "trtllm_generation_tokens_total", ""),
    (Metric.GENERATED_TOKENS, "atom:generation_tokens_total", ""),
    (Metric.GENERATED_TOKENS, "atom:generation_tokens", ""),
    (Metric.GENERATED_TOKENS, "atom_generation_tokens_total", ""),
    (Metric.GENERATED_TOKENS, "atom_generation_tokens", ""),
    (Metric.GENERATED_TOKENS, "dynamo_frontend_output_tokens_total", ""),
    (Metric.TOKENS_BY_MODE, "sglang:realtime_tokens_total", 'mode="'),
    (Metric.FINISHED, "vllm:request_success_total", 'finished_reason="'),
    (Metric.DRAFTS, "vllm:spec_decode_num_drafts_total", ""),
    (Metric.DRAFTS, "sglang:spec_verify_calls_total", ""),
    (Metric.DRAFTS, "llamacpp:spec_decode_num_drafts_total", ""),
    (Metric.DRAFT_TOKENS, "vllm:spec_decode_num_draft_tokens_total", ""),
    (Metric.DRAFT_TOKENS, "llamacpp:spec_decode_num_draft_tokens_total", ""),
    (Metric.DRAFT_TOKENS, "trtllm_spec_decode_num_draft_tokens_total", ""),
    (Metric.DRAFT_TOKENS, "trtllm_spec_decode_drafted_tokens_total", ""),
    (Metric.ACCEPTED_TOKENS, "vllm:spec_decode_num_accepted_tokens_total", ""),
    (Metric.ACCEPTED_TOKENS, "llamacpp:spec_decode_num_accepted_tokens_total", ""),
    (Metric.ACCEPTED_TOKENS, "trtllm_spec_decode_num_accepted_tokens_total", ""),
    (Metric.ACCEPTED_TOKENS, "trtllm_spec_decode_accepted_tokens_total", ""),
    (Metric.ACCEPTED_AT, "vllm:spec_decode_num_accepted_tokens_per_pos_total", ""),
    (Metric.ACCEPTED_AT, "llamacpp:spec_decode_num_accepted_tokens_per_pos_total", ""),
    (Metric.ACCEPTED_AT, "trtllm_spec_decode_num_accepted_tokens_total", 'token_position="'),
    (Metric.ACCEPT_LENGTH, "sglang:spec_accept_length", ""),
    (Metric.ACCEPT_LENGTH, "trtllm_spec_decode_acceptance_length", ""),
    (Metric.ACCEPT_RATE, "sglang:spec_accept_rate", ""),
    (Metric.TTFT_BUCKETS, "vllm:time_to_first_token_seconds_bucket", 'le="'),
    (Metric.TTFT_BUCKETS, "sglang:time_to_first_token_seconds_bucket", 'le="'),
    (Metric.ITL_BUCKETS, "vllm:inter_token_latency_seconds_bucket", 'le="'),
    (Metric.QUEUE_BUCKETS, "vllm:request_queue_time_seconds_bucket", 'le="'),
    (Metric.QUEUE_BUCKETS, "sglang:queue_time_seconds_bucket", 'le="'),
    (Metric.PREFILL_BUCKETS, "vllm:request_prefill_time_seconds_bucket", 'le="'),
    (Metric.DECODE_BUCKETS, "vllm:request_decode_time_seconds_bucket", 'le="'),
)

RANK = {(metric.value, name): rank for rank, (metric, name, _) in enumerate(NAMES)}
"""Which of several names of one meaning counts: the lowest, and those that share it add
up."""


def _same_rank(metric: Metric, *names: str) -> None:
    for name in names:
        RANK[metric.value, name] = RANK[metric.value, names[0]]


# llama.cpp's prompt_tokens_total is without the cached tokens, which it counts apart.
_same_rank(
    Metric.CACHE_QUERIES, "llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"
)
# vLLM's external tier is asked for what the local one missed: its hits add up, its queries do not.
for _metric in (Metric.CACHE_HITS, Metric.CACHED_FROM):
    _same_rank(_metric, "vllm:prefix_cache_hits_total", "vllm:external_prefix_cache_hits_total")
# Queues of several names are several queues.
_same_rank(Metric.WAITING_FOR, *(name for metric, name, _ in NAMES if metric is Metric.WAITING_FOR))

NEEDS: dict[tuple[str, str], frozenset[str]] = {
    (Metric.CACHE_QUERIES.value, "vllm:prompt_tokens_total"): frozenset(
        {"vllm:prompt_tokens_cached_total", "vllm:prompt_tokens_by_source_total"}
    )
}
"""Names that have a meaning only on a page that also tells one of these: all prompt tokens are what
was looked up where hits of all tiers are counted, and not beside hits of the prefix cache alone.
"""

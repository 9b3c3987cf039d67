"""Declare every column of every Parquet file: name, type, unit, meaning, what null means.

The Arrow schemas and the tables in ``docs/records.md`` come from here; ``rows.py`` builds rows.
"""

from functools import partial

import pyarrow as pa

from agentx_replay.results.records import Column, RequestTable, Table

_timestamp = partial(Column, pa.int64(), "ns", since_origin=True)
_nanoseconds = partial(Column, pa.int64(), "ns")
_text = partial(Column, pa.string(), "")
_texts = partial(Column, pa.list_(pa.string()), "")
_flag = partial(Column, pa.bool_(), "")
_count = partial(Column, pa.int32(), "")
_integer = partial(Column, pa.int64(), "")
_block = partial(Column, pa.uint64(), "")
_tokens = partial(Column, pa.int32(), "tokens")
_seconds = partial(Column, pa.float64(), "s")
_number = partial(Column, pa.float64(), "")
_share = partial(Column, pa.float64(), "share")
_rate = partial(Column, pa.float64(), "tokens/s")
_rate_per_gpu = partial(Column, pa.float64(), "tokens/s/GPU")

_START = _count("start", "start of the level, from 1")
_OF_LEVEL = (_count("concurrency", "concurrency level of the point"), _START)
"""The first columns of every table of a level."""
_NO_USAGE = "no usage"
_OPEN_CONNECTION = "connection reused"
_NONE_CAME = "no token event"
_NO_TEXTS = "not needed"

REQUESTS = RequestTable(
    "requests",
    *_OF_LEVEL,
    _text("phase", "`primer`, `cache_pressure` (both warm-up) or `window`"),
    _text("request_id", "id of the request, sent as `X-Request-ID`"),
    _text("play_id", "id of its play"),
    _text("conversation_id", "id of its conversation, sent as `X-Correlation-ID`"),
    _text("session_id", "recorded session"),
    _count("lane", "lane, from 0"),
    _count("play_number", "play of the lane, from 0"),
    _count("conversation", "conversation of the session; 0 is the main conversation"),
    _count("turn", "request of the conversation, from 0"),
    _count("request_index", "request of the session, from 0"),
    _seconds("gap_s", "recorded gap from the end of the conversation's previous request"),
    _tokens("recorded_input_tokens", "prompt length in the recording"),
    _tokens("recorded_output_tokens", "output length in the recording"),
    _tokens("max_tokens", "requested output length"),
    _tokens("planned_prompt_tokens", "prompt length as composed"),
    _tokens("reusable_tokens", "leading tokens that an unlimited prefix cache would have"),
    _count(
        "shared_blocks", "leading blocks that an earlier request of the play has, in the recording"
    ),
    _count("play_request", "requests of the play sent before this one"),
    _count("kept_blocks", "leading blocks that earlier prompts of the play had, as sent"),
    _count(
        "conversation_kept_blocks",
        "leading blocks that the conversation's previous prompt had, as sent",
    ),
    _count("declared_blocks", "leading blocks that other plays may share, by the scenario"),
    _block(
        "own_block",
        "content of the first block after the declared ones; no other play sends it",
        "the prompt has no such block",
    ),
    _block(
        "declared_prefix",
        "content of the first declared block; equal in plays that share it",
        "no declared blocks",
    ),
    _tokens("declared_tokens", "tokens in the declared blocks"),
    _flag(
        "says_answer",
        "with `--live-history`: the prompt contains the server's answer to the previous prompt; "
        "false: the previous prompt had no answer",
        "no answer was due",
    ),
    _nanoseconds("skipped_ns", "idle time skipped since the conversation's previous end"),
    _timestamp("intended_start_ns", "send time by the protocol"),
    _timestamp(
        "connect_start_ns",
        "connecting began; before `intended_start_ns` if connected ahead",
        _OPEN_CONNECTION,
    ),
    _timestamp("connected_ns", "connected", f"{_OPEN_CONNECTION}, or connecting failed"),
    _timestamp("send_ns", "just before the first write"),
    _timestamp("sent_ns", "the socket took the last byte of the request", "it never did"),
    _timestamp("first_byte_ns", "first byte of the response", "no byte"),
    _timestamp("first_token_ns", "first token event", _NONE_CAME),
    _timestamp("last_token_ns", "last token event", _NONE_CAME),
    _timestamp("end_ns", "the stream closed, failed or was cut"),
    Column(
        pa.list_(pa.int64()),
        "µs",
        "arrival_deltas_us",
        "gap of each token event after the first; the running sum from `first_token_ns` is "
        "within 0.5 µs of each timestamp",
    ),
    Column(
        pa.list_(pa.int32()),
        "tokens",
        "event_tokens",
        "tokens in each token event, the first included",
        "not reported",
    ),
    _tokens("prompt_tokens", "prompt length, by usage", _NO_USAGE),
    _tokens("cached_tokens", "prompt tokens from the server's cache, by usage", "not reported"),
    _tokens("completion_tokens", "output length, by usage", _NO_USAGE),
    _tokens("prompt_length_error", "`prompt_tokens` − `recorded_input_tokens`", _NO_USAGE),
    _text("status", "`ok`, `length_mismatch`, `failed`, `overflow` or `cut`"),
    _text("finish_reason", "why the server stopped, in its word", "not reported"),
    _count("http_status", "status code of the response", "no response head"),
    _text("error_category", "kind of failure", "nothing failed"),
    _text("error_text", "the error, in words", "nothing failed"),
    _count("retries", "times sent again because a reused connection had been closed"),
    _count("replica", "server: position of its `--url`, from 0"),
    _nanoseconds(
        "first_token_uncertainty_ns",
        "how much earlier than `first_token_ns` the first token event may have arrived; 0: exact",
    ),
    _nanoseconds(
        "last_token_uncertainty_ns",
        "how much earlier than `last_token_ns` the last token event may have arrived; 0: exact",
    ),
    _nanoseconds(
        "send_uncertainty_ns",
        "how much later than `send_ns` the last byte of the request may have left because of the "
        "client; 0: no later",
    ),
    _count("late_events", "token events whose timestamp is only an upper bound"),
    _count(
        "gathered_reads",
        "socket reads that returned several token events although the client read in time: "
        "something on the way gathered them",
        "unknown",
    ),
    _tokens(
        "text_pieces",
        "lower bound on the tokens in the texts of the token events: their words, numbers and "
        "punctuation marks",
        _NO_TEXTS,
    ),
    _tokens("reasoning_tokens", "completion tokens that were reasoning, by usage", "not reported"),
    _tokens(
        "reasoning_pieces",
        "lower bound on the tokens in the streamed reasoning texts",
        "`reasoning_tokens` is null",
    ),
    Column(
        pa.list_(pa.int32()),
        "bytes",
        "event_text_bytes",
        "length of each token event's text in UTF-8",
        _NO_TEXTS,
    ),
)
"""``requests.parquet/``: one row a response, warm-up included."""

PLAYS = Table(
    "plays",
    *_OF_LEVEL,
    _text("play_id", "id of the play"),
    _text("session_id", "recorded session"),
    _count("lane", "lane, from 0"),
    _count("play_number", "play of the lane, from 0"),
    _seconds("t_star_s", "recorded time at which the play starts", "it starts at request 0"),
    _timestamp("start_ns", "the play began"),
    _timestamp("end_ns", "its last conversation ended", "the run ended first"),
    _count("requests_sent", "requests issued, warm-up included"),
    _count("requests_skipped", "recorded requests before t*, not sent"),
    _seconds("system_skipped_s", "idle time skipped by the system cap"),
    _seconds("session_skipped_s", "idle time skipped by the session idle cap"),
)
"""``plays.parquet``: one row a play."""

INSTRUMENT = Table(
    "instrument",
    *_OF_LEVEL,
    _count("worker", "worker process, from 0"),
    _timestamp("at_ns", "time of the sample"),
    _nanoseconds("loop_lag_ns", "how late a timer of the event loop fired"),
    _nanoseconds("cpu_ns", "CPU time the worker had used by then"),
)
"""``instrument.parquet``: samples of the client's own load."""

SERVER = Table(
    "server",
    *_OF_LEVEL,
    _timestamp("at_ns", "time at which the scrape was answered"),
    _text("endpoint", "URL of the metrics page, without user name or password"),
    _text("metric", "our name of the metric"),
    _text("name", "the engine's name"),
    _text("labels", "labels, as written by the engine"),
    Column(pa.float64(), "as the engine's", "value", "the value"),
)
"""``server.parquet``: samples of the server's own metrics."""

_PER_GPU = "no GPU count"
_NO_RESPONSE = "no response"
_FEW_IN_HALF = "too few responses"
_NOT_TOLD = "not reported"

POINTS = Table(
    "points",
    _count("concurrency", "concurrency level"),
    _START,
    _integer("seed", "seed of the plan", "not recorded"),
    _text("status", "`running`, `complete`, `interrupted` or `failed`"),
    _flag("valid", "the measurement is sound"),
    _texts("invalid_reasons", "why not valid, a sentence each; empty: valid"),
    _flag("comparable", "it observed the scenario's rules"),
    _texts("incomparable_reasons", "why not comparable, a sentence each; empty: comparable"),
    _count("gpus", "GPUs the throughput is divided by", _PER_GPU),
    _seconds("window_s", "length of the measured window"),
    Column(pa.float64(), "tokens/s/user", "interactivity", "1 / P90 response ITL", _NO_RESPONSE),
    _seconds("response_itl_p50_s", "P50 response ITL", _NO_RESPONSE),
    _seconds("response_itl_p90_s", "P90 response ITL", _NO_RESPONSE),
    _seconds("response_itl_p99_s", "P99 response ITL", _NO_RESPONSE),
    _share(
        "response_itl_gathered_error",
        "largest error of the P90 response ITL by events gathered on their way",
        _NO_RESPONSE,
    ),
    _share("ttft_gathered_error", "the same of the P90 TTFT", _NO_RESPONSE),
    _seconds(
        "response_itl_p90_least_s",
        "P90 response ITL if all tokens without an event came between the others",
        _NO_RESPONSE,
    ),
    _seconds(
        "response_itl_p90_most_s", "P90 response ITL if no token without an event did", _NO_RESPONSE
    ),
    _seconds("token_itl_p50_s", "P50 token ITL", _NO_RESPONSE),
    _seconds("token_itl_p90_s", "P90 token ITL", _NO_RESPONSE),
    _seconds("token_itl_p99_s", "P99 token ITL", _NO_RESPONSE),
    _seconds("ttft_p50_s", "P50 TTFT from send", _NO_RESPONSE),
    _seconds("ttft_p90_s", "P90 TTFT from send", _NO_RESPONSE),
    _seconds("ttft_p99_s", "P99 TTFT from send", _NO_RESPONSE),
    _seconds("end_to_end_p50_s", "P50 end-to-end latency", _NO_RESPONSE),
    _seconds("end_to_end_p90_s", "P90 end-to-end latency", _NO_RESPONSE),
    _text("headline", "the headline throughput: `windowed` or `overall`"),
    _rate("total_tokens_per_s", "headline throughput of the system", _NOT_TOLD),
    _rate("uncached_tokens_per_s", "the same, cached input left out", _NOT_TOLD),
    _rate("output_tokens_per_s", "the same, output only", _NOT_TOLD),
    _rate("windowed_tokens_per_s", "windowed throughput of the system", _NOT_TOLD),
    _rate("overall_tokens_per_s", "overall throughput of the system", _NOT_TOLD),
    _rate_per_gpu("total_tokens_per_s_per_gpu", "headline throughput", _PER_GPU),
    _rate_per_gpu("uncached_tokens_per_s_per_gpu", "cached input left out", _PER_GPU),
    _rate_per_gpu("output_tokens_per_s_per_gpu", "output only", _PER_GPU),
    _rate_per_gpu("windowed_tokens_per_s_per_gpu", "windowed throughput", _PER_GPU),
    _rate_per_gpu("overall_tokens_per_s_per_gpu", "overall throughput", _PER_GPU),
    _share("cache_hit", "cached / prompt tokens as reported", _NOT_TOLD),
    _share("cache_hit_theoretical", "the same with an unlimited cache", _NO_RESPONSE),
    _seconds(
        "first_half_p90_itl_s", "P90 response ITL of requests sent in the first half", _FEW_IN_HALF
    ),
    _seconds("second_half_p90_itl_s", "the same of the second half", _FEW_IN_HALF),
    _rate("first_half_tokens_per_s", "tokens received in the first half", _FEW_IN_HALF),
    _rate("second_half_tokens_per_s", "the same of the second half", _FEW_IN_HALF),
    _flag(
        "settled",
        "P90 ITL and throughput, cumulated from the opening, came within 5 % of the window's",
        _FEW_IN_HALF,
    ),
    _seconds(
        "settled_s", "start of the quarter from which they stayed there", "`settled` is not true"
    ),
    _count("plays", "plays with measured tokens", _NO_RESPONSE),
    _number("effective_plays", "Kish's effective number of plays, by tokens", _NO_RESPONSE),
    _share("largest_play_share", "tokens of the largest play", _NO_RESPONSE),
    _count("requests", "requests sent in the window"),
    _count("ok", "complete, of the requested length"),
    _count("length_mismatch", "complete, of another length than requested"),
    _count("failed", "failed"),
    _count("overflow", "refused as longer than the context"),
    _count("cut", "still running at the end of the grace, and cut"),
    _text("stopped_early", "why its window was closed before its time", "it was not"),
    Column(
        pa.list_(pa.float64()),
        "",
        "objective_margins",
        "of each objective in order, the greatest ln(value / bound) of its clauses; at most 0 "
        "keeps it",
        "no objective",
    ),
    Column(
        pa.list_(pa.float64()),
        "",
        "design_effects",
        "of each objective, variance of the share beyond its worst percentile's bound, with lanes "
        "as clusters, over that of independent responses",
        "no objective",
    ),
)
"""``points.parquet``: one row a concurrency level, or a start of one."""

LEVEL_TABLES = (REQUESTS, PLAYS, INSTRUMENT, SERVER)


def _type_name(kind: pa.DataType) -> str:
    return f"list of {kind.value_type}" if pa.types.is_list(kind) else str(kind)


def markdown_table(table: Table) -> str:
    """Return the columns as the Markdown table that stands in ``docs/records.md``."""
    lines = ["| column | type | meaning |", "|---|---|---|"]
    for c in table.columns:
        kind = f"{_type_name(c.type)}, {c.unit}" if c.unit else _type_name(c.type)
        null = f"; null: {c.null_means}" if c.null_means else ""
        lines.append(f"| `{c.name}` | {kind} | {c.meaning}{null} |")
    return "\n".join(lines)

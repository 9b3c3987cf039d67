"""What is on record: every column of every Parquet file, with its unit and what null means.

This is the one place where columns are declared; the Arrow schemas and the tables in
``docs/records.md`` come from it. How a row is made is in ``rows.py``.
"""

import pyarrow as pa

from agentx_replay.results.records import Column, RequestTable, Table


def _stamp(name: str, meaning: str, null_means: str | None = None) -> Column:
    return Column(name, pa.int64(), "ns", meaning, null_means, since_origin=True)


def _uncertainty(name: str, meaning: str) -> Column:
    return Column(name, pa.int64(), "ns", meaning)


def _text(name: str, meaning: str, null_means: str | None = None) -> Column:
    return Column(name, pa.string(), "", meaning, null_means)


def _count(name: str, meaning: str, null_means: str | None = None) -> Column:
    return Column(name, pa.int32(), "", meaning, null_means)


def _tokens(name: str, meaning: str, null_means: str | None = None) -> Column:
    return Column(name, pa.int32(), "tokens", meaning, null_means)


def _seconds(name: str, meaning: str, null_means: str | None = None) -> Column:
    return Column(name, pa.float64(), "s", meaning, null_means)


def _number(name: str, unit: str, meaning: str, null_means: str | None = None) -> Column:
    return Column(name, pa.float64(), unit, meaning, null_means)


_START = _count("start", "which start of the level it is, from 1")
_OF_LEVEL = (_count("concurrency", "concurrency level of the point"), _START)
"""The first columns of every table of a level."""
_NO_USAGE = "no usage"
_OPEN_CONNECTION = "connection reused"
_NONE_CAME = "no token event came"
_NO_TEXTS = "texts are not needed"

REQUESTS = RequestTable(
    "requests",
    *_OF_LEVEL,
    _text("phase", "`primer`, `cache_pressure` (both warm-up) or `window`"),
    _text("request_id", "the request, as sent in `X-Request-ID`"),
    _text("play_id", "the play it belongs to"),
    _text("conversation_id", "the conversation of that play, as sent in `X-Correlation-ID`"),
    _text("session_id", "the recorded session that is replayed"),
    _count("lane", "the lane that plays it, from 0"),
    _count("play_number", "which play of the lane it is, from 0"),
    _count("conversation", "the conversation's index in the session; 0 is the main conversation"),
    _count("turn", "the request's place in its conversation, from 0"),
    _count("request_index", "the request's place in the session, from 0"),
    _seconds("gap_s", "recorded gap from the end of the conversation's previous request"),
    _tokens("recorded_input_tokens", "prompt length in the recording"),
    _tokens("recorded_output_tokens", "output length in the recording"),
    _tokens("max_tokens", "output length asked of the server"),
    _tokens("planned_prompt_tokens", "prompt length as composed"),
    _tokens("reusable_tokens", "leading tokens an unlimited prefix cache would hold"),
    _count("shared_blocks", "leading blocks the recording says the play already had"),
    _count("play_request", "how many requests the play had sent before it"),
    _count("kept_blocks", "leading blocks that earlier prompts of the play held, as sent"),
    _count(
        "conversation_kept_blocks",
        "leading blocks that the conversation's last prompt held, as sent",
    ),
    _count("declared_blocks", "leading blocks that the scenario lets other plays share"),
    Column(
        "own_block",
        pa.uint64(),
        "",
        "content of the first block after those; no other play sends it",
        "the prompt has no such block",
    ),
    Column(
        "declared_prefix",
        pa.uint64(),
        "",
        "content of the first of the declared blocks; equal where plays share them",
        "none are declared",
    ),
    _tokens("declared_tokens", "tokens in the declared blocks"),
    Column(
        "says_answer",
        pa.bool_(),
        "",
        "with `--live-history`: it says what was answered to the prompt that it goes on from; "
        "false where that had ended without an answer",
        "no answer was to be said",
    ),
    Column(
        "skipped_ns", pa.int64(), "ns", "idle time skipped since the conversation's previous end"
    ),
    _stamp("intended_start_ns", "when the protocol said to send"),
    _stamp(
        "connect_start_ns",
        "connecting began; before `intended_start_ns` where it was made ahead",
        _OPEN_CONNECTION,
    ),
    _stamp("connected_ns", "connected", f"{_OPEN_CONNECTION}, or connecting failed"),
    _stamp("send_ns", "just before the first write"),
    _stamp("sent_ns", "the last byte of the request left the user-space buffer", "never did"),
    _stamp("first_byte_ns", "first byte of the response", "no byte came"),
    _stamp("first_token_ns", "first token event", _NONE_CAME),
    _stamp("last_token_ns", "last token event", _NONE_CAME),
    _stamp("end_ns", "the stream closed, failed or was cut"),
    Column(
        "arrival_deltas_us",
        pa.list_(pa.int64()),
        "µs",
        "gap of each token event after the first; the running sum from `first_token_ns` is "
        "within 0.5 µs of each stamp",
    ),
    Column(
        "event_tokens",
        pa.list_(pa.int32()),
        "tokens",
        "tokens in each token event, the first included",
        "the server does not tell",
    ),
    _tokens("prompt_tokens", "prompt length as the server counts it", _NO_USAGE),
    _tokens("cached_tokens", "prompt tokens the server took from its cache", "not reported"),
    _tokens("completion_tokens", "output length as the server counts it", _NO_USAGE),
    _tokens("prompt_length_error", "`prompt_tokens` − `recorded_input_tokens`", _NO_USAGE),
    _text("status", "`ok`, `length_mismatch`, `failed`, `overflow` or `cut`"),
    _text("finish_reason", "why the server stopped", "it did not say"),
    _count("http_status", "status code of the response", "no response head came"),
    _text("error_category", "kind of failure", "nothing failed"),
    _text("error_text", "what was said about it", "nothing failed"),
    _count("retries", "times sent again because a reused idle connection was found closed"),
    _count("replica", "the server it was sent to: the place of its `--url`, from 0"),
    _uncertainty(
        "first_token_uncertainty_ns",
        "how much earlier than `first_token_ns` the first token event may have arrived; 0: exact",
    ),
    _uncertainty(
        "last_token_uncertainty_ns",
        "how much earlier than `last_token_ns` the last token event may have arrived; 0: exact",
    ),
    _uncertainty(
        "send_uncertainty_ns",
        "how much later than `send_ns` the last byte of the request may have left by the client's "
        "own fault; 0: by none of it",
    ),
    _count("late_events", "token events whose timestamp is only an upper bound"),
    _count(
        "gathered_reads",
        "socket reads that brought several token events although the client was prompt: "
        "somebody else gathered them",
        "not known",
    ),
    _tokens(
        "text_pieces",
        "the least number of tokens that can have said the texts of the token events: their words, "
        "numbers and marks",
        _NO_TEXTS,
    ),
    _tokens("reasoning_tokens", "completion tokens that were reasoning", "not reported"),
    _tokens(
        "reasoning_pieces",
        "the least number of tokens in the texts of reasoning that came",
        "`reasoning_tokens` is null",
    ),
    Column(
        "event_text_bytes",
        pa.list_(pa.int32()),
        "bytes",
        "length of the text of each token event in UTF-8",
        _NO_TEXTS,
    ),
)
"""``requests.parquet/``: one row a response, warm-up included."""

PLAYS = Table(
    "plays",
    *_OF_LEVEL,
    _text("play_id", "the play"),
    _text("session_id", "the recorded session that is replayed"),
    _count("lane", "the lane that plays it, from 0"),
    _count("play_number", "which play of the lane it is, from 0"),
    _seconds("t_star_s", "recorded instant at which the play starts", "it starts at request 0"),
    _stamp("start_ns", "the play began"),
    _stamp("end_ns", "its whole tree had drained", "the run ended before it did"),
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
    _stamp("at_ns", "when the sample was taken"),
    Column("loop_lag_ns", pa.int64(), "ns", "how late a timer of the event loop fired"),
    Column("cpu_ns", pa.int64(), "ns", "CPU time the worker had used by then"),
)
"""``instrument.parquet``: samples of the client's own load."""

SERVER = Table(
    "server",
    *_OF_LEVEL,
    _stamp("at_ns", "when the answer to the scrape had come"),
    _text("endpoint", "whose metrics page it is, without user name or password"),
    _text("metric", "what it means, whatever the engine calls it"),
    _text("name", "what the engine calls it"),
    _text("labels", "its labels, as the engine wrote them"),
    _number("value", "as the engine's", "the value, as told"),
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
    Column("seed", pa.int64(), "", "the seed of its plan", "not recorded"),
    _text("status", "`running`, `complete`, `interrupted` or `failed`"),
    Column("valid", pa.bool_(), "", "the measurement is sound"),
    _text("invalid_reasons", "why not, joined by `; `", "valid"),
    Column("comparable", pa.bool_(), "", "it kept the scenario's rules"),
    _text("incomparable_reasons", "why not, joined by `; `", "comparable"),
    _count("gpus", "GPUs the throughput is divided by", _PER_GPU),
    _seconds("window_s", "length of the measured window"),
    _number("interactivity", "tokens/s/user", "1 / P90 response ITL", _NO_RESPONSE),
    _seconds("response_itl_p50_s", "P50 response ITL", _NO_RESPONSE),
    _seconds("response_itl_p90_s", "P90 response ITL", _NO_RESPONSE),
    _seconds("response_itl_p99_s", "P99 response ITL", _NO_RESPONSE),
    _number(
        "response_itl_gathered_error",
        "share",
        "how far the P90 may be off by events that were gathered on their way",
        _NO_RESPONSE,
    ),
    _number(
        "ttft_gathered_error",
        "share",
        "how much shorter the P90 TTFT may be, for the same reason",
        _NO_RESPONSE,
    ),
    _seconds(
        "response_itl_p90_least_s",
        "P90 response ITL if all tokens that no event tells of came between the others",
        _NO_RESPONSE,
    ),
    _seconds("response_itl_p90_most_s", "the same if none of them did", _NO_RESPONSE),
    _seconds("token_itl_p50_s", "P50 token ITL", _NO_RESPONSE),
    _seconds("token_itl_p90_s", "P90 token ITL", _NO_RESPONSE),
    _seconds("token_itl_p99_s", "P99 token ITL", _NO_RESPONSE),
    _seconds("ttft_p50_s", "P50 TTFT from send", _NO_RESPONSE),
    _seconds("ttft_p90_s", "P90 TTFT from send", _NO_RESPONSE),
    _seconds("ttft_p99_s", "P99 TTFT from send", _NO_RESPONSE),
    _seconds("end_to_end_p50_s", "P50 end-to-end latency", _NO_RESPONSE),
    _seconds("end_to_end_p90_s", "P90 end-to-end latency", _NO_RESPONSE),
    _text("headline", "which throughput is the headline: `windowed` or `overall`"),
    _number("total_tokens_per_s", "tokens/s", "headline throughput of the system", _NOT_TOLD),
    _number("uncached_tokens_per_s", "tokens/s", "the same, cached input left out", _NOT_TOLD),
    _number("output_tokens_per_s", "tokens/s", "the same, output only", _NOT_TOLD),
    _number("windowed_tokens_per_s", "tokens/s", "windowed throughput of the system", _NOT_TOLD),
    _number("overall_tokens_per_s", "tokens/s", "overall throughput of the system", _NOT_TOLD),
    _number("total_tokens_per_s_per_gpu", "tokens/s/GPU", "headline throughput", _PER_GPU),
    _number("uncached_tokens_per_s_per_gpu", "tokens/s/GPU", "cached input left out", _PER_GPU),
    _number("output_tokens_per_s_per_gpu", "tokens/s/GPU", "output only", _PER_GPU),
    _number("windowed_tokens_per_s_per_gpu", "tokens/s/GPU", "windowed throughput", _PER_GPU),
    _number("overall_tokens_per_s_per_gpu", "tokens/s/GPU", "overall throughput", _PER_GPU),
    _number("cache_hit", "share", "cached / prompt tokens as reported", _NOT_TOLD),
    _number("cache_hit_theoretical", "share", "the same with an unlimited cache", _NO_RESPONSE),
    _seconds("first_half_p90_itl_s", "P90 response ITL of what the first half sent", _FEW_IN_HALF),
    _seconds("second_half_p90_itl_s", "the same of the second half", _FEW_IN_HALF),
    _number(
        "first_half_tokens_per_s", "tokens/s", "tokens that came in the first half", _FEW_IN_HALF
    ),
    _number("second_half_tokens_per_s", "tokens/s", "the same of the second half", _FEW_IN_HALF),
    Column(
        "settled",
        pa.bool_(),
        "",
        "P90 ITL and throughput from the opening on were within 5 % of the window's at last",
        _FEW_IN_HALF,
    ),
    _seconds("settled_s", "quarter of the window from which on they were", "`settled` is not true"),
    _count("plays", "plays with measured tokens", _NO_RESPONSE),
    _number("effective_plays", "", "Kish's effective number of them, by tokens", _NO_RESPONSE),
    _number("largest_play_share", "share", "tokens of the largest play", _NO_RESPONSE),
    _count("requests", "requests sent in the window"),
    _count("ok", "ended well"),
    _count("length_mismatch", "ended well with another length than asked"),
    _count("failed", "failed"),
    _count("overflow", "refused as longer than the context"),
    _count("cut", "alive at the end of the grace, and cut"),
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

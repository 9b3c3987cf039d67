"""Rows of public traces and of gateways: what one row of each format holds, and no more."""

from typing import Any

from claude_logs import instant

Row = dict[str, Any]


def mooncake(t_ms: int | None, tokens: int, *ids: int, **more: Any) -> Row:
    row = {"input_length": tokens, "output_length": 9, "hash_ids": ids, **more}
    return row if t_ms is None else {"timestamp": t_ms, **row}


def chat(number: int, parent: int, t_s: float, tokens: int, *ids: int) -> Row:
    return {
        "chat_id": number, "parent_chat_id": parent, "timestamp": t_s, "input_length": tokens,
        "output_length": 5, "type": "text", "turn": 1, "hash_ids": ids,
    }  # fmt: skip


def round_(provider: str, index: int, start: str, counts: tuple[int, int, int]) -> Row:
    tokens, prefix, wrote = counts
    return {
        "provider": provider,
        "session_id": "s",
        "round_index": index,
        "model": "claude-opus-4-8",
        "input_tokens_total": tokens,
        "prefix_tokens": prefix,
        "claude_cache_creation_input_tokens": wrote,
        "output_tokens": 9,
        "first_input_event_type": "tool_result",
        "timing_events": start
        and [
            {"event_type": "tool_result", "timestamp": start},
            {"event_type": "text", "timestamp": start.replace(".000Z", ".500Z")},
        ],
    }


def litellm(name: str, start_s: float, prompt: int, cached: int = 0, **more: Any) -> Row:
    counts = {"usage_object": {"prompt_tokens_details": {"cached_tokens": cached}}}
    return {
        "trace_id": name, "call_type": "acompletion", "model": "m", "startTime": start_s,
        "endTime": start_s + 3, "prompt_tokens": prompt, "completion_tokens": 9,
        "status": "success", "metadata": counts, **more,
    }  # fmt: skip


def copilot(t_s: float, duration_s: float, prompt: int, *parts: int, cached: int = 0) -> Row:
    return {
        "timestamp": instant(t_s),
        "duration_ms": duration_s * 1000,
        "model": "Model A",
        "result": "Success",
        "tokens": {"prompt": prompt, "completion": 9, "cached": cached},
        "message_metadata": [{"type": "t", "role": "r", "token_len": part} for part in parts],
    }


def ended(stream: str, end_ms: int, tokens: int, *ids: int, **more: Any) -> Row:
    replay = {"trace_block_size": 64, "input_length": tokens, "input_sequence_hashes": ids}
    return {
        "event": {
            "schema": "dynamo.request.trace.v1",
            "event_type": "request_end",
            "event_time_unix_ms": end_ms,
            "agent_context": {"session_id": stream, **more.pop("context", {})},
            "request": {"model": "m", "output_tokens": 9, "replay": replay, **more},
        }
    }


def attributes(**values: Any) -> list[Row]:
    kinds = {int: "intValue", str: "stringValue"}
    return [
        {"key": key.replace("__", "."), "value": {kinds[type(value)]: value}}
        for key, value in values.items()
    ]


def span(name: str, parent: str, start_s: int, end_s: int, operation: str, **more: Any) -> Row:
    return {
        "traceId": "t",
        "spanId": name,
        "parentSpanId": parent,
        "startTimeUnixNano": f"{start_s}000000000",
        "endTimeUnixNano": f"{end_s}000000000",
        "attributes": attributes(gen_ai__operation__name=operation, **more),
    }


def chat_span(name: str, parent: str, at_s: int, tokens: Any, **more: Any) -> Row:
    told = {"gen_ai__usage__input_tokens": tokens, "gen_ai__usage__output_tokens": "9"}
    return span(name, parent, at_s, at_s + 3, "chat", **told, **more)


def otlp(*spans: Row) -> Row:
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


_WHEN = "2026-05-01T12:00:00.000Z"
ROW_LOGS: dict[str, list[Row]] = {
    "mooncake": [mooncake(at, 512 * at, *range(at), session_id="own") for at in (1, 2, 3)],
    "bailian": [chat(at, at - 1, at, 16 * at, *range(at)) for at in (1, 2, 3)],
    "tracelab": [round_("claude", at, _WHEN, (100, 0, 90)) for at in range(3)],
    "pi": [
        {"type": "session", "provider": "own"},
        *(
            {"type": "message", "timestamp": _WHEN, "message": {
                "role": "assistant", "timestamp": at, "model": "own", "usage": {"input": 70}}}
            for at in range(3)
        ),
    ],
    "litellm": [litellm("own", at, 100 * at) for at in (1, 2, 3)],
    "copilot-azure": [
        {"session_id": "own", "turns": [{"llm_calls": [copilot(at, 1, 100, 50) for at in (1, 2)]}]}
    ],
    "dynamo": [ended("own", at, 64 * at, *range(at), total_time_ms=1) for at in (1, 2, 3)],
    "otel": [
        otlp(
            span("m", "", 0, 40, "invoke_agent"),
            *(chat_span(f"c{at}", "m", at, 99) for at in range(3)),
        )
    ],
}  # fmt: skip
"""A small log of each format of rows, with a name of one's own wherever the format has one."""

"""Claude Code logs made line by line: what one line of each kind holds, and no more."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from agentx_replay.traces.importing.record import Request

ZERO = 1_777_636_800  # 2026-05-01T12:00:00Z


def rows(requests: Sequence[Request]) -> list[tuple[float, float, int, int, int]]:
    """Return start and duration in s, input, output and shared tokens of each request."""
    return [
        (
            (each.start_ms - ZERO * 1000) / 1000,
            ((each.end_ms or 0) - each.start_ms) / 1000,
            each.input_tokens,
            each.output_tokens,
            each.shared_tokens,
        )
        for each in requests
    ]


def instant(t_s: float) -> str:
    found = datetime.fromtimestamp(ZERO + t_s, UTC)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def line(kind: str, t_s: float, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "timestamp": instant(t_s),
        "sessionId": "s",
        "uuid": f"{kind}{t_s}",
        **more,
    }


def told(t_s: float, **more: Any) -> dict[str, Any]:
    """Return a line of input: a person's text."""
    return line("user", t_s, message={"role": "user", "content": "go"}, **more)


def tool_result(t_s: float, call: str, **result: Any) -> dict[str, Any]:
    content = [{"type": "tool_result", "tool_use_id": call, "content": "r"}]
    more = {"toolUseResult": result} if result else {}
    return line("user", t_s, message={"role": "user", "content": content}, **more)


def usage(read: int, wrote: int, out: int = 100, fresh: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "input_tokens": fresh,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": wrote,
        "output_tokens": out,
        **more,
    }


def answer(
    t_s: float, key: str, counts: dict[str, Any], *blocks: dict[str, Any], **more: Any
) -> dict[str, Any]:
    message = {
        "id": key,
        "model": more.pop("model", "claude-opus-4-8"),
        "content": list(blocks),
        "stop_reason": more.pop("stop_reason", "end_turn"),
        "usage": counts,
    }
    return line("assistant", t_s, message=message, **{"uuid": f"{key}@{t_s}", **more})


def text(characters: int) -> dict[str, Any]:
    return {"type": "text", "text": "t" * characters}


def tool_use(call: str, name: str = "Bash", **told: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": told}


def boundary(t_s: float) -> dict[str, Any]:
    return line("system", t_s, subtype="compact_boundary")


def write_log(file: Path, *lines: dict[str, Any], ends: bytes = b"\n") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"\n".join(orjson.dumps(each) for each in lines) + ends)
    return file


SESSION = [
    each
    for at in range(3)
    for each in (told(10 * at), answer(10 * at + 2, f"m{at}", usage(640 * at, 640)))
]
"""A session of three requests, each with the prompt before and 640 tokens more."""

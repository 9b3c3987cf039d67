"""Codex rollouts made line by line: what one line of each kind holds, and no more."""

from typing import Any

from claude_logs import instant

Counts = tuple[int, int, int]
"""Input, cached and output tokens."""


def line(kind: str, t_s: float, **payload: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": instant(t_s), "payload": payload}


def meta(t_s: float, name: str, source: Any = "cli", **more: Any) -> dict[str, Any]:
    return line("session_meta", t_s, id=name, timestamp=instant(t_s), source=source, **more)


def spawned(t_s: float, name: str, parent: str, role: str = "explorer") -> dict[str, Any]:
    thread = {"parent_thread_id": parent, "agent_role": role}
    return meta(t_s, name, {"subagent": {"thread_spawn": thread}})


def usage(counts: Counts) -> dict[str, int]:
    read, cached, out = counts
    return {"input_tokens": read, "cached_input_tokens": cached, "output_tokens": out}


def ended(t_s: float, total: Counts, last: Counts | None = None) -> dict[str, Any]:
    info = {"total_token_usage": usage(total), "last_token_usage": usage(last or total)}
    return line("event_msg", t_s, type="token_count", info=info)


def person(t_s: float) -> dict[str, Any]:
    return line("event_msg", t_s, type="user_message", message="go")


def context(t_s: float) -> dict[str, Any]:
    return line("turn_context", t_s, model="gpt-5.3-codex")


def item(t_s: float, kind: str, **more: Any) -> dict[str, Any]:
    return line("response_item", t_s, type=kind, **more)


PARENT = [
    person(1),
    context(1),
    line("event_msg", 2, type="token_count", info=None),
    ended(9, (12_000, 2_560, 300)),
    item(10, "function_call_output", call_id="c"),
    context(10),
    ended(11, (12_000, 2_560, 300)),
    ended(14, (24_800, 14_720, 400), (12_800, 12_160, 100)),
    person(60),
    context(60),
    ended(61, (24_800, 14_720, 400), (12_800, 12_160, 100)),
    ended(65, (37_300, 26_624, 480), (12_500, 11_904, 80)),
]
"""Three requests, the third of a new turn: it keeps the 12,000 of the first prompt of the turn
before, and the reasoning after them is gone, so that it is shorter than the second."""

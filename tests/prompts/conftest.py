"""Tiny recordings: a prompt is a string of letters, a letter a block, equal prefixes shared."""

from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest

from agentx_replay.traces.model import Session
from agentx_replay.traces.weka import read_session

Line = tuple[int, int, str]
"""Input tokens, output tokens, blocks."""

Record = Callable[..., Session]


def _record(
    lines: Sequence[Line],
    *,
    tool_tokens: int = 0,
    system_tokens: int = 0,
    subagent: Sequence[Line] = (),
    subagent_lengths: tuple[int, int] = (0, 0),
    session_id: str = "s",
    block_size: int = 64,
) -> Session:
    """Return a session of ``lines``, a second apart, then of one subagent's."""
    requests: list[dict[str, Any]] = [
        {"t": t, "model": "m", "in": tokens, "out": out, "hash_ids": list(map(ord, letters))}
        for t, (tokens, out, letters) in enumerate([*lines, *subagent])
    ]
    main, inner = requests[: len(lines)], requests[len(lines) :]
    tools, system = subagent_lengths
    marker = {"type": "subagent", "t": len(lines), "requests": inner}
    lengths = {"tool_tokens": tools, "system_tokens": system}
    session = {
        "id": session_id,
        "block_size": block_size,
        "tool_tokens": tool_tokens,
        "system_tokens": system_tokens,
        "requests": [*main, marker | lengths] if inner else main,
    }
    return read_session(orjson.dumps(session), "t.json")


@pytest.fixture(scope="session")
def record() -> Record:
    return _record

"""Recordings for tests, written by hand: a prompt is a string, each character one block.

Two prompts share the blocks of the characters they begin with in common.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from agentx_replay.traces.model import (
    NO_BLOCK,
    BlockTrie,
    Entry,
    RecordedRequest,
    Session,
    Subagent,
)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request to be recorded; ``start_s`` is the reader's reading where it is not ``t_s``."""

    t_s: float
    prompt: str
    duration_s: float | None = 1.0
    think_time_s: float | None = None
    model: str = "m"
    start_s: float | None = None


@dataclass(frozen=True, slots=True)
class Marker:
    """A subagent marker. ``t_s`` is its spawn, or its completion where ``completed``."""

    t_s: float
    requests: Sequence[Sent]
    duration_s: float | None = None
    completed: bool = False
    agent_id: str = "a"


def session(*recorded: Sent | Marker) -> Session:
    """The recording of ``recorded``, in file order."""
    entries: list[Entry] = []
    count = 0
    for entry in recorded:
        if isinstance(entry, Sent):
            entries.append(_request(entry, count))
            count += 1
        else:
            inner = tuple(_request(sent, count + i) for i, sent in enumerate(entry.requests))
            entries.append(_subagent(entry, inner))
            count += len(inner)
    sent = [s for e in recorded for s in ([e] if isinstance(e, Sent) else e.requests)]
    trie, tips = _trie([s.prompt for s in sent])
    return Session("s", 64, 0, 0, _placed(entries, tips), trie)


def _request(sent: Sent, index: int) -> RecordedRequest:
    return RecordedRequest(
        index=index,
        recorded_order=index,
        t_s=sent.t_s,
        start_s=sent.t_s if sent.start_s is None else sent.start_s,
        duration_s=sent.duration_s,
        think_time_s=sent.think_time_s,
        model=sent.model,
        input_tokens=64 * len(sent.prompt),
        output_tokens=1,
        tip_block=NO_BLOCK,
        block_count=len(sent.prompt),
        known_blocks=0,
        first_new_block=0,
    )


def _subagent(marker: Marker, requests: tuple[RecordedRequest, ...]) -> Subagent:
    spawn_s = marker.t_s - (marker.duration_s or 0) if marker.completed else marker.t_s
    return Subagent(
        agent_id=marker.agent_id,
        kind="",
        status="completed",
        marker_t_s=marker.t_s,
        marker_is_completion=marker.completed,
        spawn_s=spawn_s,
        duration_s=marker.duration_s,
        tool_tokens=0,
        system_tokens=0,
        requests=requests,
    )


def _trie(prompts: Sequence[str]) -> tuple[BlockTrie, list[int]]:
    """One node a distinct prefix, in order of first use, and each prompt's last node."""
    nodes: dict[str, int] = {"": NO_BLOCK}
    parent: list[int] = []
    run_first: list[int] = []
    for prompt in prompts:
        for length in range(1, len(prompt) + 1):
            prefix = prompt[:length]
            if prefix in nodes:
                continue
            block = nodes[prefix] = len(parent)
            before = nodes[prefix[:-1]]
            unbroken = before != NO_BLOCK and before == block - 1
            run_first.append(run_first[before] if unbroken else block)
            parent.append(before)
    trie = BlockTrie(np.array(parent, np.int32), np.array(run_first, np.int32))
    return trie, [nodes[prompt] for prompt in prompts]


def _placed(entries: Sequence[Entry], tips: Sequence[int]) -> tuple[Entry, ...]:
    def placed(request: RecordedRequest) -> RecordedRequest:
        return replace(request, tip_block=tips[request.index])

    return tuple(
        replace(entry, requests=tuple(map(placed, entry.requests)))
        if isinstance(entry, Subagent)
        else placed(entry)
        for entry in entries
    )

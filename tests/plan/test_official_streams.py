"""Our conversations against those of the official harness, as it recorded what it sent.

``agentx-harness-1.0.12-c8-seed42.json`` is no part of the project; the test skips without it.
``benchmarks/official_streams.py`` compares all there is to compare where the harness is installed.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentx_replay.plan.conversations import build_graph
from agentx_replay.plan.graph import OFFICIAL
from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.model import Session, Subagent

_SHARED = Path(__file__).resolve().parents[2].parent / "shared"
_SENT = _SHARED / "official" / "agentx-harness-1.0.12-c8-seed42.json"


@dataclass(frozen=True, slots=True)
class Place:
    """A request by its place in the file: entry, and place inside a subagent."""

    entry: int
    inner: int | None


def places(session: Session) -> dict[int, Place]:
    """Each request's place in the file, by its index."""
    found: dict[int, Place] = {}
    for number, entry in enumerate(session.entries):
        if isinstance(entry, Subagent):
            inner = enumerate(entry.requests)
            found.update((request.index, Place(number, i)) for i, request in inner)
        else:
            found[entry.index] = Place(number, None)
    return found


def official_name(session_id: str, conversation: str) -> str:
    """What the harness calls our conversation. (It labels some flattened agents otherwise.)"""
    return session_id if conversation == "main" else f"{session_id}::{conversation}"


def test_what_the_official_harness_sent_is_in_our_conversations_at_the_same_turn(
    real_traces: Path,
) -> None:
    if not _SENT.is_file():
        pytest.skip("what the official harness sent is not here")
    ours: dict[tuple[str, int], Place] = {}
    for session in read_corpus(real_traces).sessions:
        at = places(session)
        for conversation in build_graph(session, OFFICIAL).conversations:
            name = official_name(session.id, conversation.name)
            ours.update(
                ((name, number), at[turn.request.index])
                for number, turn in enumerate(conversation.turns)
            )
    sent = json.loads(_SENT.read_bytes())
    assert len(sent) == 95
    for record in sent:
        conversation = record["conv"].replace(":aux:", ":fa:")
        assert ours[conversation, record["turn"]] == Place(record["idx"], record["inner"])

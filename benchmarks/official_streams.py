"""Compare how we and the official harness split traces into conversations. Opt-in: it needs both.

    python benchmarks/official_streams.py TRACES HARNESS_PYTHON

TRACES is a directory of trace files (.json or .json.gz), HARNESS_PYTHON a Python that has
agentx-harness 1.0.12 installed. Conversations, their order, gaps, spawns, joins and the order
across conversations must be equal; what differs is printed, and the exit code is 1.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentx_replay.plan.conversations import build_graph
from agentx_replay.plan.graph import OFFICIAL, SessionGraph, Spawn, TurnId
from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.model import Session, Subagent

NEAR_S = 1e-6


def places(session: Session) -> dict[int, tuple[int, int | None]]:
    """Return each request's place in the file by its index: entry, and place inside a subagent."""
    found: dict[int, tuple[int, int | None]] = {}
    for place, entry in enumerate(session.entries):
        if isinstance(entry, Subagent):
            found.update((inner.index, (place, i)) for i, inner in enumerate(entry.requests))
        else:
            found[entry.index] = (place, None)
    return found


def differences(session: Session, official: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each difference between our graph and the official conversations."""
    graph = build_graph(session, OFFICIAL)
    at = places(session)
    ours = {
        tuple(at[turn.request.index] for turn in conversation.turns): conversation.index
        for conversation in graph.conversations
    }
    index_of: dict[str, int] = {}
    for conversation in official:
        requests = tuple((turn["entry"], turn["inner"]) for turn in conversation["turns"])
        if not requests:
            continue
        if requests not in ours:
            yield f"{conversation['name']}: none of ours holds these requests: {requests[:5]} …"
            return
        index_of[conversation["name"]] = ours[requests]
    if len(index_of) != len(graph.conversations):
        yield f"{session.id}: {len(graph.conversations)} conversations, officially {len(index_of)}"
        return
    yield from _names(session, graph, index_of)
    for conversation in official:
        if conversation["turns"]:
            yield from _turns(graph, conversation, index_of)
    yield from _spawns(graph, official, index_of)


def _names(session: Session, graph: SessionGraph, index_of: dict[str, int]) -> Iterator[str]:
    for name, index in index_of.items():
        ours = graph.conversations[index].name
        label = name.removeprefix(session.id).removeprefix("::").replace("aux:", "fa:")
        if ours != (label or "main") and ":wg:" not in f":{label}":
            yield f"{name}: we name it {ours}"


def _turns(
    graph: SessionGraph, official: dict[str, Any], index_of: dict[str, int]
) -> Iterator[str]:
    turns = graph.conversations[index_of[official["name"]]].turns
    for number, (turn, turn) in enumerate(zip(turns, official["turns"], strict=True)):
        where = f"{official['name']} turn {number}"
        if abs(turn.start_s - turn["start_ms"] / 1000) > NEAR_S:
            yield f"{where}: starts at {turn.start_s} s, officially {turn['start_ms']} ms"
        if abs(turn.gap_s - (turn["gap_ms"] or 0) / 1000) > NEAR_S:
            yield f"{where}: gap {turn.gap_s} s, officially {turn['gap_ms']} ms"
        after = {TurnId(index_of[name], at) for name, at in turn["after"]}
        if set(turn.after) != after:
            yield f"{where}: after {turn.after}, officially {sorted(after)}"


def _spawns(
    graph: SessionGraph, official: list[dict[str, Any]], index_of: dict[str, int]
) -> Iterator[str]:
    main, by_name = official[0], {conversation["name"]: conversation for conversation in official}
    joins: dict[int, set[int]] = {turn: set() for turn in range(len(main["turns"]))}
    order: list[int] = []
    for branch in main["branches"]:
        members = [name for name in branch["conversations"] if name in index_of]
        spawning = next(i for i, t in enumerate(main["turns"]) if branch["id"] in t["spawns"])
        parent = main["turns"][spawning]
        end_ms = parent["start_ms"] + (parent["duration_ms"] or 0)
        at_issue = (parent["duration_ms"] or 0) > 0 and branch["start_ms"] < end_ms
        from_ms = parent["start_ms"] if at_issue else branch["start_ms"]
        for name in members:
            conversation = graph.conversations[index_of[name]]
            order.append(conversation.index)
            offset_s = max(0.0, by_name[name]["turns"][0]["start_ms"] - from_ms) / 1000
            expected = Spawn(TurnId(0, spawning), at_issue, offset_s)
            if not _same_spawn(conversation.spawn, expected):
                yield f"{name}: {conversation.spawn}, officially {expected}"
            if conversation.background != branch["background"]:
                yield f"{name}: background {conversation.background}"
        for number, turn in enumerate(main["turns"]):
            if branch["id"] in turn["joins"]:
                joins[number].update(index_of[name] for name in members)
    if order != sorted(order):
        yield f"{main['name']}: conversations in the order {order}"
    for number, turn in enumerate(graph.conversations[0].turns):
        if {join.conversation for join in turn.joins} != joins[number]:
            yield f"{main['name']} turn {number}: joins {turn.joins}, officially {joins[number]}"


def _same_spawn(ours: Spawn | None, official: Spawn) -> bool:
    return (
        ours is not None
        and (ours.after, ours.at_issue) == (official.after, official.at_issue)
        and abs(ours.offset_s - official.offset_s) <= NEAR_S
    )


def main(traces: Path, harness_python: str) -> int:
    """Compare, print, and return the exit code."""
    files = sorted(p for p in traces.glob("*.json*") if not p.name.startswith("manifest"))
    dump = Path(__file__).with_name("official_dump.py")
    command = [harness_python, str(dump), *map(str, files)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    official = json.loads(answer)
    sessions = read_corpus(traces).sessions
    found = [line for s in sessions for line in differences(s, official[s.id])]
    if found:
        print(*found, sep="\n")
    print(f"{len(sessions)} sessions compared, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))

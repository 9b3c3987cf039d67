"""How much each correction of ``agentx-faithful`` moves: requests, and by how long.

    python benchmarks/faithful_differences.py TRACES

Each session is played alone from its first request, on a server that takes exactly as long for
each request as was recorded, without idle caps: once by the official reading, once with one
correction, and once with all. A request has moved if it starts over a second earlier or later. The
last two columns say how far starts are from where the recording has them.
"""

import dataclasses
import heapq
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from agentx_replay.plan.conversations import build_graph
from agentx_replay.plan.graph import FAITHFUL, OFFICIAL, GraphRules, SessionGraph, TurnId
from agentx_replay.plan.start import from_the_beginning
from agentx_replay.replay.play import Due, Play
from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.model import Session

MOVED_S = 1.0
_NS = 1_000_000_000

CORRECTIONS = {
    "think_time_gaps": "recorded think time as the gap",
    "corrected_spawns": "markers and times inside subagents",
    "keep_spawn_waits": "wait before a spawn",
    "keep_join_pauses": "pause after a join",
    "keep_early_markers": "subagent before every main request",
    "split_only_overlapping": "agents apart only where they overlap",
}


def starts_s(graph: SessionGraph) -> dict[int, float]:
    """Return when each request starts, by its index, in seconds from the first.

    The server takes the recorded time for each.
    """
    play = Play(graph, from_the_beginning(graph))
    started: dict[int, float] = {}
    pending: list[tuple[int, int, TurnId]] = []
    issue, end = 1, 0

    def file(due: Iterable[Due]) -> None:
        for turn, due_ns in due:
            heapq.heappush(pending, (due_ns, issue, turn))

    file(play.start(0))
    while pending:
        now_ns, what, turn_id = heapq.heappop(pending)
        if what == end:
            file(play.ended(turn_id, now_ns))
            continue
        turn = play.turn(turn_id)
        started[turn.request.index] = now_ns / _NS
        file(play.issued(turn_id, now_ns))
        taken_ns = max(0, round((turn.request.duration_s or 0.0) * _NS))
        heapq.heappush(pending, (now_ns + taken_ns, end, turn_id))
    return started


def recorded_s(session: Session) -> dict[int, float]:
    """Return when each request started in the recording, from the first, by the best reading."""
    starts = {request.index: request.start_s for request in session.requests()}
    first_s = min(starts.values())
    return {index: start_s - first_s for index, start_s in starts.items()}


def row(sessions: Iterable[Session], name: str, rules: GraphRules) -> str:
    """Return one line of the table: what ``rules`` change against the official ones."""
    moved: list[float] = []
    drift: list[float] = []
    total = added = regrouped = touched = 0
    for session in sessions:
        official, corrected = build_graph(session, OFFICIAL), build_graph(session, rules)
        before, after = starts_s(official), starts_s(corrected)
        recorded = recorded_s(session)
        total += len(after)
        added += len(after.keys() - before.keys())
        regrouped += max(0, len(official.conversations) - len(corrected.conversations))
        changes = [abs(after[index] - before[index]) for index in before.keys() & after.keys()]
        here = [change for change in changes if change > MOVED_S]
        moved += here
        touched += bool(here) or after.keys() != before.keys()
        drift += [abs(start_s - recorded[index]) for index, start_s in after.items()]
    p50_s, largest_s = (np.median(moved), max(moved)) if moved else (0.0, 0.0)
    return (
        f"{name:<38} {touched:>8} {len(moved):>6} {p50_s:>9,.1f} {largest_s:>10,.1f} {added:>5} "
        f"{regrouped:>8} {np.percentile(drift, 50):>9,.2f} {np.percentile(drift, 90):>9,.1f}"
    )


def main(traces: Path) -> None:
    """Print the table for a directory of traces."""
    sessions = read_corpus(traces).sessions
    requests = sum(len(session.requests()) for session in sessions)
    print(f"{len(sessions)} sessions, {requests:,} requests; times in seconds")
    print(
        f"{'correction':<38} {'sessions':>8} {'moved':>6} {'by P50':>9} {'by at most':>10} "
        f"{'added':>5} {'conversations-':>8} {'drift P50':>9} {'drift P90':>9}"
    )
    print(row(sessions, "none (the official reading)", OFFICIAL))
    for rule, name in CORRECTIONS.items():
        print(row(sessions, name, dataclasses.replace(OFFICIAL, **{rule: True})))
    print(row(sessions, "all (agentx-faithful)", FAITHFUL))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

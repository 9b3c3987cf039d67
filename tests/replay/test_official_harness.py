"""Scenario ``agentx`` sends what the official harness sent (agentx-harness 1.0.12, concurrency 8,
seed 42, recorded against a server of 50 ms to the first token and 99 more at 5 ms).

Recycled sessions come in the harness's own order, which depends on the server's speed; here that
order is put in by hand, so that the window can be compared too.
"""

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from virtual_replay import Log, NoText, S, Timed

from agentx_replay.plan.plan import GraphLibrary, Plan, PlannedPlay
from agentx_replay.plan.selection import select_sessions
from agentx_replay.plan.start import from_the_beginning
from agentx_replay.replay.driver import Replay
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock
from agentx_replay.scenario import load_scenario
from agentx_replay.traces.corpus import read_corpus

SERVER_S = 0.5475
# (lane, play number) → session, as the recorded run recycled them.
RECYCLED = {(7, 1): "trace_0105", (5, 1): "trace_0165", (5, 2): "trace_0167"}

Sent = tuple[float, int, str, int]
"""Second from the phase's first request, lane, conversation in the harness's naming, turn."""


class RecordedOrder(Plan):
    """A plan whose recycled sessions come in the recorded run's order."""

    def play(self, lane: int, play_number: int) -> PlannedPlay:
        if (lane, play_number) not in RECYCLED:
            return super().play(lane, play_number)
        sessions = [session.id for session in self.library.selection.sessions]
        index = sessions.index(RECYCLED[lane, play_number])
        graph = self.library.graph(index)
        session = self.library.selection.sources[index]
        return PlannedPlay(index, session, graph, from_the_beginning(graph))


@pytest.fixture(scope="module")
def official(real_traces: Path) -> list[dict[str, Any]]:
    path = real_traces.parents[1] / "official" / "agentx-harness-1.0.12-c8-seed42.json"
    if not path.exists():
        pytest.skip("the recorded run of the official harness is not here")
    records: list[dict[str, Any]] = json.loads(path.read_text())
    return records


@pytest.fixture(scope="module")
def sent(real_traces: Path) -> dict[str, list[Sent]]:
    """What we send, by phase, in order."""
    corpus = read_corpus(real_traces)
    scenario = load_scenario("agentx").override(window_s=60.0)
    library = GraphLibrary(select_sessions(corpus, max_context=None), scenario)
    plan = RecordedOrder(scenario, corpus.fingerprint, library, 8)
    log = Log()

    async def main() -> None:
        clock = virtual_clock()
        endpoint = Timed(clock, lambda _: SERVER_S)
        await Replay(plan, lambda *_: NoText(), clock, endpoint, log, run_id="t").run()

    run_virtual(main())
    by_phase: dict[str, list[Sent]] = defaultdict(list)
    for dispatch, response in sorted(log.requests, key=lambda pair: pair[1].send_ns):
        conversation = plan.play(dispatch.lane, dispatch.play_number).graph.conversations[
            dispatch.conversation
        ]
        suffix = "" if conversation.name == "main" else f"::{conversation.name}"
        by_phase[dispatch.phase].append(
            (response.send_ns / S, dispatch.lane, dispatch.session_id + suffix, dispatch.turn)
        )
    return by_phase


def test_the_same_primers_are_sent(
    sent: dict[str, list[Sent]], official: list[dict[str, Any]]
) -> None:
    primers = [record for record in official if record["phase"] == "warmup"][:7]
    assert {(conv, turn) for _, _, conv, turn in sent["primer"]} == {
        (record["conv"], record["turn"]) for record in primers
    }


def test_the_late_primers_fire_at_the_same_spacing(
    sent: dict[str, list[Sent]], official: list[dict[str, Any]]
) -> None:
    ours = {conv: at_s for at_s, _, conv, _ in sent["primer"]}
    theirs = {record["conv"]: record["start"] for record in official[:7]}
    spacing_s = ours["trace_0103"] - ours["trace_0057"]
    assert spacing_s == pytest.approx(theirs["trace_0103"] - theirs["trace_0057"], abs=0.02)


def test_every_lane_sends_the_same_warm_up_in_the_same_order(
    sent: dict[str, list[Sent]], official: list[dict[str, Any]]
) -> None:
    theirs: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for record in official[7:]:
        if record["phase"] == "warmup":
            theirs[record["trace"]].append((record["conv"], record["turn"]))
    ours: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for _, _, conv, turn in sent["cache_pressure"]:
        ours[conv.split("::")[0]].append((conv, turn))
    assert ours == theirs


def test_the_window_sends_the_same_requests_at_the_same_spacing(
    sent: dict[str, list[Sent]], official: list[dict[str, Any]]
) -> None:
    theirs = [record for record in official if record["phase"] == "profiling"]
    ours = [row for row in sent["window"] if row[2] == "trace_0167"][: len(theirs)]
    assert [(conv, turn) for _, _, conv, turn in ours] == [
        (record["conv"], record["turn"]) for record in theirs
    ]
    our_spacing_s = [b[0] - a[0] for a, b in itertools.pairwise(ours)]
    their_spacing_s = [b["start"] - a["start"] for a, b in itertools.pairwise(theirs)]
    durations_s = [record["end"] - record["start"] for record in theirs]
    # The recorded server took a few ms more or less than its 545 ms; that is not ours to equal.
    expected_s = [
        spacing_s - duration_s + SERVER_S
        for spacing_s, duration_s in zip(their_spacing_s, durations_s, strict=False)
    ]
    assert our_spacing_s == pytest.approx(expected_s, abs=0.02)

"""A run's plan: for every lane and play number, the session, its graph and where it starts."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import orjson

from agentx_replay.plan.conversations import build_graph
from agentx_replay.plan.graph import RULES_BY_READING, Conversation, SessionGraph
from agentx_replay.plan.lanes import session_of
from agentx_replay.plan.selection import Selection
from agentx_replay.plan.start import StartPosition, from_t_star, from_the_beginning, t_star_s
from agentx_replay.scenario import Scenario
from agentx_replay.traces.model import Session


@dataclass(frozen=True, slots=True, eq=False)
class PlannedPlay:
    """One play: the session's place in the selection, its recording, its graph, its start."""

    session_index: int
    session: Session
    graph: SessionGraph
    start: StartPosition


@dataclass(slots=True, eq=False)
class GraphLibrary:
    """The graphs of a selection, each built when first played and then shared by all plays."""

    selection: Selection
    scenario: Scenario
    _graphs: dict[int, SessionGraph] = field(default_factory=dict)

    def graph(self, session_index: int) -> SessionGraph:
        if session_index not in self._graphs:
            session = self.selection.sessions[session_index]
            self._graphs[session_index] = build_graph(
                session, RULES_BY_READING[self.scenario.reading]
            )
        return self._graphs[session_index]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What ``concurrency`` lanes play. Same corpus, scenario and start: same plan, anywhere.

    Start 1 is the scenario's own. Each further ``start`` has the next seed, and so other starting
    points t*, and deals the sessions to the lanes in another order.
    """

    scenario: Scenario
    corpus_fingerprint: str
    library: GraphLibrary
    concurrency: int
    start: int = 1

    @property
    def seed(self) -> int:
        """The scenario's seed plus ``start`` - 1."""
        return self.scenario.seed + self.start - 1

    def play(self, lane: int, play_number: int) -> PlannedPlay:
        selection = self.library.selection
        index = session_of(
            lane,
            play_number,
            lanes=self.concurrency,
            sessions=len(selection.sessions),
            seed=self.seed,
            shuffled=self.start > 1,
        )
        graph, scenario = self.library.graph(index), self.scenario
        if play_number > 0:
            start = from_the_beginning(graph)
        else:
            t_star = t_star_s(graph, seed=self.seed, lane=lane, fraction=scenario.start_fraction)
            start = from_t_star(graph, t_star, primer_lead_s=scenario.primer_lead_s)
        return PlannedPlay(index, selection.sources[index], graph, start)

    @property
    def fingerprint(self) -> str:
        """16 hex digits: what is sent and when, but for the salt and the server's speed.

        Of the graphs those of the lanes' first sessions count, each once: the others are made by
        the same rules from the same corpus.
        """
        firsts = [self.play(lane, 0) for lane in range(self.concurrency)]
        graphs = {play.session_index: play.graph for play in firsts}
        facts = [
            self.scenario.fingerprint,
            self.corpus_fingerprint,
            self.concurrency,
            [session.id for session in self.library.selection.sessions],
            [len(session.requests()) for session in self.library.selection.sessions],
            [[play.session.id, play.start.t_star_s, play.start.turns] for play in firsts],
            [
                [_conversation_facts(conversation) for conversation in graph.conversations]
                for graph in graphs.values()
            ],
            *([self.start] if self.start > 1 else []),
        ]
        return hashlib.sha256(orjson.dumps(facts)).hexdigest()[:16]


def _conversation_facts(conversation: Conversation) -> list[Any]:
    spawn = conversation.spawn and [
        conversation.spawn.after and [*conversation.spawn.after],
        conversation.spawn.at_issue,
        conversation.spawn.offset_s,
    ]
    turns = [
        [
            turn.request.index,
            turn.gap_s,
            [[join.conversation, join.pause_s] for join in turn.joins],
            [[*other] for other in turn.after],
        ]
        for turn in conversation.turns
    ]
    return [conversation.name, spawn, turns]

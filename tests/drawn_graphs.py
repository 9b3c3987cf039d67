"""Session graphs drawn at random: agents side by side, joins, order across conversations, long
gaps; and what a drawn case is replayed with.
"""

import dataclasses
from random import Random
from zlib import crc32

from stream_graphs import graph, turn
from virtual_replay import SCENARIO

from agentx_replay.plan.graph import Join, SessionGraph, Spawn, Turn, TurnId
from agentx_replay.replay.ports import Dispatch, Phase, Status

DRAWN = dataclasses.replace(
    SCENARIO,
    window_s=40.0,
    start_fraction=(0.25, 0.75),
    warmup_requests=2,
    primer_lead_s=2.0,
    system_idle_cap_s=0.5,
    session_idle_cap_s=4.0,
)


def some_seconds(dispatch: Dispatch) -> float:
    """Between 0.05 and 0.4 s, drawn from the request's name."""
    return 0.05 + crc32(dispatch.request_id.encode()) % 351 / 1000


def few_overflow(dispatch: Dispatch) -> Status:
    drawn = crc32(dispatch.request_id.encode()) % 37 == 0
    return Status.OVERFLOW if drawn and dispatch.phase is Phase.WINDOW else Status.OK


def _gap_s(random: Random) -> float:
    """Return a gap in whole ms: most under a second, some beyond every idle cap of a test."""
    return round(random.choice((0.0, 0.5, 1.0, 4.0, 30.0)) * random.random(), 3)


def _turns(random: Random, first_index: int, start_s: float, number: int) -> list[Turn]:
    turns = []
    for index in range(first_index, first_index + number):
        gap_s = _gap_s(random)
        start_s += gap_s
        turns.append(turn(index, round(start_s, 3), gap_s=gap_s))
        start_s += 1.0
    return turns


def drawn_graph(random: Random, name: str) -> SessionGraph:
    """Return a main conversation of up to 8 requests and up to two subagents; some are joined, and
    some of the main conversation's requests also follow one of a subagent.
    """
    main = _turns(random, 0, 0.0, random.randint(2, 8))
    children: list[tuple[Spawn, list[Turn]]] = []
    for conversation in range(1, random.randint(1, 3)):
        after = random.randrange(len(main) - 1)
        spawn = Spawn(TurnId(0, after), at_issue=random.random() < 0.5, offset_s=_gap_s(random))
        turns = _turns(random, 10 * conversation, main[after].start_s, random.randint(1, 4))
        children.append((spawn, turns))
        if random.random() < 0.6:
            turn = random.randrange(after + 1, len(main))
            gates = (
                {"joins": (Join(conversation, 0.25),)}
                if random.random() < 0.5
                else {"after": (TurnId(conversation, 0),)}
            )
            main[turn] = _gated(main[turn], **gates)
    return graph(main, *children, session_id=name)


def _gated(of: Turn, joins: tuple[Join, ...] = (), after: tuple[TurnId, ...] = ()) -> Turn:
    index, gap_s = of.request.index, of.gap_s
    return turn(
        index, of.start_s, gap_s=gap_s, joins=(*of.joins, *joins), after=(*of.after, *after)
    )

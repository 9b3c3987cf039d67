"""Small conversation graphs for the tests of the closed loop, written out by hand."""

from collections.abc import Sequence

from agentx_replay.plan.graph import Conversation, Join, SessionGraph, Spawn, Turn, TurnId
from agentx_replay.traces.model import NO_BLOCK, RecordedRequest


def request(
    index: int,
    start_s: float,
    duration_s: float,
    *,
    input_tokens: int = 100,
    output_tokens: int = 4,
) -> RecordedRequest:
    """A recorded request without blocks."""
    return RecordedRequest(
        index=index,
        recorded_order=index,
        t_s=start_s,
        start_s=start_s,
        duration_s=duration_s,
        think_time_s=None,
        model="m",
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        tip_block=NO_BLOCK,
        block_count=0,
        known_blocks=0,
        first_new_block=0,
    )


def turn(
    index: int,
    start_s: float,
    duration_s: float = 1.0,
    *,
    gap_s: float = 0.0,
    joins: Sequence[Join] = (),
    after: Sequence[TurnId] = (),
    output_tokens: int = 4,
) -> Turn:
    """One turn; ``gap_s`` counts from the predecessor's live end."""
    return Turn(
        request=request(index, start_s, duration_s, output_tokens=output_tokens),
        start_s=start_s,
        end_s=start_s + duration_s,
        gap_s=gap_s,
        joins=tuple(joins),
        after=tuple(after),
    )


def graph(
    main: Sequence[Turn], *children: tuple[Spawn, Sequence[Turn]], session_id: str = "s"
) -> SessionGraph:
    """A main conversation and its children, numbered from 1 in the order given."""
    conversations = [Conversation(0, "main", tuple(main), None, background=False)]
    for index, (spawn, turns) in enumerate(children, start=1):
        joined = any(join.conversation == index for s in main for join in s.joins)
        conversations.append(
            Conversation(index, f"sa:{index}", tuple(turns), spawn, background=not joined)
        )
    return SessionGraph(session_id, tuple(conversations))

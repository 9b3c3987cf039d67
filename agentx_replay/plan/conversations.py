"""From a recording to a graph: which conversations a session has, and what each of their turns
waits for.

``build_graph`` is a pure function of the recording and the rules it is read by. It knows no
clock, no lanes and no t*; who shares a prompt with whom is in ``flatten.py``, who had ended when
another started in ``order.py``.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agentx_replay.plan.flatten import keep_overlapping, split_agents
from agentx_replay.plan.graph import (
    Conversation,
    GraphRules,
    Join,
    SessionGraph,
    Spawn,
    Turn,
    TurnId,
)
from agentx_replay.plan.order import ended_before
from agentx_replay.plan.times import (
    EPSILON_S,
    Timed,
    end_s,
    inner_times,
    recorded_duration_s,
    recorded_order,
    spawn_s,
    timed,
)
from agentx_replay.traces.model import RecordedRequest, Session, Subagent
from agentx_replay.traces.weka import request_lists

ORPHANED = "subagents recorded before any request of the main conversation"
"""Why requests are dropped where ``keep_early_markers`` is off."""

_MAIN_SCOPE = -1


@dataclass(frozen=True, slots=True)
class _Child:
    """A child conversation. ``after`` is the main turn that spawns it, None where none comes
    before; ``join`` the one that waits for it, None where none does. Order across conversations
    holds among those of one ``scope``: the main conversation and the flattened ones, or one
    subagent's.
    """

    name: str
    scope: int
    requests: Sequence[Timed]
    spawn_s: float
    end_s: float
    after: int | None
    join: int | None


def build_graph(session: Session, rules: GraphRules) -> SessionGraph:
    """Return the conversations of ``session`` under ``rules``, the main one first.

    Then come the subagents' conversations and then the flattened agents', in the official order: by
    branch (the children of one spawning and one joining turn), branches by first appearance. A
    subagent without requests has no conversation; a session without main requests has an empty main
    one. Nothing waits in a circle: a turn waits only for what was recorded before it.
    """
    main, flattened = _main_conversations(session, rules)
    subagents, dropped = _subagent_conversations(session, main, rules)
    branches = _branches(subagents) + _branches(flattened)
    children = [child for branch in branches for child in branch]
    after = _order([(_MAIN_SCOPE, main), *((child.scope, child.requests) for child in children)])
    predecessors = _list_predecessors(session)
    joins = _joins(main, children, rules)
    conversations = [
        Conversation(0, "main", _turns(main, after[0], joins, predecessors, rules), None, False)
    ]
    for branch in branches:
        for child in branch:
            index = len(conversations)
            turns = _turns(child.requests, after[index], {}, predecessors, rules)
            spawn = _spawn(main, branch, child, rules)
            conversations.append(Conversation(index, child.name, turns, spawn, child.join is None))
    reason = ORPHANED if dropped else ""
    return SessionGraph(
        session.id, tuple(conversations), dropped_requests=dropped, drop_reason=reason
    )


# -- conversations
# ---------------------------------------------------------------------------------------


def _main_conversations(session: Session, rules: GraphRules) -> tuple[list[Timed], list[_Child]]:
    """Return the main conversation and the agents flattened into its list.

    A list that holds one agent stays in file order.
    """
    listed = [
        timed(entry, entry.start_s)
        for entry in session.entries
        if isinstance(entry, RecordedRequest)
    ]
    main, *others = _agents(listed, session, rules)
    if not others:
        return listed, []
    children = []
    for number, requests in enumerate(others):
        end = max(item.end_s for item in requests)
        after = bisect_left(main, recorded_order(requests[0]), key=recorded_order) - 1
        join = _joining_turn(main, after, end)
        name = f"fa:{number:03d}"
        start = requests[0].start_s
        children.append(_Child(name, _MAIN_SCOPE, requests, start, end, after, join))
    return main, children


def _subagent_conversations(
    session: Session, main: Sequence[Timed], rules: GraphRules
) -> tuple[list[_Child], int]:
    """Return the subagents' conversations, and how many requests the rules drop."""
    turns = {item.request.index: turn for turn, item in enumerate(main)}
    children: list[_Child] = []
    dropped, last_turn = 0, -1
    for place, entry in enumerate(session.entries):
        if not isinstance(entry, Subagent):
            last_turn = max(last_turn, turns.get(entry.index, -1))
        elif last_turn < 0 and not rules.keep_early_markers:
            dropped += len(entry.requests)
        elif entry.requests:
            after = last_turn if last_turn >= 0 else None
            children.extend(_subagent(session, entry, place, main, after, rules))
    return children, dropped


def _subagent(
    session: Session,
    subagent: Subagent,
    scope: int,
    main: Sequence[Timed],
    after: int | None,
    rules: GraphRules,
) -> list[_Child]:
    """Return the conversations of one subagent. They start and are waited for together."""
    inner = inner_times(subagent, corrected=rules.corrected_spawns)
    start = spawn_s(subagent, corrected=rules.corrected_spawns)
    end = end_s(subagent, inner, corrected=rules.corrected_spawns)
    join = _joining_turn(main, after, end)
    name = f"sa:{subagent.agent_id}"
    return [
        _Child(
            name if not number else f"{name}:fa:{number - 1:03d}",
            scope,
            requests,
            start,
            end,
            after,
            join,
        )
        for number, requests in enumerate(_agents(inner, session, rules))
    ]


def _agents(listed: Sequence[Timed], session: Session, rules: GraphRules) -> list[list[Timed]]:
    conversations = split_agents(listed, session.blocks)
    return keep_overlapping(conversations) if rules.split_only_overlapping else conversations


def _joining_turn(main: Sequence[Timed], after: int | None, end: float) -> int | None:
    first = 0 if after is None else after + 1
    waiting = (turn for turn in range(first, len(main)) if main[turn].start_s + EPSILON_S >= end)
    return next(waiting, None)


def _branches(children: Iterable[_Child]) -> list[list[_Child]]:
    branches: dict[tuple[int | None, int | None], list[_Child]] = defaultdict(list)
    for child in children:
        branches[child.after, child.join].append(child)
    return list(branches.values())


# -- what turns wait for ---------------------------------------------------------------------------


def _spawn(
    main: Sequence[Timed], branch: Sequence[_Child], child: _Child, rules: GraphRules
) -> Spawn:
    """Return when ``child`` starts.

    Officially at the issue of the spawning turn where the branch's first spawn lies before its
    recorded end (which takes a recorded duration), and then as long after it as recorded; else
    at its live end, as long after it as the child started after the branch's first spawn.
    """
    first_s = child.requests[0].start_s
    if child.after is None:
        play_s = main[0].start_s if main else branch[0].requests[0].start_s
        return Spawn(None, at_issue=False, offset_s=max(0.0, first_s - play_s))
    parent = main[child.after]
    begun_s = child.spawn_s if rules.keep_spawn_waits else min(c.spawn_s for c in branch)
    after = TurnId(0, child.after)
    if recorded_duration_s(parent.request) > 0 and begun_s * 1000.0 < parent.end_ms:
        return Spawn(after, at_issue=True, offset_s=max(0.0, first_s - parent.start_s))
    from_s = parent.end_s if rules.keep_spawn_waits else begun_s
    return Spawn(after, at_issue=False, offset_s=max(0.0, first_s - from_s))


def _joins(
    main: Sequence[Timed], children: Sequence[_Child], rules: GraphRules
) -> dict[int, tuple[Join, ...]]:
    """Return the joins of each main turn that has any; ``children[i]`` is conversation i + 1."""
    joins: dict[int, tuple[Join, ...]] = {}
    for index, child in enumerate(children, start=1):
        if child.join is not None:
            pause_s = main[child.join].start_s - child.end_s if rules.keep_join_pauses else 0.0
            join = Join(index, max(0.0, pause_s))
            joins[child.join] = (*joins.get(child.join, ()), join)
    return joins


def _order(
    conversations: Sequence[tuple[int, Sequence[Timed]]],
) -> list[list[tuple[TurnId, ...]]]:
    """Return, by conversation and turn, the turns of other conversations of its scope that had
    ended.
    """
    scopes: dict[int, list[int]] = defaultdict(list)
    for index, (scope, _) in enumerate(conversations):
        scopes[scope].append(index)
    after: list[list[tuple[TurnId, ...]]] = [[] for _ in conversations]
    for members in scopes.values():
        edges = ended_before([conversations[index][1] for index in members])
        for index, turns in zip(members, edges, strict=True):
            after[index] = [
                tuple(TurnId(members[each.conversation], each.number) for each in before)
                for before in turns
            ]
    return after


def _list_predecessors(session: Session) -> dict[int, int]:
    """Return, by request index, the request before it in its list (a session's or a subagent's)."""
    lists = request_lists(session.entries)
    return {after.index: before.index for each in lists for before, after in pairwise(each)}


def _turns(
    requests: Sequence[Timed],
    after: Sequence[tuple[TurnId, ...]],
    joins: dict[int, tuple[Join, ...]],
    predecessors: dict[int, int],
    rules: GraphRules,
) -> tuple[Turn, ...]:
    turns = []
    for turn, item in enumerate(requests):
        gap_s = 0.0
        if turn:
            before = requests[turn - 1]
            listed = predecessors.get(item.request.index) == before.request.index
            gap_s = _gap_s(before, item, use_think_time=rules.think_time_gaps and listed)
        turns.append(
            Turn(item.request, item.start_s, item.end_s, gap_s, joins.get(turn, ()), after[turn])
        )
    return tuple(turns)


def _gap_s(before: Timed, item: Timed, *, use_think_time: bool) -> float:
    """Return the gap from the live end of ``before``, never negative.

    A recorded think time counts from the last request of the list whose duration is known. It is
    the gap only where that is ``before``: elsewhere it would count recorded service time, or
    whole turns, as thinking.
    """
    think_s = item.request.think_time_s
    if use_think_time and think_s is not None and before.request.duration_s is not None:
        return max(0.0, think_s)
    return max(0.0, item.start_s - before.end_s)

"""One play: which turn of a session tree is due when, as requests are issued and end.

A pure state machine. It has no clock and sends nothing: it is told instants and answers with the
turns that became due. Instants are ns in the play's own time, in which what idle caps skipped has
been added; the machine only compares them and adds recorded gaps.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from agentx_replay.plan.graph import SessionGraph, Spawn, Turn, TurnId
from agentx_replay.plan.start import StartPosition
from agentx_replay.units import NS_PER_S

_LONG_AGO_NS = -(1 << 62)


class Due(NamedTuple):
    """A turn that nothing holds any more, and the earliest instant at which it may be issued."""

    turn: TurnId
    due_ns: int


class Head(NamedTuple):
    """The next unsent turn of a live conversation: whether a join, or anything, holds it."""

    turn: TurnId
    joining: bool
    blocked: bool


def _ns(seconds: float) -> int:
    return round(seconds * NS_PER_S)


@dataclass(slots=True)
class _ConversationState:
    """Where one conversation stands. ``ended`` counts its turns that ended or were given up."""

    next_turn: int
    ended: int
    live: bool
    due_ns: int = 0
    gates: int = 0
    open_joins: int = 0
    open_children: int = 0
    drained_ns: int | None = None


class Play:
    """The turns of one session tree, released as their predecessors end.

    Every call that may release turns returns them in a fixed order; the caller issues each at or
    after its instant and reports ``issued`` and later ``ended``.
    """

    __slots__ = ("_conversations", "_graph", "_join_waiters", "_order_waiters")

    def __init__(self, graph: SessionGraph, start: StartPosition) -> None:
        self._graph = graph
        self._conversations = [
            _ConversationState(turn, turn, live)
            for turn, live in zip(start.turns, start.live, strict=True)
        ]
        self._join_waiters: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._order_waiters: dict[TurnId, list[int]] = defaultdict(list)
        for conversation in range(1, len(self._conversations)):
            self._conversations[graph.parent(conversation)].open_children += 1
        for conversation in range(len(self._conversations)):
            self._drain_if_over(conversation, _LONG_AGO_NS, [])

    # -- questions ---------------------------------------------------------------------------

    @property
    def drained(self) -> bool:
        """Whether the whole tree has ended."""
        return self._conversations[0].drained_ns is not None

    def turn(self, turn: TurnId) -> Turn:
        """Return the graph's turn."""
        return self._graph.conversations[turn.conversation].turns[turn.number]

    def heads(self) -> list[Head]:
        """Return the next unsent turn of each live conversation that has one left."""
        return [
            Head(TurnId(index, state.next_turn), state.open_joins > 0, state.gates > 0)
            for index, state in enumerate(self._conversations)
            if state.live and state.next_turn < self._length(index) and self._is_idle(state)
        ]

    def conversation_over(self, conversation: int) -> bool:
        """Whether no further turn of ``conversation`` will be issued."""
        return self._conversations[conversation].ended >= self._length(conversation)

    # -- events ------------------------------------------------------------------------------

    def start(self, now_ns: int) -> list[Due]:
        """Begin: release the head of every live conversation, due now (a first play's resume sets
        more).

        A conversation that starts with the play starts ``offset_s`` after it.
        """
        due: list[Due] = []
        for index, state in enumerate(self._conversations):
            if state.live and state.next_turn < self._length(index):
                spawn = self._graph.conversations[index].spawn
                fresh_child = spawn is not None and state.next_turn == 0
                offset_ns = _ns(spawn.offset_s) if spawn is not None and fresh_child else 0
                self._arm(index, now_ns + offset_ns, now_ns, due)
        return due

    def resume(self, due_ns: dict[TurnId, int], now_ns: int) -> list[Due]:
        """Give the heads new instants (the start of the window); return those nothing holds."""
        due: list[Due] = []
        for head in self.heads():
            state = self._conversations[head.turn.conversation]
            state.due_ns = due_ns[head.turn]
            if not head.blocked:
                due.append(Due(head.turn, max(state.due_ns, now_ns)))
        return due

    def issued(self, turn: TurnId, now_ns: int) -> list[Due]:
        """``turn`` was sent: spawn the children that start with it."""
        due: list[Due] = []
        self._conversations[turn.conversation].next_turn = turn.number + 1
        for child, spawn in self._graph.spawned.get(turn, ()):
            if spawn.at_issue:
                self._spawn(child, spawn, now_ns, due)
        return due

    def ended(self, turn: TurnId, now_ns: int) -> list[Due]:
        """``turn`` ended, in whatever way: spawn, go on, and release what waited for it."""
        due: list[Due] = []
        state = self._conversations[turn.conversation]
        state.ended = turn.number + 1
        for child, spawn in self._graph.spawned.get(turn, ()):
            if not spawn.at_issue:
                self._spawn(child, spawn, now_ns, due)
        if state.next_turn < self._length(turn.conversation):
            gap_ns = _ns(self.turn(TurnId(turn.conversation, state.next_turn)).gap_s)
            self._arm(turn.conversation, now_ns + gap_ns, now_ns, due)
        self._release_order(turn, now_ns, due)
        self._drain_if_over(turn.conversation, now_ns, due)
        return due

    def give_up(self, conversation: int, now_ns: int) -> list[Due]:
        """No further turn of ``conversation`` will be sent (context overflow): the rest counts as
        ended.

        Children that its remaining turns would have spawned never start, and count as drained.
        """
        due: list[Due] = []
        self._abandon(conversation, now_ns, due)
        return due

    # -- mechanism ---------------------------------------------------------------------------

    def _length(self, conversation: int) -> int:
        return len(self._graph.conversations[conversation].turns)

    @staticmethod
    def _is_idle(state: _ConversationState) -> bool:
        return state.ended == state.next_turn

    def _spawn(self, child: int, spawn: Spawn, now_ns: int, due: list[Due]) -> None:
        state = self._conversations[child]
        if state.live:
            return
        state.live = True
        if state.next_turn < self._length(child):
            gap_ns = _ns(self.turn(TurnId(child, state.next_turn)).gap_s)
            self._arm(child, now_ns + _ns(spawn.offset_s) + gap_ns, now_ns, due)
        self._drain_if_over(child, now_ns, due)

    def _arm(self, conversation: int, due_ns: int, now_ns: int, due: list[Due]) -> None:
        """Make the conversation's next turn wait for its instant, its joins and its order."""
        state = self._conversations[conversation]
        turn = self.turn(TurnId(conversation, state.next_turn))
        state.due_ns = due_ns
        state.gates = state.open_joins = 0
        for join in turn.joins:
            drained_ns = self._conversations[join.conversation].drained_ns
            pause_ns = _ns(join.pause_s)
            if drained_ns is None:
                state.gates += 1
                state.open_joins += 1
                self._join_waiters[join.conversation].append((conversation, pause_ns))
            else:
                state.due_ns = max(state.due_ns, drained_ns + pause_ns)
        for other in turn.after:
            if self._conversations[other.conversation].ended <= other.number:
                state.gates += 1
                self._order_waiters[other].append(conversation)
        if not state.gates:
            due.append(Due(TurnId(conversation, state.next_turn), max(state.due_ns, now_ns)))

    def _open_gate(self, conversation: int, now_ns: int, due: list[Due]) -> None:
        state = self._conversations[conversation]
        if self.conversation_over(conversation):
            return
        state.gates -= 1
        if not state.gates:
            due.append(Due(TurnId(conversation, state.next_turn), max(state.due_ns, now_ns)))

    def _release_order(self, turn: TurnId, now_ns: int, due: list[Due]) -> None:
        for waiting in self._order_waiters.pop(turn, ()):
            self._open_gate(waiting, now_ns, due)

    def _drain_if_over(self, conversation: int, now_ns: int, due: list[Due]) -> None:
        """Mark the conversation drained when it and all it spawned are over, and tell who waits."""
        state = self._conversations[conversation]
        if (
            state.drained_ns is not None
            or state.open_children
            or not self.conversation_over(conversation)
        ):
            return
        state.drained_ns = now_ns
        for waiting, pause_ns in self._join_waiters.pop(conversation, ()):
            waiter = self._conversations[waiting]
            waiter.due_ns = max(waiter.due_ns, now_ns + pause_ns)
            waiter.open_joins -= 1
            self._open_gate(waiting, now_ns, due)
        if conversation:
            parent = self._graph.parent(conversation)
            self._conversations[parent].open_children -= 1
            self._drain_if_over(parent, now_ns, due)

    def _abandon(self, conversation: int, now_ns: int, due: list[Due]) -> None:
        state = self._conversations[conversation]
        first, length = state.ended, self._length(conversation)
        state.live = True
        state.ended = state.next_turn = length
        for number in range(first, length):
            turn = TurnId(conversation, number)
            for child, _ in self._graph.spawned.get(turn, ()):
                if not self._conversations[child].live:
                    self._abandon(child, now_ns, due)
            self._release_order(turn, now_ns, due)
        self._drain_if_over(conversation, now_ns, due)

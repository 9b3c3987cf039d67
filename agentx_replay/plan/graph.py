"""A session as it will be replayed: conversations of turns, and what each turn waits for.

How a recording becomes one (spawn times, flattened agents, joins, order across conversations) is in
``conversations.py``.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from agentx_replay.traces.model import RecordedRequest


class TurnId(NamedTuple):
    """A turn by its conversation's index in the session and its number in the conversation."""

    conversation: int
    number: int


@dataclass(frozen=True, slots=True)
class Join:
    """A child conversation, and all it spawned, that must have drained before a turn may fire.

    ``pause_s`` is what is waited after the child's live end (0 where the rules say so).
    """

    conversation: int
    pause_s: float


@dataclass(frozen=True, slots=True)
class Turn:
    """One request in its conversation.

    ``start_s`` and ``end_s`` are recorded seconds from the session's zero under the rules the
    graph was built with. ``gap_s`` (never negative) counts from the predecessor's live end; for a
    conversation's first turn it counts from the spawn. ``after`` are turns of other conversations
    that must have ended, whatever their outcome; no gap is added after them.
    """

    request: RecordedRequest
    start_s: float
    end_s: float
    gap_s: float
    joins: tuple[Join, ...] = ()
    after: tuple[TurnId, ...] = ()


@dataclass(frozen=True, slots=True)
class Spawn:
    """When a child conversation starts: at the issue or the live end of a turn, plus ``offset_s``.

    ``after`` is None where the conversation starts with the play.
    """

    after: TurnId | None
    at_issue: bool
    offset_s: float


@dataclass(frozen=True, slots=True)
class Conversation:
    """A chain of requests. ``name`` is ``main``, ``sa:<agent id>`` (a subagent's) or ``fa:<n>``
    (a flattened agent's), with the inner chain's name appended for a subagent's own flattened
    conversations. ``spawn`` is None for the main conversation. ``background`` means nothing waits
    for it.
    """

    index: int
    name: str
    turns: tuple[Turn, ...]
    spawn: Spawn | None
    background: bool


@dataclass(frozen=True)
class SessionGraph:
    """All conversations of one session; ``conversations[0]`` is the main one.

    ``dropped_requests`` counts recorded requests that the rules leave out, with the reason in
    ``drop_reason`` (empty where none is).
    """

    session_id: str
    conversations: tuple[Conversation, ...]
    dropped_requests: int = 0
    drop_reason: str = ""

    @cached_property
    def spawned(self) -> Mapping[TurnId, list[tuple[int, Spawn]]]:
        """The conversations that each turn starts, by index."""
        by_step: dict[TurnId, list[tuple[int, Spawn]]] = defaultdict(list)
        for conversation in self.conversations:
            if conversation.spawn is not None and conversation.spawn.after is not None:
                by_step[conversation.spawn.after].append((conversation.index, conversation.spawn))
        return dict(by_step)

    def parent(self, conversation: int) -> int:
        """Return the conversation that a child drains into: the main one if it starts with the
        play.
        """
        spawn = self.conversations[conversation].spawn
        return 0 if spawn is None or spawn.after is None else spawn.after.conversation


@dataclass(frozen=True, slots=True)
class GraphRules:
    """How a recording is read, the official way or corrected (the ``[faithful]`` marks).

    ``corrected_spawns``: a marker's ``t`` may be its completion; else it is read as the spawn.
    ``think_time_gaps``: a request's recorded think time is its gap where there is one.
    ``keep_join_pauses``: the recorded pause after a join is kept. ``keep_spawn_waits``: so is the
    wait from the spawning request's end. ``keep_early_markers``: a marker before every main
    request is spawned at the play's start, not dropped. ``split_only_overlapping``: flattened
    agents are pulled apart only where conversations truly overlap in time.
    """

    corrected_spawns: bool = False
    think_time_gaps: bool = False
    keep_join_pauses: bool = False
    keep_spawn_waits: bool = False
    keep_early_markers: bool = False
    split_only_overlapping: bool = False


OFFICIAL = GraphRules()
"""What the official harness does."""

FAITHFUL = GraphRules(
    corrected_spawns=True,
    think_time_gaps=True,
    keep_join_pauses=True,
    keep_spawn_waits=True,
    keep_early_markers=True,
    split_only_overlapping=True,
)
"""The official way with its replay errors corrected."""

RULES_BY_READING = {"official": OFFICIAL, "faithful": FAITHFUL}
"""The rules of each ``reading`` a scenario can name."""

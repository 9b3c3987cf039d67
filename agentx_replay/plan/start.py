"""Where a lane's first play starts: t*, and what lies before and after it.

Later plays start at request 0. Nothing here depends on a clock or a server.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from agentx_replay.plan.graph import Conversation, SessionGraph, TurnId


@dataclass(frozen=True, slots=True)
class Primer:
    """A turn sent once before the rest, whole prompt and one output token, to fill the cache.

    ``lead_s`` is how long before t* it fires.
    """

    turn: TurnId
    lead_s: float


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where each conversation of a play starts.

    ``turns[s]`` is conversation s's first turn to send (its length where it is over), ``live[s]``
    whether it had been spawned. ``t_star_s`` is None for a play that starts at the beginning.
    """

    turns: tuple[int, ...]
    live: tuple[bool, ...]
    primers: tuple[Primer, ...] = ()
    t_star_s: float | None = None


def t_star_s(graph: SessionGraph, *, seed: int, lane: int, fraction: tuple[float, float]) -> float:
    """Return t*, in recorded seconds: the official formula.

    ``fraction`` of the span from the first to the last recorded request *start* of the whole
    tree bounds it; the draw depends on seed, session and lane alone (agentx-harness 1.0.12,
    verified against the lanes of a recorded run).
    """
    digest = hashlib.sha256(f"{seed}:{graph.session_id}:{lane}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    starts_s = [turn.start_s for conversation in graph.conversations for turn in conversation.turns]
    first_s, span_s = min(starts_s), max(starts_s) - min(starts_s)
    return float(rng.uniform(first_s + fraction[0] * span_s, first_s + fraction[1] * span_s))


def from_the_beginning(graph: SessionGraph) -> StartPosition:
    """Return the start of a recycled play: request 0, and what starts with the play."""
    return StartPosition(
        turns=(0,) * len(graph.conversations),
        live=tuple(
            conversation.spawn is None or conversation.spawn.after is None
            for conversation in graph.conversations
        ),
    )


def from_t_star(graph: SessionGraph, t_star: float, *, primer_lead_s: float) -> StartPosition:
    """Return the start at ``t_star``: each conversation at its first request that starts at or
    after it.

    A conversation with a request before t* and one left is primed with its last request before t*.
    A child whose spawning turn lies before t* is live, even if it has not started.
    """
    turns = tuple(_first_turn_from(conversation, t_star) for conversation in graph.conversations)
    primers = tuple(
        Primer(
            TurnId(conversation.index, turn - 1),
            min(t_star - conversation.turns[turn - 1].start_s, primer_lead_s),
        )
        for conversation, turn in zip(graph.conversations, turns, strict=True)
        if 0 < turn < len(conversation.turns)
    )
    return StartPosition(
        turns=turns,
        live=tuple(
            _is_live(graph, turns, conversation) for conversation in range(len(graph.conversations))
        ),
        primers=primers,
        t_star_s=t_star,
    )


def _first_turn_from(conversation: Conversation, t_star: float) -> int:
    """Return the first turn that starts at or after t*; a conversation need not be in order of
    time.
    """
    numbers = (number for number, turn in enumerate(conversation.turns) if turn.start_s >= t_star)
    return next(numbers, len(conversation.turns))


def _is_live(graph: SessionGraph, turns: tuple[int, ...], conversation: int) -> bool:
    spawn = graph.conversations[conversation].spawn
    if spawn is None or spawn.after is None or turns[conversation] > 0:
        return True
    return spawn.after.number < turns[spawn.after.conversation]

"""The recorded order across conversations that run side by side: who had ended when a request
started.

A request waits until the latest request of every other conversation that had *ended* by its
recorded start has ended live too. Order within a conversation is the conversation itself and not
said again. The rule is that of agentx-harness 1.0.12, which compares in milliseconds; so does this,
so that instants which touch fall the same way.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from agentx_replay.plan.graph import TurnId
from agentx_replay.plan.times import Timed


class _Interval(NamedTuple):
    """One request's recorded time on the wire. Sorts by end, then start, then turn."""

    end_ms: float
    start_ms: float
    turn: int


def ended_before(conversations: Sequence[Sequence[Timed]]) -> list[list[tuple[TurnId, ...]]]:
    """Return, for each request of each conversation, the turns of other conversations it waits for.

    ``TurnId.conversation`` is the position in ``conversations``. Requests that overlap are not
    ordered, nor are two that start together; one that starts just as another ends is. An edge that
    follows from another edge of the same request is left out.
    """
    timelines = [_timeline(conversation) for conversation in conversations]
    by_end = [sorted(timeline) for timeline in timelines]
    return [
        [_frontier(own, interval.start_ms, by_end) for interval in timeline]
        for own, timeline in enumerate(timelines)
    ]


def _timeline(conversation: Sequence[Timed]) -> list[_Interval]:
    return [_Interval(item.end_ms, item.start_ms, turn) for turn, item in enumerate(conversation)]


def _frontier(own: int, at_ms: float, by_end: Sequence[Sequence[_Interval]]) -> tuple[TurnId, ...]:
    latest = [
        (conversation, last)
        for conversation, intervals in enumerate(by_end)
        if conversation != own and (last := _latest_ended(intervals, at_ms)) is not None
    ]
    newest_ms = max((last.start_ms for _, last in latest), default=0.0)
    return tuple(
        TurnId(conversation, last.turn)
        for conversation, last in latest
        if last.end_ms > newest_ms or last.start_ms == newest_ms
    )


def _latest_ended(intervals: Sequence[_Interval], at_ms: float) -> _Interval | None:
    """Return the last interval that ended by ``at_ms`` and began before it."""
    place = bisect_right(intervals, _Interval(at_ms, float("inf"), 0))
    while place and intervals[place - 1].start_ms >= at_ms:
        place -= 1
    return intervals[place - 1] if place else None

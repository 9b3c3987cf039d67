"""Pending requests in the order they are due, which idle caps can move together.

A timer's instant is kept in its group's own time, which runs ahead of wall time by what was
skipped for everybody plus what was skipped for the group. A common shift is then one addition,
whatever the number of timers; a group's shift re-files that group's few timers.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

from agentx_replay.replay.ports import Clock, TimerHandle

_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class TimerGroup(Generic[_T]):
    """Timers that move together: one session tree. ``skipped_ns`` is what its own cap skipped."""

    skipped_ns: int = 0
    pending: set["Timer[_T]"] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Timer(Generic[_T]):
    """One pending call. ``due_ns`` is in the group's time; ``entry`` its live heap entry;
    ``foreseen`` whether ``foresee`` has told it.
    """

    group: TimerGroup[_T]
    due_ns: int
    payload: _T
    entry: int
    foreseen: bool = False


class Alarm:
    """At most one call of ``call`` pending on a clock, at the earliest instant asked for."""

    def __init__(self, clock: Clock, call: Callable[[], None]) -> None:
        self._clock = clock
        self._call = call
        self._handle: TimerHandle | None = None
        self._at_ns = 0

    def by(self, at_ns: int | None) -> None:
        """Have the call made at ``at_ns`` or before; None asks for nothing."""
        if at_ns is None or (self._handle is not None and self._at_ns <= at_ns):
            return
        self.cancel()
        self._at_ns = at_ns
        self._handle = self._clock.call_at(at_ns, self._ring)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None

    def _ring(self) -> None:
        self._handle = None
        self._call()


_Heap = list[tuple[int, int, Timer[_T]]]


class TimerQueue(Generic[_T]):
    """Timers by due time, ties in the order they were added.

    A second heap holds those that ``foresee`` has not told yet, so that both questions, what is
    due and what will be soon, cost the same for any number of timers.
    """

    def __init__(self) -> None:
        self.skipped_ns = 0
        self._heap: _Heap[_T] = []
        self._unforeseen: _Heap[_T] = []
        self._entries = count()

    def group_time_ns(self, group: TimerGroup[_T], wall_ns: int) -> int:
        """Return wall time in the group's own time."""
        return wall_ns + self.skipped_ns + group.skipped_ns

    def add(self, group: TimerGroup[_T], due_ns: int, payload: _T) -> Timer[_T]:
        """File ``payload`` at ``due_ns`` of the group's time."""
        timer = Timer(group, due_ns, payload, next(self._entries))
        group.pending.add(timer)
        self._file(timer)
        return timer

    def _file(self, timer: Timer[_T]) -> None:
        entry = (timer.due_ns - timer.group.skipped_ns, timer.entry, timer)
        heapq.heappush(self._heap, entry)
        if not timer.foreseen:
            heapq.heappush(self._unforeseen, entry)

    def _first_due_ns(self, heap: _Heap[_T]) -> int | None:
        """Return the wall time at which a heap's first timer is due; drop stale entries."""
        while heap and heap[0][1] != heap[0][2].entry:
            heapq.heappop(heap)
        return heap[0][0] - self.skipped_ns if heap else None

    def next_due_ns(self) -> int | None:
        """Return the wall time at which the next timer is due, None where there is none."""
        return self._first_due_ns(self._heap)

    def next_unforeseen_ns(self) -> int | None:
        """Return when the next timer that ``foresee`` has not told is due."""
        return self._first_due_ns(self._unforeseen)

    def foresee(self, until_ns: int) -> tuple[int, _T] | None:
        """Tell the next timer that is due by ``until_ns``, each timer once; it stays pending.

        Returns its due wall time, as far as is known now, and its payload.
        """
        due_ns = self.next_unforeseen_ns()
        if due_ns is None or due_ns > until_ns:
            return None
        timer = heapq.heappop(self._unforeseen)[2]
        timer.foreseen = True
        return due_ns, timer.payload

    def pop_due(self, now_ns: int) -> tuple[int, _T] | None:
        """Take the next timer if it is due by ``now_ns``; return its due wall time and payload."""
        due_ns = self.next_due_ns()
        if due_ns is None or due_ns > now_ns:
            return None
        timer = heapq.heappop(self._heap)[2]
        timer.group.pending.discard(timer)
        timer.entry = -1
        return due_ns, timer.payload

    def skip(self, shift_ns: int) -> None:
        self.skipped_ns += shift_ns

    def group_next_due_ns(self, group: TimerGroup[_T]) -> int | None:
        """Return the wall time at which the group's next timer is due."""
        if not group.pending:
            return None
        return min(t.due_ns for t in group.pending) - self.skipped_ns - group.skipped_ns

    def skip_group(self, group: TimerGroup[_T], shift_ns: int) -> None:
        group.skipped_ns += shift_ns
        for timer in sorted(group.pending, key=lambda t: t.entry):
            timer.entry = next(self._entries)
            self._file(timer)

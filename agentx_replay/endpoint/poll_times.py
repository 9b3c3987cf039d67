"""Between which instants an event loop has looked at its sockets, and what the wall clock said.

A tick every 2 ms while responses are due, also while none comes: a first token is bounded by it.
Between two ticks the loop has polled all its sockets and handled what it found, so what is read
after a tick arrived after the tick before it: had it come sooner, it would have been read. That
bounds every timestamp from below, whoever took it. The ticks also hold the wall clock, which the
kernel stamps with, against the monotonic one, which everything else is measured with.
"""

import asyncio
import time
from dataclasses import dataclass

MAX_STEP_NS = 100_000
"""By which the two clocks may be apart and not count as stepped."""

LATE_NS = 6_000_000
"""Two ticks and half as much again: a loop that took longer was busy, or held up."""

SLACK_NS = 2_000_000
"""A timer comes up to a millisecond late by itself: loops count whole ones."""

_TICK_NS = 2_000_000
_SURE_NS = 20_000


@dataclass(slots=True, eq=False)
class PollInterval:
    """The time from one tick to the next; filled in as the next one comes.

    What is read in it arrived after ``floor_ns``, the tick before ``start_ns``. ``end_ns`` is when
    it ended, None where it has not. ``offset_ns`` turns the wall clock into the monotonic one, and
    where the wall clock was set about then is off by up to ``step_ns``, always to the late side.
    """

    floor_ns: int
    offset_ns: int
    end_ns: int | None = None
    step_ns: int = 0
    start_ns: int | None = None

    @property
    def late_ns(self) -> int:
        """By how much the ticks at its two ends were late, together."""
        start_ns = self.floor_ns if self.start_ns is None else self.start_ns
        end_ns = self.end_ns if self.end_ns is not None else time.monotonic_ns()
        return max(0, start_ns - self.floor_ns - _TICK_NS) + max(0, end_ns - start_ns - _TICK_NS)

    @property
    def prompt(self) -> bool:
        """Whether the loop looked at its sockets when it should have, before and after."""
        end_ns = self.end_ns if self.end_ns is not None else time.monotonic_ns()
        return end_ns - self.floor_ns <= LATE_NS


class PollTimes:
    """Ticks of one event loop, while anybody needs them: ``begin`` and ``end`` come in pairs.

    ``late_ns`` is by how much ticks have been late, all together.
    """

    __slots__ = ("_due_ns", "_handle", "_loop", "_offset_ns", "_ticked_ns",
                 "_users", "interval", "late_ns")  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._users = 0
        self._handle: asyncio.TimerHandle | None = None
        self._due_ns = self._ticked_ns = time.monotonic_ns()
        self._offset_ns = clock_offset_ns(samples=1000) or 0
        self.late_ns = 0
        self.interval = PollInterval(self._ticked_ns, self._offset_ns)

    def begin(self) -> None:
        """Tick from now on."""
        self._users += 1
        if self._handle is None:
            now_ns = time.monotonic_ns()
            self._next(now_ns, floor_ns=now_ns)

    def end(self) -> None:
        """Say that one user less needs ticks."""
        self._users -= 1

    def late_by_ns(self) -> int:
        """Return by how much ticks have been late, with the one that is due now."""
        return self.late_ns + max(0, time.monotonic_ns() - self._due_ns - SLACK_NS)

    def _tick(self) -> None:
        now_ns = time.monotonic_ns()
        self.late_ns += max(0, now_ns - self._due_ns - SLACK_NS)
        if self._users:
            self._next(now_ns, floor_ns=self._ticked_ns)
        else:
            self._handle = None
            self.interval.end_ns = now_ns

    def _next(self, now_ns: int, floor_ns: int) -> None:
        last = self.interval
        last.end_ns = now_ns
        self.interval = PollInterval(floor_ns, self._offset_ns, start_ns=now_ns)
        offset_ns = clock_offset_ns()
        if offset_ns is not None and abs(offset_ns - self._offset_ns) > MAX_STEP_NS:
            # What is read after a step may have been stamped before it: late is right, early never.
            step_ns = abs(offset_ns - self._offset_ns)
            for interval in (last, self.interval):
                interval.offset_ns = min(offset_ns, self._offset_ns)
                interval.step_ns = step_ns
            self._offset_ns = offset_ns
        self._ticked_ns = now_ns
        self._due_ns = now_ns + _TICK_NS
        self._handle = self._loop.call_later(_TICK_NS / 1e9, self._tick)


def clock_offset_ns(samples: int = 3) -> int | None:
    """Return how far the wall clock is ahead of the monotonic one, within 20 µs; None where this
    process was held up each time that it looked.
    """
    for _ in range(samples):
        before_ns, wall_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if after_ns - before_ns <= _SURE_NS:
            return wall_ns - (before_ns + after_ns) // 2
    return None

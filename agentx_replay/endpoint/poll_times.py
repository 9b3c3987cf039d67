"""When an event loop has polled its sockets, and how far the wall clock is ahead meanwhile.

A tick is recorded at most once in a turn of the loop, so the loop polls between any two: what is
read after a tick arrived after the tick before it, or it would have been read then. That bounds
every timestamp from below, whoever took it. The ticks also compare the wall clock, which the kernel
stamps with, to the monotonic clock, which everything else is measured with.
"""

import asyncio
import time
from array import array
from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from agentx_replay.units import NS_PER_S

TICK_NS = 2_000_000
_SPARSE_TICK_NS = 50_000_000
_BUSY = 128
"""With more responses in flight, and all of them begun, timers are sparse: each that wakes an idle
process costs as much CPU as reading three tokens, and reads ask for ticks themselves.
"""

MAX_STEP_NS = 100_000
"""By which the two clocks may be apart and not count as stepped."""

LATE_NS = 6_000_000
"""Two ticks and half as much again: a loop that took longer was busy, or held up."""

SLACK_NS = 2_000_000
"""A timer comes up to a millisecond late by itself: loops count whole ones."""

_SURE_NS = 20_000
_MOST_TICKS = 1 << 18
"""Eight minutes of them: what came earlier has a lower bound that is less close."""

Times = NDArray[np.int64]


class PollTimes:
    """Ticks of one event loop while requests are in flight: for each ``begin``, ``begun`` as its
    response begins, and ``end``.

    ``sparse`` allows for fewer timers where many responses are in flight. ``late_ns`` is by how
    much timers have been late, all together.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, sparse: bool) -> None:
        self._loop = loop
        self._most_dense = _BUSY if sparse else 1 << 60
        self._in_flight = self._awaited = 0
        self._timer: asyncio.TimerHandle | None = None
        self._period_ns = self._due_ns = 0
        self._asked = False
        self._ticks = array("q")
        self._offsets: list[tuple[int, int]] = [(0, clock_offset_ns(samples=1000) or 0)]
        self.late_ns = 0

    @property
    def offset_ns(self) -> int:
        """How far the wall clock is ahead of the monotonic one."""
        return self._offsets[-1][1]

    def begin(self) -> None:
        self._in_flight += 1
        self._awaited += 1
        if self._period_ns != TICK_NS:
            self._arm()

    def begun(self) -> None:
        self._awaited -= 1

    def end(self) -> None:
        self._in_flight -= 1

    def late_by_ns(self) -> int:
        """Return by how much timers have been late, with the one that is due now."""
        now_ns = time.monotonic_ns()
        return self.late_ns + (max(0, now_ns - self._due_ns - SLACK_NS) if self._period_ns else 0)

    def ask(self) -> None:
        """Have a tick recorded in the next turn of the loop."""
        if not self._asked:
            self._asked = True
            self._loop.call_soon(self._tick)

    def ticks_ns(self, since_ns: int, until_ns: int | None = None) -> Times:
        """Return the ticks since an instant, up to another, and now as the last."""
        until = len(self._ticks) if until_ns is None else bisect_left(self._ticks, until_ns)
        ticks = self._ticks[bisect_left(self._ticks, since_ns) : until]
        ticks.append(time.monotonic_ns())
        return np.array(ticks, np.int64)

    def offset_since(self, since_ns: int) -> tuple[int, int]:
        """Return the offset that turns stamps into times that are late, if wrong, and by how much
        they may be late: 0 unless the wall clock was set after an instant.
        """
        self._compare_clocks()
        seen = [offset_ns for until_ns, offset_ns in self._offsets[:-1] if until_ns >= since_ns]
        seen.append(self.offset_ns)
        return min(seen), max(seen) - min(seen)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        dense = self._awaited or self._in_flight <= self._most_dense
        self._period_ns = TICK_NS if dense else _SPARSE_TICK_NS
        self._due_ns = time.monotonic_ns() + self._period_ns
        self._timer = self._loop.call_later(self._period_ns / NS_PER_S, self._wake)

    def _wake(self) -> None:
        self.late_ns += max(0, time.monotonic_ns() - self._due_ns - SLACK_NS)
        self._timer, self._period_ns = None, 0
        self._compare_clocks()
        self.ask()
        if self._in_flight:
            self._arm()

    def _tick(self) -> None:
        self._asked = False
        if len(self._ticks) == _MOST_TICKS:
            del self._ticks[: _MOST_TICKS // 2]
        self._ticks.append(time.monotonic_ns())

    def _compare_clocks(self) -> None:
        offset_ns = clock_offset_ns()
        if offset_ns is not None and abs(offset_ns - self.offset_ns) > MAX_STEP_NS:
            self._offsets[-1] = (time.monotonic_ns(), self.offset_ns)
            self._offsets.append((0, offset_ns))


def clock_offset_ns(samples: int = 3) -> int | None:
    """Return how far the wall clock is ahead of the monotonic one, within 20 µs; None where this
    process was held up each time that it looked.
    """
    for _ in range(samples):
        before_ns, wall_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if after_ns - before_ns <= _SURE_NS:
            return wall_ns - (before_ns + after_ns) // 2
    return None

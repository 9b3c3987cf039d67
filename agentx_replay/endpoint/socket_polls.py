"""Reads sockets as bytes come, knows when it looked, and how far ahead the wall clock is meanwhile.

A tick is recorded before a poll of all sockets, and every poll reads what it finds: what is read
after a tick arrived after the tick before it. That bounds every timestamp from below, whoever took
it. Where the kernel stamps and many responses are in flight, one poll a millisecond reads what has
come on all of them: to wake for each token costs more than to read it, and moves no timestamp.
The ticks also compare the wall clock, which the kernel stamps with, to the monotonic clock, which
everything else is measured with. Not for: what a read is (stamped_socket.py).
"""

import asyncio
import select
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from agentx_replay.units import NS_PER_S

TICK_NS = 2_000_000
_SPARSE_TICK_NS = 50_000_000
_GATHER_NS = 1_000_000
_FEW = 64
"""With more responses in flight, sockets are polled by the millisecond, and nothing wakes the loop
between. With more, and all of them begun, timers are sparse while nothing comes: each that wakes
an idle process costs as much CPU as reading three tokens.
"""

MAX_STEP_NS = 100_000
"""By which the two clocks may be apart and not count as stepped."""

LATE_NS = 6_000_000
"""Two ticks and half as much again: a loop that took longer was busy, or held up."""

SLACK_NS = 2_000_000
"""A timer comes up to a millisecond late by itself: loops count whole ones."""

_SURE_NS = 20_000
_MOST_TICKS = 1 << 18
"""Four minutes of them or more: what came earlier has a lower bound that is less close."""

Times = NDArray[np.int64]


class SocketPolls:
    """Reads the sockets of one event loop: ``add`` each with what reads it, and ``remove`` it.

    A timer makes polls while requests are in flight: for each ``begin``, ``begun`` as its response
    begins, and ``end``. ``gathers`` allows for fewer of them where many responses are in flight.
    ``late_ns`` is by how much timers have been late, all together. Where there is no epoll, the
    loop polls by itself, between any two timers.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, gathers: bool) -> None:
        self._loop = loop
        self._few = _FEW if gathers else 1 << 60
        self._readers: dict[int, Callable[[], None]] = {}
        self._epoll: select.epoll | None = None
        self._gathering = False
        self._in_flight = self._awaited = 0
        self._timer: asyncio.TimerHandle | None = None
        self._period_ns = self._due_ns = 0
        self._ticks: Times = np.full(_MOST_TICKS, 0, np.int64)  # all at once: it never grows
        self._count = self._last_ns = 0
        self._offsets: list[tuple[int, int]] = [(0, clock_offset_ns(samples=1000) or 0)]
        self.late_ns = 0

    @property
    def sockets(self) -> int:
        return len(self._readers)

    @property
    def offset_ns(self) -> int:
        """How far the wall clock is ahead of the monotonic one."""
        return self._offsets[-1][1]

    # --- sockets ------------------------------------------------------------------------------

    def add(self, fd: int, read: Callable[[], None]) -> None:
        """Call ``read`` whenever bytes wait, the other side has closed, or has reset."""
        self._readers[fd] = read
        if not hasattr(select, "epoll"):
            self._loop.add_reader(fd, read)
            return
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._poll)
        self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        """Read a file no more; it may have been removed already. Call it before it is closed."""
        if self._readers.pop(fd, None) is None:
            return
        if self._epoll is None:
            self._loop.remove_reader(fd)
            return
        self._epoll.unregister(fd)
        if not self._readers:
            self._gather(False)
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _poll(self) -> None:
        now_ns = time.monotonic_ns()
        if now_ns - self._last_ns >= _GATHER_NS:
            if self._count == _MOST_TICKS:
                self._count = _MOST_TICKS // 2
                self._ticks[: self._count] = self._ticks[-self._count :]
            self._ticks[self._count] = self._last_ns = now_ns
            self._count += 1
        if self._epoll is None:
            return
        readers = self._readers
        ready = self._epoll.poll(0, len(readers))  # all that are: the next tick says so
        for fd, _ in ready:
            read = readers.get(fd)  # an earlier one may have closed it
            if read is not None:
                read()
        self._gather(bool(ready) and self._in_flight > self._few)

    def _gather(self, gathering: bool) -> None:
        """Have the loop wake as soon as bytes come, or not."""
        if gathering == self._gathering or self._epoll is None:
            return
        self._gathering = gathering
        if gathering:
            self._loop.remove_reader(self._epoll.fileno())
            self._arm()  # whoever made this poll: no other will be made but by the timer
        else:
            self._loop.add_reader(self._epoll.fileno(), self._poll)

    # --- ticks --------------------------------------------------------------------------------

    def begin(self) -> None:
        self._in_flight += 1
        self._awaited += 1
        if self._period_ns in (0, _SPARSE_TICK_NS):
            self._arm()

    def begun(self) -> None:
        self._awaited -= 1

    def end(self) -> None:
        self._in_flight -= 1

    def late_by_ns(self) -> int:
        """Return by how much timers have been late, with the one that is due now."""
        now_ns = time.monotonic_ns()
        return self.late_ns + (max(0, now_ns - self._due_ns - SLACK_NS) if self._period_ns else 0)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._gathering:
            self._period_ns = _GATHER_NS
        elif self._awaited or self._in_flight <= self._few:
            self._period_ns = TICK_NS
        else:
            self._period_ns = _SPARSE_TICK_NS
        self._due_ns = time.monotonic_ns() + self._period_ns
        self._timer = self._loop.call_later(self._period_ns / NS_PER_S, self._wake)

    def _wake(self) -> None:
        self.late_ns += max(0, time.monotonic_ns() - self._due_ns - SLACK_NS)
        self._timer, self._period_ns = None, 0
        self._compare_clocks()
        if self._in_flight:
            self._arm()
        self._poll()

    def ticks_ns(self, since_ns: int, until_ns: int | None = None) -> Times:
        """Return the ticks since an instant, up to another, and now as the last."""
        ticks = self._ticks[: self._count]
        until = self._count if until_ns is None else np.searchsorted(ticks, until_ns)
        return np.append(ticks[np.searchsorted(ticks, since_ns) : until], time.monotonic_ns())

    def offset_since(self, since_ns: int) -> tuple[int, int]:
        """Return the offset that turns stamps into times that are late, if wrong, and by how much
        they may be late: 0 unless the wall clock was set after an instant.
        """
        self._compare_clocks()
        seen = [offset_ns for until_ns, offset_ns in self._offsets[:-1] if until_ns >= since_ns]
        seen.append(self.offset_ns)
        return min(seen), max(seen) - min(seen)

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

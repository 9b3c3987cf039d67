"""Timers to the microsecond on any loop: one Linux timerfd, whose expiry wakes the loop's poll.

Event loops keep timers in whole milliseconds, which is an error of its own size in a send lag or
a loop lag. The kernel's timer is exact, on the very clock that stamps are taken from
(``CLOCK_MONOTONIC``), so what is left of a late call is the loop's own lateness.
"""

import asyncio
import ctypes
import heapq
import os
import time
from collections.abc import Callable
from itertools import count

from agentx_replay.units import NS_PER_S

_ABSOLUTE = 1
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


def kernel_has_timerfd() -> bool:
    """Whether this is a Linux with ``timerfd``."""
    return hasattr(ctypes.CDLL(None), "timerfd_create")


class _Instant(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


class _Setting(ctypes.Structure):
    _fields_ = (("interval", _Instant), ("value", _Instant))


class _Call:
    """A pending call; ``call`` is None once it was made or taken back."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None

    def make(self) -> None:
        """Make the call, unless it was taken back, if only by one of the same expiry."""
        call, self.call = self.call, None
        if call is not None:
            call()


class TimerFdClock:
    """The ``Clock`` port with exact timers. Close it when the loop has no more use for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._set_time = libc.timerfd_settime
        self._fd = libc.timerfd_create(time.CLOCK_MONOTONIC, _FLAGS)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        self._loop = loop
        self._heap: list[tuple[int, int, _Call]] = []
        self._entries = count()
        self._armed_ns: int | None = None
        self._setting = _Setting()  # made once: the first call after a wait finds cold caches
        self._setting_at = ctypes.byref(self._setting)
        self.now_ns = time.monotonic_ns
        loop.add_reader(self._fd, self._expired)

    def call_at(self, when_ns: int, call: Callable[[], None]) -> _Call:
        pending = _Call(call)
        heapq.heappush(self._heap, (when_ns, next(self._entries), pending))
        self._arm()
        return pending

    def close(self) -> None:
        """Take every call back and give the timer up."""
        self._heap.clear()
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _arm(self) -> None:
        heap = self._heap
        while heap and heap[0][2].call is None:
            heapq.heappop(heap)
        when_ns = heap[0][0] if heap else None
        if when_ns is None or when_ns == self._armed_ns:
            return
        self._armed_ns = when_ns
        # An instant of 0 would disarm the timer; the past fires at once.
        value = self._setting.value
        value.s, value.ns = divmod(max(when_ns, 1), NS_PER_S)
        if self._set_time(self._fd, _ABSOLUTE, self._setting_at, None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")

    def _expired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return
        self._armed_ns = None
        now_ns = self.now_ns()
        while self._heap and self._heap[0][0] <= now_ns:
            self._loop.call_soon(heapq.heappop(self._heap)[2].make)
        # After the calls, which may arrange for earlier ones: the timer is then set only once.
        self._loop.call_soon(self._arm)

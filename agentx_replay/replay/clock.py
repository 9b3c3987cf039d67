"""The clock of a run: monotonic ns, and timers that are never early.

Where the kernel offers exact timers a real run uses them (``timerfd.py``). Elsewhere, and in
virtual time, the loop's own serve: too coarse for stamps, and some loops fire them early (uvloop
by up to 1.2 ms, in whole milliseconds), so a call that comes early is armed again.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentx_replay.replay.ports import Clock
from agentx_replay.replay.timerfd import TimerFdClock, kernel_has_timerfd
from agentx_replay.units import NS_PER_S


class _Timer:
    """One pending call; fires at or after ``when_ns`` and never before."""

    __slots__ = ("_call", "_clock", "_handle", "_when_ns")

    def __init__(self, clock: "LoopClock", when_ns: int, call: Callable[[], None]) -> None:
        self._clock = clock
        self._when_ns = when_ns
        self._call = call
        self._handle = self._arm()

    def _arm(self) -> asyncio.Handle:
        late_by_ns = self._clock.now_ns() - self._when_ns
        if late_by_ns >= 0:
            return self._clock.loop.call_soon(self._fire)
        return self._clock.loop.call_later(-late_by_ns / NS_PER_S, self._fire)

    def _fire(self) -> None:
        if self._clock.now_ns() < self._when_ns:
            self._handle = self._arm()
        else:
            self._call()

    def cancel(self) -> None:
        self._handle.cancel()


class LoopClock:
    """The ``Clock`` port on an asyncio loop; ``now_ns`` defaults to the monotonic clock."""

    __slots__ = ("loop", "now_ns")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.loop = loop
        self.now_ns = now_ns

    def call_at(self, when_ns: int, call: Callable[[], None]) -> _Timer:
        return _Timer(self, when_ns, call)


@contextmanager
def real_clock(loop: asyncio.AbstractEventLoop) -> Iterator[Clock]:
    """Give the most exact clock that this machine has for ``loop``."""
    if not kernel_has_timerfd():
        yield LoopClock(loop)
        return
    clock = TimerFdClock(loop)
    try:
        yield clock
    finally:
        clock.close()

"""An event loop whose clock jumps to the next timer, so that hours pass in a second.

Nothing here waits: when no callback is ready the clock moves to the earliest timer. Sockets and
threads have no place in such a loop; waiting for one would wait for ever, and is an error.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from agentx_replay.replay.clock import LoopClock
from agentx_replay.units import NS_PER_S

_T = TypeVar("_T")


class _JumpingSelector(selectors.SelectSelector):
    """Where a loop would sleep, it moves time instead."""

    now_ns = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("virtual time stands still: no timer is pending, nothing can happen")
        self.now_ns += max(0, round(timeout * NS_PER_S))
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop on virtual time, which starts at 0 ns."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_ns / NS_PER_S

    def now_ns(self) -> int:
        return self._jumping.now_ns


def virtual_clock() -> LoopClock:
    """Return the clock of the running virtual loop."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        raise TypeError("virtual_clock() is for code run by run_virtual()")
    return LoopClock(loop, loop.now_ns)


def run_virtual(main: Coroutine[Any, Any, _T]) -> _T:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)

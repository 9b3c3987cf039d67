"""Prompts composed before they are due, so that many of one instant can leave at it.

Between polls of the loop, one at a time, the earliest first, while no more than a bound of them
waits to be sent. One that is not ready when it is due is composed then. Not for: what it says.
"""

import asyncio
import heapq
from collections.abc import Callable

MAX_COMPOSED_BYTES = 64 * 1024 * 1024

Compose = Callable[[], int]
"""Makes the bytes of a prompt and keeps them; returns how many."""


class ComposeAhead:
    """What one process will send soon: ``add`` it, and say when it is ``sent``, or will not be."""

    __slots__ = ("_bytes", "_due", "_limit_bytes", "_loop", "_running", "_wanted", "composed_bytes")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit_bytes: int = MAX_COMPOSED_BYTES
    ) -> None:
        self._loop = loop
        self._limit_bytes = limit_bytes
        self._due: list[tuple[int, str]] = []
        self._wanted: dict[str, Compose] = {}
        self._bytes: dict[str, int] = {}
        self._running = False
        self.composed_bytes = 0

    def add(self, due_ns: int, stream_id: str, compose: Compose) -> None:
        """Have a stream's next prompt composed before it is due."""
        self._wanted[stream_id] = compose
        heapq.heappush(self._due, (due_ns, stream_id))
        self._go_on()

    def sent(self, stream_id: str) -> None:
        """Say that a stream's prompt need not be kept ready any more."""
        self._wanted.pop(stream_id, None)
        self.composed_bytes -= self._bytes.pop(stream_id, 0)
        self._go_on()

    def _go_on(self) -> None:
        if self._due and not self._running and self.composed_bytes < self._limit_bytes:
            self._running = True
            self._loop.call_soon(self._compose)

    def _compose(self) -> None:
        self._running = False
        while self._due:
            _, stream_id = heapq.heappop(self._due)
            compose = self._wanted.pop(stream_id, None)
            if compose is not None:
                size = compose()
                self._bytes[stream_id] = self._bytes.get(stream_id, 0) + size
                self.composed_bytes += size
                break
        self._go_on()

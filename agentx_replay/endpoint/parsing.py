"""When responses are parsed: between polls of the loop, in slices that no other call waits for.

Sockets only keep what they read; responses of which enough has come, or that may have ended, come
here. Work is done for at most half a millisecond at a time, and only when the loop has polled its
sockets in between. How many bytes wait is bounded; beyond the bound a response is parsed at once,
which is counted.
Not for: how a response is parsed (http_response.py).
"""

import asyncio
import time
from collections import deque
from typing import Protocol

SLICE_NS = 500_000
MAX_HELD_BYTES = 64 * 1024 * 1024


class Parsed(Protocol):
    """Something that has bytes to parse."""

    def parse(self, until_ns: int) -> bool:
        """Parse until that time; return whether there is more to do."""

    def parsed(self) -> None:
        """All that has come is parsed."""


class ParseQueue:
    """Everything of one process that waits to be parsed, first come, first served.

    ``held_bytes`` is how many bytes wait in it; ``parsed_at_once`` how often the bound forced a
    parse on the spot.
    """

    __slots__ = ("_limit_bytes", "_loop", "_queued", "held_bytes", "parsed_at_once")

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_bytes: int = MAX_HELD_BYTES) -> None:
        self._loop = loop
        self._limit_bytes = limit_bytes
        self._queued: deque[tuple[Parsed, int]] = deque()
        self.held_bytes = 0
        self.parsed_at_once = 0

    def push(self, job: Parsed, size: int) -> None:
        """Have a job parsed as soon as the loop has polled its sockets; it has got ``size`` bytes
        more since it was pushed before.
        """
        if self.held_bytes + size > self._limit_bytes:
            self.parsed_at_once += 1
            while job.parse(time.monotonic_ns() + SLICE_NS):
                pass
            size = 0
        if not self._queued:
            self._loop.call_soon(self._run)
        self._queued.append((job, size))
        self.held_bytes += size

    def _run(self) -> None:
        """Parse for one slice, then let the loop poll before the next."""
        until_ns = time.monotonic_ns() + SLICE_NS
        over = False
        while self._queued and not over:
            job, size = self._queued[0]
            if job.parse(until_ns):
                break
            self._queued.popleft()
            self.held_bytes -= size
            job.parsed()
            over = time.monotonic_ns() >= until_ns
        if self._queued:
            self._loop.call_soon(self._run)

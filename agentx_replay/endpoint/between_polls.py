"""Work that a loop does between polls of its sockets: parse what came, compose what is due soon.

Sockets only keep what they read; responses of which enough has come, or that may have ended, are
parsed here, for at most half a millisecond at a time. Prompts are composed before they are due, so
that many of one instant can leave at it. What waits is bounded in both.
Not for: how a response is parsed (http_response.py), or what a prompt says.
"""

import asyncio
import heapq
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

SLICE_NS = 500_000
SILENCE_S = 1.0
MAX_HELD_BYTES = 64 * 1024 * 1024
LONG_BYTES = 256 * 1024
"""What takes several slices at any time, though a loop looks at every 64 KiB."""

MAX_OF_ONE_BYTES = 4 * 1024 * 1024
"""Twice a receive buffer: nothing but a flood is so far ahead of the parser."""

MAX_COMPOSED_BYTES = 64 * 1024 * 1024

Compose = Callable[[], int]
"""Makes the bytes of a prompt and keeps them; returns how many."""


class Parsed(Protocol):
    """Something that has bytes to parse: it says whether there is more, and is told at the end."""

    def parse(self, until_ns: int) -> bool: ...
    def parsed(self) -> None: ...


class ParseQueue:
    """Everything of one process that waits to be parsed, first come, first served; but a long one
    gets a slice in turn, and keeps no other from its end. ``held_bytes`` is how many bytes wait.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_bytes: int = MAX_HELD_BYTES) -> None:
        self._loop = loop
        self._limit_bytes = limit_bytes
        self._held: OrderedDict[Parsed, int] = OrderedDict()
        self._running = False
        self.held_bytes = 0

    def push(self, job: Parsed, size: int) -> bool:
        """Have a job parsed as soon as the loop has polled its sockets; it has got ``size`` bytes
        more. Return whether too much waits: then it must bring no more until it is ``parsed``.
        """
        self._held[job] = held_bytes = self._held.get(job, 0) + size
        self.held_bytes += size
        self._go_on()
        return self.held_bytes > self._limit_bytes or held_bytes > MAX_OF_ONE_BYTES

    def _go_on(self) -> None:
        if self._held and not self._running:
            self._running = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        until_ns = time.monotonic_ns() + SLICE_NS
        over = False
        while self._held and not over:
            job, size = self._held.popitem(last=False)
            if job.parse(until_ns):
                self._held[job] = size
                self._held.move_to_end(job, last=size > LONG_BYTES)
                break
            self.held_bytes -= size
            job.parsed()
            over = time.monotonic_ns() >= until_ns
        self._running = False
        self._go_on()


class EverySecond:
    """Calls that are made every SILENCE_S, all of them by one timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: set[Callable[[], None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, call: Callable[[], None]) -> None:
        self._calls.add(call)
        if self._timer is None:
            self._timer = self._loop.call_later(SILENCE_S, self._make)

    def end(self, call: Callable[[], None]) -> None:
        self._calls.discard(call)

    def _make(self) -> None:
        self._timer = self._loop.call_later(SILENCE_S, self._make) if self._calls else None
        for call in tuple(self._calls):
            call()


class ComposeAhead:
    """What one process will send soon, the earliest first: ``add`` it, and say when it is ``sent``,
    or will not be. What is not ready when it is due is composed then.
    """

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

    def add(self, due_ns: int, conversation_id: str, compose: Compose) -> None:
        """Have a stream's next prompt composed before it is due."""
        self._wanted[conversation_id] = compose
        heapq.heappush(self._due, (due_ns, conversation_id))
        self._go_on()

    def sent(self, conversation_id: str) -> None:
        """Say that a stream's prompt need not be kept ready any more."""
        self._wanted.pop(conversation_id, None)
        self.composed_bytes -= self._bytes.pop(conversation_id, 0)
        self._go_on()

    def _go_on(self) -> None:
        if self._due and not self._running and self.composed_bytes < self._limit_bytes:
            self._running = True
            self._loop.call_soon(self._compose)

    def _compose(self) -> None:
        self._running = False
        while self._due:
            _, conversation_id = heapq.heappop(self._due)
            compose = self._wanted.pop(conversation_id, None)
            if compose is not None:
                size = compose()
                self._bytes[conversation_id] = self._bytes.get(conversation_id, 0) + size
                self.composed_bytes += size
                break
        self._go_on()

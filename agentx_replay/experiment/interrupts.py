"""Ctrl-C and SIGTERM while a level runs: once to stop and drain, twice to leave at once."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED_EXIT_CODE = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ONCE_MORE = "(once more to leave at once)"
DRAINING = f"stopping: draining what is in flight {_ONCE_MORE}"
WHEN_WRITTEN = f"stopping when this level is written {_ONCE_MORE}"

LEFT = "left at once: complete levels are kept, and of this one what had ended 5 s ago"


class Interrupts:
    """Heeds signals from where a level begins until its point is written, so that none is lost and
    none leaves a point half done. ``came`` is whether there was one; ``say`` tells a person.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.came = False
        self._say = say
        self._drain: Callable[[], None] | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Note the first signal, and stop the replay if one is ``stopping``; leave the process on
        the second.

        Leaving at once keeps what is on disk: parts are closed files, at most 5 s behind. A signal
        that the process was started to ignore (``nohup``, a shell's background job) stays ignored;
        what handled the others before does so again in the end.
        """
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        heeded = [number for number in _SIGNALS if before[number] is not signal.SIG_IGN]
        for number in heeded:
            signal.signal(number, self._on_signal)
        try:
            yield
        finally:
            for number in heeded:
                signal.signal(number, before[number])

    @contextmanager
    def stopping(self, loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> Iterator[None]:
        """Have a signal call ``stop`` in the loop, also one that came before."""

        def drain() -> None:
            if self._drain is not None:  # else it has ended by itself
                stop()
                self._say(DRAINING)

        def drain_soon() -> None:
            loop.call_soon_threadsafe(drain)  # what a handler interrupts may be half done

        self._drain = drain_soon
        if self.came:
            drain_soon()
        try:
            yield
        finally:
            self._drain = None

    def _on_signal(self, _: int, __: FrameType | None) -> None:
        if self.came:
            self._say(LEFT)
            os._exit(INTERRUPTED_EXIT_CODE)
        self.came = True
        if self._drain is not None:
            self._drain()
        else:
            self._say(WHEN_WRITTEN)

"""Ctrl-C and SIGTERM while a level runs: once to stop and drain, twice to leave at once."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

INTERRUPTED_EXIT_CODE = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stopping_on_signals(
    loop: asyncio.AbstractEventLoop, stop: Callable[[], None], say: Callable[[str], None]
) -> Iterator[None]:
    """Call ``stop`` on the first signal; leave the process on the second.

    Leaving at once keeps what is on disk: parts are closed files, at most 5 s behind. A signal that
    the process was started to ignore (``nohup``, a shell's background job) stays ignored; what
    handled the others before does so again in the end.
    """
    signals = 0

    def on_signal() -> None:
        nonlocal signals
        signals += 1
        if signals == 1:
            stop()
            say("stopping: draining what is in flight (once more to leave at once)")
        else:
            os._exit(INTERRUPTED_EXIT_CODE)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    heeded = [number for number in _SIGNALS if before[number] is not signal.SIG_IGN]
    for number in heeded:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])

"""The command line: each command parses, calls and prints; the work is done in the other rooms.

This file is the first of ours to run and imports nothing that takes time, so that whoever
interrupts a command gets an answer, even while the rest is still being loaded.
"""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

_INTERRUPTED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MEASURING = ("run", "sweep")


def main() -> None:
    """Run the command line. An interrupt exits with 130 and says so."""
    _on_interrupt(_leave)  # an exception may be lost in what an import does
    # Arrow's own allocator holds 20 MB in reserve; records are a few megabytes at a time.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from agentx_replay.cli.commands import run_command_line

    try:
        run_command_line()
    except KeyboardInterrupt:
        _say_interrupted()
        sys.exit(_INTERRUPTED)


def loaded() -> None:
    """Let an interrupt be an exception from here on, so that what is open is closed."""
    _on_interrupt(_interrupt)


def _on_interrupt(handle: Callable[[int, FrameType | None], None]) -> None:
    """Treat SIGTERM and a closed terminal as Ctrl-C; what was to be ignored (nohup) stays so."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)


def _leave(_: int, __: FrameType | None) -> None:
    _say_interrupted()
    os._exit(_INTERRUPTED)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say_interrupted() -> None:
    measuring = len(sys.argv) > 1 and sys.argv[1] in _MEASURING
    what = "interrupted before anything was measured" if measuring else "interrupted"
    with suppress(OSError):  # the terminal may be what has gone
        os.write(sys.stderr.fileno(), f"agentx-replay: {what}.\n".encode())

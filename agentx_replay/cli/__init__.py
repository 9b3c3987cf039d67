"""The command line: each command parses, calls and prints; the work is done in the other rooms.

This file is the first of ours to run and imports nothing that is not loaded when Python starts, so
that whoever interrupts a command gets an answer, even while the rest is still being loaded.
"""

import _signal  # type: ignore[import-not-found]  # signal itself takes as long as Python's start
import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_INTERRUPTED = 130
_SIGNALS = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)
_MEASURING = ("run", "sweep", "capacity")
_STANDARD_ERROR = 2


def main() -> None:
    """Run the command line. An interrupt exits with 130 and says so."""
    _on_interrupt(_leave)  # an exception may be lost in what an import does
    _open_missing_streams()
    # Arrow's own allocator holds 20 MB in reserve; records are a few megabytes at a time.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # numpy's linear algebra starts a thread a core, and an idle one spins as long as numpy loads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # what is being loaded is no garbage, and would be walked a hundred times
    from agentx_replay.cli.commands import run_command_line

    try:
        run_command_line()
    except KeyboardInterrupt:
        _say("interrupted")
        sys.exit(_INTERRUPTED)
    finally:
        # All is done and said: what Python tidies up then changes no result and no exit code.
        _on_interrupt(_signal.SIG_IGN)


def loaded() -> None:
    """Let an interrupt be an exception from here on, so that what is open is closed, and garbage be
    collected, but not looked for in what was loaded.
    """
    _on_interrupt(_interrupt)
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _on_interrupt(handle: "Callable[[int, FrameType | None], None] | int") -> None:
    """Treat SIGTERM and a closed terminal as Ctrl-C; what was to be ignored (nohup) stays so."""
    for number in _SIGNALS:
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, handle)


def _leave(_: int, __: "FrameType | None") -> None:
    measuring = len(sys.argv) > 1 and sys.argv[1] in _MEASURING
    _say("interrupted before anything was measured" if measuring else "interrupted")
    os._exit(_INTERRUPTED)


class _InterruptError(KeyboardInterrupt):
    """An interrupt of a type of its own: once a plain one has left a string that Python executed,
    as the import of a dataclass does, Python ends by SIGINT and drops the exit code.
    """


def _interrupt(_: int, __: "FrameType | None") -> None:
    raise _InterruptError


def _say(what: str) -> None:
    try:
        os.write(_STANDARD_ERROR, f"agentx-replay: {what}.\n".encode())
    except OSError:
        return  # the terminal may be what has gone


def _open_missing_streams() -> None:
    """Send nowhere what the command was started without (``>&-``): a socket that got the number of
    a standard stream would be printed into, and the event loop gives up the process over it.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest number that is free is this one, since those before it are open.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", closefd=False))

"""Files that a person names, read so that none holds a command up for ever or fills its memory.

To open a pipe is to wait for somebody to write, and a device may never end. Not for: trace files,
which are read piece by piece (``traces/files.py``), and what a file says.
"""

import os
import select
import stat
import time
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

from agentx_replay.errors import UsageError

MOST_BYTES = 64 * 2**20
"""Of what is read whole; far more than any run writes."""

PIPE_WAIT_S = 10.0
_PIECE_BYTES = 2**20


def refuse_unfit(
    path: Path, what: str, way_out: str, *, most_bytes: int = MOST_BYTES, pipe: bool = False
) -> None:
    """Raise ``UsageError`` for what cannot be opened as a file, or is larger than ``most_bytes``.

    ``what`` is what a message calls it, with its path; ``pipe`` lets a pipe pass.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(what, way_out, error) from None
    if pipe and stat.S_ISFIFO(found.st_mode):
        return
    if not stat.S_ISREG(found.st_mode):
        raise UsageError("not-a-file", f"{what} is not a file", way_out)
    if found.st_size > most_bytes:
        raise _too_large(what, way_out, most_bytes)


def read_given(
    path: Path, what: str, way_out: str, *, most_bytes: int = MOST_BYTES, pipe: bool = False
) -> bytes:
    """Return what is in a file, or also in a pipe that is written and closed within
    ``PIPE_WAIT_S``. Otherwise as ``refuse_unfit``.
    """
    refuse_unfit(path, what, way_out, most_bytes=most_bytes, pipe=pipe)
    try:
        if path.is_file():
            with path.open("rb") as file:
                # Asked for at once, so many bytes would be set aside for the smallest of files.
                pieces = iter(partial(file.read, _PIECE_BYTES), b"")
                found = b"".join(islice(pieces, most_bytes // _PIECE_BYTES + 1))
        else:
            found = _piped(path, most_bytes + 1, time.monotonic() + PIPE_WAIT_S)
    except TimeoutError:
        waited = f"{what} is a pipe that nobody wrote and closed within {PIPE_WAIT_S:g} s"
        raise UsageError("file-silent", waited, way_out) from None
    except OSError as error:
        raise _unreadable(what, way_out, error) from None
    if len(found) > most_bytes:
        raise _too_large(what, way_out, most_bytes)
    return found


def _piped(path: Path, most_bytes: int, deadline_s: float) -> bytes:
    """Return what comes out of a pipe up to its end, or ``most_bytes``. Raises ``TimeoutError``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    got, was_written = b"", False
    try:
        while len(got) < most_bytes:
            with suppress(BlockingIOError):  # somebody has it open, and has written nothing yet
                part = os.read(descriptor, most_bytes - len(got))
                got += part
                if part:
                    continue
                if got or was_written:
                    break
            # Without bytes and a writer it is at its end, or nobody has opened it yet.
            left_s = max(deadline_s - time.monotonic(), 0.0)
            was_written = bool(select.select([descriptor], [], [], left_s)[0])
            if not was_written:
                raise TimeoutError
    finally:
        os.close(descriptor)
    return got


def _unreadable(what: str, way_out: str, error: OSError) -> UsageError:
    return UsageError(
        "file-unreadable", f"{what} cannot be read ({error.strerror or error})", way_out
    )


def _too_large(what: str, way_out: str, most_bytes: int) -> UsageError:
    return UsageError("file-too-large", f"{what} is larger than {most_bytes >> 20} MiB", way_out)

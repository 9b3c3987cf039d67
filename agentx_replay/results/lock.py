"""One run at a time in a run directory, by the kernel's lock: a killed run never blocks another."""

import errno
import fcntl
import os
from pathlib import Path

from agentx_replay.errors import UsageError
from agentx_replay.results.layout import lock_file

_HELD = (errno.EACCES, errno.EAGAIN)


def lock(run: Path) -> None:
    """Take an existing run directory for this process, until it ends, however it ends.

    Raises ``UsageError`` where another process has it. A file system without locks (some network
    ones) cannot tell, and refuses nobody. Raises ``OSError`` where the disk refuses.
    """
    # Never closed: the end of any descriptor of the file would end the lock.
    descriptor = os.open(lock_file(run), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in _HELD:
            raise UsageError(
                "run-locked",
                f"another run is writing into {run}",
                "wait for it to end, or choose another --out",
            ) from None

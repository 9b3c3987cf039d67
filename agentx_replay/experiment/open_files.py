"""How many files a process may have open: a stream is a connection, and a connection is a file.

Systems start programs with a low limit, commonly 1,024, that any of them may raise up to a higher
one. Not for: the higher one, which is an administrator's.
"""

import math
import resource
from contextlib import suppress

from agentx_replay.errors import UsageError

SPARE_FILES = 64
"""What a process has open beside its connections."""

_ENOUGH = 1 << 18
"""As many as any level here can need; some systems refuse "unlimited"."""


def raise_open_files() -> int:
    """Raise the limit of this process, and of those it starts, as far as it may; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most
    with suppress(ValueError, OSError):  # a system may have a lower one still
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def refuse_too_few(concurrency: int, workers: int, allowed: int | None = None) -> None:
    """Raise UsageError if a worker may not have a file open for each of its lanes; ``allowed`` are
    those of another machine.
    """
    allowed, needed = allowed or raise_open_files(), math.ceil(concurrency / workers) + SPARE_FILES
    if needed > allowed:
        raise UsageError(
            "too-few-open-files",
            f"concurrency {concurrency} needs {needed} open files a process, and {allowed} are "
            "allowed",
            f"allow them (ulimit -n {needed}), or lower --concurrency",
        )

"""How many files a process may have open: a stream is a connection, and a connection is a file.

Systems start programs with a low limit, commonly 1,024, that any of them may raise up to a higher
one. Not for: the higher one, which is an administrator's.
"""

import resource
from contextlib import suppress

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

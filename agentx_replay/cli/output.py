"""Standard output whose reader may have gone: ``report | head``, a terminal that was closed.

Not for: progress and errors, which go to standard error.
"""

import errno
import os
import sys

import click

_READER_GONE = (errno.EPIPE, errno.EIO)


def say(text: str) -> None:
    """Print ``text``; where nobody reads any more, say nothing, now and from then on."""
    try:
        click.echo(text)
    except OSError as error:
        if not reader_gone(error):
            raise
        silence()


def reader_gone(error: OSError) -> bool:
    """Whether an error of an output means that its reader has gone."""
    return error.errno in _READER_GONE


def silence() -> None:
    """Send standard output nowhere, so that what is still buffered cannot fail again at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)

"""Standard output: texts from anywhere, and a reader that may have gone, as of ``report | head``.

Ids, paths and what servers say may hold characters that move a terminal's cursor or hide text;
they are shown escaped.

Not for: progress and errors, which go to standard error.
"""

import errno
import os
import shutil
import sys
from collections.abc import Iterable
from typing import Any

import click
import orjson

from agentx_replay.text_format import escaped

_NARROWEST, _WIDEST = 20, 100
"""Columns between which texts are wrapped: a wider line is hard to read."""
_STYLES: dict[str, dict[str, Any]] = {
    "title": {"bold": True}, "bad": {"fg": "red"}, "warning": {"fg": "yellow"}, "": {},
}  # fmt: skip
_READER_GONE = (errno.EPIPE, errno.EIO)


def say(text: str) -> None:
    """Print ``text`` escaped; where nobody reads any more, say nothing, now and from then on."""
    _print(escaped(text))


def say_styled(lines: Iterable[tuple[str, str]]) -> None:
    """Print lines of (text, style): bold and in colour in a terminal without ``NO_COLOR``."""
    colourless = bool(os.environ.get("NO_COLOR"))
    for text, style in lines:
        plain = escaped(text)
        _print(plain if colourless or not style else click.style(plain, **_STYLES[style]))


def width() -> int:
    """Return how many columns a text may take: 80 where no terminal tells."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, _NARROWEST), _WIDEST)


def say_document(document: object) -> None:
    """Print plain values as one JSON object, in the same way."""
    _print(orjson.dumps(document).decode())


def _print(text: str) -> None:
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

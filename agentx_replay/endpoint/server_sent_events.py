"""Server-sent events out of bytes that were cut anywhere (WHATWG HTML, section 9.2.6).

Fed read by read after the fact, so that every event can be given the stamp of the read that
completed it. Not for: timestamps (timing.py) or what the data of an event means
(completion_stream.py).
"""

import re
from typing import NamedTuple

MAX_EVENT_BYTES = 10_000_000

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LONGEST_BLANK_LINE = 4
_BOM = b"\xef\xbb\xbf"


class EventTooLargeError(Exception):
    """An event that does not end within MAX_EVENT_BYTES."""


class Event(NamedTuple):
    """One event: its ``event:`` field (empty where there is none) and its joined ``data:``."""

    name: bytes
    data: bytes


class EventSplitter:
    """Bytes in, completed events out; ``carry`` is at most the one event that is not complete."""

    __slots__ = ("carry",)

    def __init__(self) -> None:
        self.carry = bytearray()

    def feed(self, piece: bytes) -> list[Event]:
        """Return the events that ``piece`` completes; raises EventTooLargeError.

        The common read holds whole events with plain line feeds: it is not copied.
        """
        if not self.carry and piece.endswith(b"\n\n") and b"\r" not in piece:
            return _events(piece[:-2].split(b"\n\n"))
        return _events(self._blocks(piece))

    def _blocks(self, piece: bytes) -> list[bytes]:
        carry = self.carry
        seen = max(0, len(carry) - _LONGEST_BLANK_LINE + 1)
        carry += piece
        blocks: list[bytes] = []
        start = 0
        while end := _BLANK_LINE.search(carry, seen):
            blocks.append(bytes(carry[start : end.start()]))
            start = seen = end.end()
        del carry[:start]
        if len(carry) > MAX_EVENT_BYTES:
            raise EventTooLargeError
        return blocks

    def rest(self) -> list[Event]:
        """Return the last event of a body that ended properly but without a blank line."""
        block = bytes(self.carry)
        self.carry.clear()
        return _events([block])


def _events(blocks: list[bytes]) -> list[Event]:
    return [event for block in blocks if (event := _event(block)) is not None]


def _event(block: bytes) -> Event | None:
    """Return what one block of lines says; None for comments, blank keep-alives and bare fields."""
    if block.startswith(b"data: ") and b"\n" not in block and b"\r" not in block:
        return Event(b"", block[6:])
    name = b""
    data: list[bytes] = []
    # A read that ends between the CR and the LF of a blank line leaves the LF to the next block.
    for line in _LINE_END.split(block.lstrip(b"\n").removeprefix(_BOM)):
        key, _, value = line.partition(b":")
        if key == b"data":
            data.append(value.removeprefix(b" "))
        elif key == b"event":
            name = value.removeprefix(b" ")
    return Event(name, b"\n".join(data)) if data else None

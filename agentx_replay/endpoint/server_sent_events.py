"""Server-sent events out of bytes that were cut anywhere (WHATWG HTML, section 9.2.6).

Fed read by read after the fact, so that every event can be given the stamp of the read that
completed it. Nearly all events of a response differ in the text of their token alone: what stands
around it is learnt from one event and proven there, and a later event between the same bytes is
understood without a JSON parse. Only for events that say nothing but a text: one with usage, token
ids or a finish reason is read (completion_stream.py), and so is every event whose text could be
anything but a JSON string that is not empty. Not for: timestamps (timing.py).
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

MAX_EVENT_BYTES = 10_000_000

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LONGEST_BLANK_LINE = 4
_BOM = b"\xef\xbb\xbf"

_LINE, _BLANK, _CHUNK_END = b"data: ", b"\n\n", b"\r\n"
_MARK = "\x00text\x00"
_DELTA_TEXTS = ("content", "reasoning_content", "reasoning")
_TEXT = re.compile(rb'(?=.)(?>[ !#-\[\]-~]*)(?:\\["\\/bfnrt](?>[ !#-\[\]-~]*)){0,64}')
"""The inside of a JSON string (RFC 8259, section 7) in ASCII: ``\\u`` left out, escapes bounded."""

_PLAIN: set[bytes] = set()
"""Texts that are known to be plain: of any run the same ones come again and again."""

_MOST_PLAIN, _LONGEST_PLAIN = 65_536, 32


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
        if not self.carry and piece.endswith(_BLANK) and b"\r" not in piece:
            return _events(piece[:-2].split(_BLANK))
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
    if block.startswith(_LINE) and b"\n" not in block and b"\r" not in block:
        return Event(b"", block[len(_LINE) :])
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


# --- events that are alike ------------------------------------------------------------------------


class Alike(NamedTuple):
    """What stands in a read of one event before its text, and what behind; ``reasoning`` is
    whether the text is the model's reasoning.
    """

    start: bytes
    end: bytes
    reasoning: bool = False

    def text_of(self, piece: bytes) -> bytes | None:
        """Return the text of a read that is one such event and no more, None where it is not."""
        if not piece.startswith(self.start) or not piece.endswith(self.end):
            return None
        text = piece[len(self.start) : -len(self.end)]
        return text if text in _PLAIN or _is_plain(text) else None


class AlikeChunks:
    """Socket reads that are one chunk each, of one event that is ``alike``: known by their bytes.

    What stands before the text in such a read is learnt from one that the parser found to be one
    whole chunk. A read of the same length that begins and ends alike has the same chunk size, so it
    is one whole chunk, too, and the parser need not see it if it was between two chunks.
    """

    __slots__ = ("_alike", "_starts")

    def __init__(self) -> None:
        self._alike: Alike | None = None
        self._starts: dict[int, bytes] = {}

    def learn(self, read: bytes, piece: bytes, alike: Alike | None) -> None:
        """Learn from a read that was one chunk, of that piece."""
        if alike is None:
            return
        if alike != self._alike:
            self._alike, self._starts = alike, {}
        text = alike.text_of(piece)
        if text is not None and read.endswith(piece + _CHUNK_END):
            self._starts[len(read)] = read[: len(read) - len(text + alike.end + _CHUNK_END)]

    def texts(self, reads: Sequence[bytes], alike: Alike | None) -> list[bytes]:
        """Return the texts of the first of these reads, up to one that is not known to be alike."""
        texts: list[bytes] = []
        if alike is None or alike != self._alike:
            return texts
        starts, end = self._starts, alike.end + _CHUNK_END
        behind = len(end)
        for read in reads:  # spelt out, not ``text_of``: this is done for every token
            start = starts.get(len(read), b"\n")  # no chunk begins so
            before = len(start)
            text = read[before:-behind]
            if read[:before] != start or read[-behind:] != end:
                break
            if text not in _PLAIN and not _is_plain(text):
                break
            texts.append(text)
        return texts


def _is_plain(text: bytes) -> bool:
    if _TEXT.fullmatch(text) is None:
        return False
    if len(_PLAIN) < _MOST_PLAIN and len(text) <= _LONGEST_PLAIN:
        _PLAIN.add(text)
    return True


def alike_of(piece: bytes) -> Alike | None:
    """Return what events like the one in ``piece`` have in common, None where it is not plain.

    Proven by reading the event again with another text in that place: no more than the one field
    may change by it.
    """
    data = piece[len(_LINE) : -len(_BLANK)]
    if not piece.startswith(_LINE) or not piece.endswith(_BLANK) or b"\n" in data or b"\r" in data:
        return None
    try:
        chunk = orjson.loads(data)
        if (place := _place(chunk)) is None:
            return None
        said, name = place
        before, literal, behind = data.partition(orjson.dumps(said[name]))
        said[name] = _MARK
        proven = literal and orjson.loads(before + orjson.dumps(_MARK) + behind) == chunk
    except orjson.JSONDecodeError:
        return None
    if not proven:
        return None
    return Alike(_LINE + before + b'"', b'"' + behind + _BLANK, name.startswith("reasoning"))


def _place(chunk: Any) -> tuple[dict[str, Any], str] | None:
    """Return the object that has the text, and its name there; None where more is told, or none."""
    if not isinstance(chunk, dict) or chunk.get("usage") is not None:
        return None
    choices = chunk.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return None
    choice = choices[0]
    if choice.get("finish_reason") is not None or choice.get("token_ids") is not None:
        return None
    delta = choice.get("delta")
    said, names = (delta, _DELTA_TEXTS) if isinstance(delta, dict) else (choice, ("text",))
    for name in names:
        if isinstance(said.get(name), str) and said[name]:
            return said, name
    return None

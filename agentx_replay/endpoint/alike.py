"""Token events that are alike but for the text of the token, as nearly all of a response are.

The bytes around the text are learnt from one event and proven there; a later event between the
same bytes means the same, and is told without a JSON parse. Only for events that tell nothing but
a text: one with usage, token ids or a finish reason is read (completion_stream.py), and so is every
event whose text could be anything but a JSON string that is not empty.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

_LINE = b"data: "
_BLANK = b"\n\n"
_CHUNK_END = b"\r\n"
_MARK = "\x00text\x00"
_DELTA_TEXTS = ("content", "reasoning_content", "reasoning")
_TEXT = re.compile(rb'(?=.)(?>[ !#-\[\]-~]*)(?:\\["\\/bfnrt](?>[ !#-\[\]-~]*)){0,64}')
"""The inside of a JSON string (RFC 8259, section 7) in ASCII: ``\\u`` left out, escapes bounded."""


_PLAIN: set[bytes] = set()
"""Texts that are known to be plain: of any run the same ones come again and again."""

_MOST_PLAIN, _LONGEST_PLAIN = 65_536, 32


@dataclass(frozen=True, slots=True)
class Alike:
    """What stands in a read of one event before its text, and what behind; ``reasoning`` is
    whether the text is the model's reasoning.
    """

    start: bytes
    end: bytes
    reasoning: bool = False

    def text_of(self, piece: bytes) -> bytes | None:
        """Return the text of a read that is one such event and no more, None where it is not."""
        start, end = self.start, self.end
        if not piece.startswith(start) or not piece.endswith(end):
            return None
        text = piece[len(start) : -len(end)]
        return text if text in _PLAIN or _is_plain(text) else None


class AlikeChunks:
    """Socket reads that are one chunk each, of one event that is ``alike``: told by their bytes.

    What stands before the text in such a read is learnt from one that the parser found to be one
    whole chunk. A read of the same length that begins and ends alike has the same chunk size, so it
    is one whole chunk, too, and the parser need not see it if it was between two chunks.
    """

    __slots__ = ("_alike", "_starts")

    def __init__(self) -> None:
        self._alike: Alike | None = None
        self._starts: dict[int, bytes] = {}

    def learn(self, read: bytes, piece: bytes, alike: Alike) -> None:
        """Learn from a read that was one chunk, of that piece."""
        text = alike.text_of(piece)
        if alike != self._alike:
            self._alike = alike
            self._starts.clear()
        if text is not None and read.endswith(piece + _CHUNK_END):
            self._starts[len(read)] = read[: len(read) - len(text + alike.end + _CHUNK_END)]

    def texts(self, reads: Iterable[bytes], alike: Alike) -> list[bytes]:
        """Return the texts of the first of these reads, up to one that is not known to be alike."""
        texts: list[bytes] = []
        if alike is not self._alike and alike != self._alike:
            return texts
        starts, end = self._starts, alike.end + _CHUNK_END
        behind = len(end)
        for read in reads:
            start = starts.get(len(read))
            if start is None or not read.startswith(start) or not read.endswith(end):
                break
            text = read[len(start) : -behind]
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
        place = _place(chunk)
        if place is None:
            return None
        said, name = place
        before, literal, behind = data.partition(orjson.dumps(said[name]))
        said[name] = _MARK
        proven = literal and orjson.loads(before + orjson.dumps(_MARK) + behind) == chunk
    except orjson.JSONDecodeError:
        return None
    if not proven:
        return None
    reasoning = name in ("reasoning_content", "reasoning")
    return Alike(_LINE + before + b'"', b'"' + behind + _BLANK, reasoning)


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

"""Where the body of an HTTP/1.1 response lies in the bytes that follow its head, and where it ends.

Three ways (RFC 9112, section 6.3): chunks, a stated length, or until the connection closes. Each
is a small state machine fed with the bytes in order, cut anywhere; none copies the body.
Not for: reading heads (connection.py) or what the body says.
"""

import re
from functools import lru_cache
from typing import Protocol, TypeAlias

Spans: TypeAlias = list[int]
"""Start, end, start, end … of the body within what was given to ``scan``.

Flat, because a pair an event would be work for the garbage collector while tokens are stamped.
"""

_MAX_LINE_BYTES = 8192
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?")
_WHOLE_HEAD = re.compile(rb"([1-9a-fA-F][0-9a-fA-F]{0,14})\r\n")
_SEAM = re.compile(rb"\r\n([1-9a-fA-F][0-9a-fA-F]{0,3})\r\n")
_SEAM_BYTES = 8


class MalformedFramingError(Exception):
    """The head announces no framing that can be followed."""


class Framing(Protocol):
    """One response's body framing.

    ``fault`` says why the bytes are not framed as announced; nothing after it is body.
    ``ended``: the body is complete. ``excess``: bytes came after its end. ``ends_by_close``: a
    close is its proper end.
    """

    fault: str | None
    ended: bool
    excess: bool
    ends_by_close: bool

    def scan(self, raw: bytes) -> Spans:
        """Return the body spans in the next bytes."""

    def next_look(self) -> int | None:
        """Return after how many further bytes the end may have come without showing.

        It shows where a read ends in an empty line; None where it always does.
        """


class UntilClose:
    """A body that ends when the server closes the connection."""

    __slots__ = ("ended", "ends_by_close", "excess", "fault")

    def __init__(self) -> None:
        self.fault: str | None = None
        self.ended = False
        self.excess = False
        self.ends_by_close = True

    def scan(self, raw: bytes) -> Spans:
        """Return all of it."""
        return [0, len(raw)]

    def next_look(self) -> int | None:
        """Return None: only the close ends it."""
        return None


class Sized:
    """A body of a stated length in bytes."""

    __slots__ = ("_left", "ended", "ends_by_close", "excess", "fault")

    def __init__(self, length: int) -> None:
        self.fault: str | None = None
        self._left = length
        self.ended = length == 0
        self.excess = False
        self.ends_by_close = False

    def scan(self, raw: bytes) -> Spans:
        """Return what belongs to the body."""
        take = min(self._left, len(raw))
        self._left -= take
        self.ended = self._left == 0
        self.excess = take < len(raw)
        return [0, take]

    def next_look(self) -> int | None:
        """Return the bytes still missing."""
        return self._left


class Chunked:
    """A body in chunks (RFC 9112, section 7.1), extensions and trailers skipped."""

    __slots__ = (
        "_after_data",
        "_left",
        "_line",
        "_trailers",
        "ended",
        "ends_by_close",
        "excess",
        "fault",
    )

    def __init__(self) -> None:
        self._left = 0
        self._line = bytearray()
        self._after_data = False
        self._trailers = False
        self.fault: str | None = None
        self.ended = False
        self.excess = False
        self.ends_by_close = False

    def scan(self, raw: bytes) -> Spans:
        """Return the data of the chunks."""
        spans: Spans = []
        at, size = 0, len(raw)
        while at < size and not self.ended and self.fault is None:
            if self._between_chunks:
                at = _whole_chunks(raw, at, spans)
            if self._left:
                end = min(at + self._left, size)
                spans += at, end
                self._left -= end - at
                at = end
            else:
                at = self._syntax(raw, at)
        self.excess = self.ended and at < size
        return spans

    @property
    def _between_chunks(self) -> bool:
        return not (self._left or self._line or self._after_data or self._trailers)

    def _syntax(self, raw: bytes, at: int) -> int:
        """Read one line that is not data, whole or in part; return where it ends."""
        newline = raw.find(b"\n", at)
        end = len(raw) if newline < 0 else newline + 1
        self._line += raw[at:end]
        if len(self._line) > _MAX_LINE_BYTES:
            self.fault = "a chunk header without end"
        elif newline >= 0:
            self._read_line(bytes(self._line).rstrip(b"\r\n"))
            self._line.clear()
        return end

    def _read_line(self, line: bytes) -> None:
        if self._trailers:
            self.ended = not line
        elif self._after_data:
            self._after_data = False
            self.fault = "a chunk longer than it says" if line else None
        else:
            self._read_size(line)

    def _read_size(self, line: bytes) -> None:
        size = _CHUNK_SIZE.fullmatch(line)
        if size is None:
            self.fault = "a chunk without a size"
            return
        self._left = int(size[1], 16)
        self._after_data = self._left > 0
        self._trailers = self._left == 0

    def next_look(self) -> int | None:
        """Return 1 where the last bytes stopped inside a line, or before one that must be there.

        Else the end will come as a whole ``0 CRLF … CRLF`` in the bytes to come, and show.
        """
        inside = self._line or self._trailers or (self._after_data and not self._left)
        return 1 if inside else None


def _whole_chunks(raw: bytes, at: int, spans: Spans) -> int:
    """Add the data of the chunks that are here whole, the common ones; return where they end."""
    head = _WHOLE_HEAD.match(raw, at)
    if head is None:
        return at
    start = head.end()
    end = start + int(head[1], 16)
    while seam := _seam(raw[end : end + _SEAM_BYTES]):
        spans += start, end
        at = end + 2
        start = end + seam[0]
        end = start + seam[1]
    if raw[end : end + 2] == b"\r\n":
        spans += start, end
        at = end + 2
    return at


@lru_cache(maxsize=4096)
def _seam(between: bytes) -> tuple[int, int] | None:
    """Return how many bytes stand between the data of two chunks, and how long the second is.

    None where the bytes that begin with the first one's end do not hold it all. They are few, and
    of any response the same ones come again: looking them up is half of reading them.
    """
    head = _SEAM.match(between)
    return None if head is None else (head.end(), int(head[1], 16))


def framing_of(headers: dict[bytes, bytes], status: int) -> Framing:
    """Return the framing that a response's head announces; names in ``headers`` are lower case."""
    if status in (204, 304):
        return Sized(0)
    if headers.get(b"transfer-encoding", b"").lower().endswith(b"chunked"):
        return Chunked()
    length = headers.get(b"content-length")
    if length is None:
        return UntilClose()
    if not length.isdigit():
        raise MalformedFramingError("a Content-Length that is no number")
    return Sized(int(length))

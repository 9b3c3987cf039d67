"""One HTTP/1.1 response, understood from the socket reads it came in: head, framing and body.

The reads are kept as they came, each known by its place, and parsed later: by httptools in place,
its body handed on as it comes, in slices with polls of the loop between (between_polls.py).
Not for: what the events of a body mean (completion_stream.py), or connections (connection.py).
"""

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httptools

from agentx_replay.endpoint.completion_stream import CompletionStream, ParsedStream
from agentx_replay.endpoint.server_sent_events import AlikeChunks
from agentx_replay.endpoint.timing import ReadTimes

MAX_TEXT_BYTES = 4_000_000
_MAX_HEAD_BYTES = 65_536
_INFLATED_BYTES = 65_536
_STEP_BYTES = 4_096
_ENCODED_STEP_BYTES = 256
_ALIKE_A_LOOK = 256
"""As many reads that the parser need not see are taken between two looks at the clock."""

_PROTOCOL = b"HTTP/"
_OK = 200
_PARSER_ERRORS = (httptools.HttpParserError, httptools.HttpParserUpgrade)


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A response body, understood: ``stream`` of an event stream, else its ``text``.

    ``too_large`` is whether it went past a bound and was given up there.
    """

    stream: ParsedStream | None = None
    text: bytes = b""
    too_large: bool = False
    malformed: str | None = None


class HttpResponse:
    """One response: ``add`` its reads, ``run`` the parser over them, and take the ``body``.

    ``streamed`` is whether a success must be an event stream. ``status`` is that of the final head,
    None until it has come, as are ``headers`` (lower-case names) and ``length`` (None if the body
    is framed otherwise, ``ends_by_close`` if by the close); ``begun`` is whether bytes of the body
    have come. ``fault`` says why what came is no such response. ``complete_at`` is the place of the
    read that completed it; ``excess`` whether bytes came after its end.
    """

    def __init__(self, times: ReadTimes, *, streamed: bool, keeps_answer: bool) -> None:
        self.times = times
        self.status: int | None = None
        self.headers: dict[bytes, bytes] = {}
        self.length: int | None = None
        self.keep_alive = self.ends_by_close = False
        self.begun = False
        self.fault: str | None = None
        self.complete_at: int | None = None
        self.excess = False
        self._streamed = streamed
        self._keeps_answer = keeps_answer
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append  # the parser calls it, as it does the methods below
        self._parser: Any = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_chunked_length=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._waiting: list[Any] = []
        self._next = 0
        self._place = -1
        self._inside_read = False
        self._start = b""
        self._head_bytes = self._body_bytes = 0
        self._step_bytes = _STEP_BYTES
        self._flows = self._between_chunks = False
        self._alike_chunks = AlikeChunks()
        self._encoding = ""
        self._inflate: Callable[[bytes], Iterator[bytes]] | None = None
        self._malformed: str | None = None
        self._stream: CompletionStream | None = None
        self._text = bytearray()
        self._undecided = False

    @property
    def over(self) -> bool:
        """Whether nothing that may still come matters."""
        return self.fault is not None or self._has_enough()

    def _has_enough(self) -> bool:
        finished = self._stream is not None and self._stream.finished
        return finished or self._malformed is not None or len(self._text) > MAX_TEXT_BYTES

    @property
    def done(self) -> bool:
        return self._stream is not None and self._stream.done

    @property
    def missing_bytes(self) -> int | None:
        """How many bytes of the body are still to come; None where that is not known."""
        return None if self.length is None else self.length - self._body_bytes

    def add(self, reads: Sequence[bytes]) -> int:
        """Take the next reads, in order; return how many bytes they are."""
        self._waiting += reads
        return sum(map(len, reads))

    def run(self, until_ns: int) -> bool:
        """Parse what has come, until that time; return whether there is more."""
        while self._next < len(self._waiting):
            if not self._take_alike():
                self._parse(self._next_bytes())
            if time.monotonic_ns() >= until_ns:
                break
        del self._waiting[: self._next]
        self._next = 0
        return bool(self._waiting)

    def _next_bytes(self) -> bytes | memoryview:
        """Return the next read, or the next step of a long one; the rest of it waits."""
        data: bytes | memoryview = self._waiting[self._next]
        if not self._inside_read:
            self._place += 1
        self._inside_read = len(data) > self._step_bytes
        if not self._inside_read:
            self._next += 1
            return data
        rest = memoryview(data)
        self._waiting[self._next] = rest[self._step_bytes :]
        return rest[: self._step_bytes]

    def _parse(self, data: bytes | memoryview) -> None:
        if not self._flows and not self._may_go_on(data):
            return
        was_between = self._between_chunks
        try:
            self._parser.feed_data(data)
        except _PARSER_ERRORS as error:
            self._failed(error)
        pieces = self._pieces
        one = len(pieces) == 1 and was_between and self._between_chunks
        piece = pieces[0] if one else b""
        self._feed()
        if one and isinstance(data, bytes) and self._stream is not None:
            self._alike_chunks.learn(data, piece, self._stream.alike)

    def _take_alike(self) -> bool:
        """Take the next reads, while each is one chunk of one event as there were before; return
        whether any was.
        """
        stream = self._stream
        if not self._between_chunks or self._inside_read or stream is None:
            return False
        reads = self._waiting[self._next : self._next + _ALIKE_A_LOOK]
        texts = self._alike_chunks.texts(reads, stream.alike)
        stream.take_alike(texts, self._place + 1)
        self._place += len(texts)
        self._next += len(texts)
        return bool(texts)

    def _failed(self, error: Exception) -> None:
        """Say why the bytes are no such response; after its end they matter no more."""
        if isinstance(error, httptools.HttpParserCallbackError) and error.__context__ is not None:
            raise error.__context__  # of our own code, or Ctrl-C that came within it
        if self.complete_at is not None:
            self.excess = True
        elif isinstance(error, httptools.HttpParserUpgrade):
            self.fault = "the server changed to another protocol"
        elif self.status is None:
            self.fault = f"a response head that is not HTTP ({error})"
        else:
            self.fault = f"a body that is not framed as HTTP says ({error})"
        self._flows = False

    def _may_go_on(self, data: bytes | memoryview) -> bool:
        """Whether bytes outside a body are to be parsed: before it, behind it, or after a fault.

        The parser passes over line ends before a head, and knows no bound of it.
        """
        if self.complete_at is not None:
            self.excess = True
            return False
        if self.status is None and self.fault is None:
            if len(self._start) < len(_PROTOCOL):
                self._start = (self._start + bytes(data[: len(_PROTOCOL)]))[: len(_PROTOCOL)]
            if not _PROTOCOL.startswith(self._start):
                self.fault = "the answer is not HTTP"
            elif self._head_bytes > _MAX_HEAD_BYTES:
                self.fault = "a response head without end"
            self._head_bytes += len(data)
        return self.fault is None

    # --- what the parser calls ----------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A message after the response is one that nobody asked for."""
        self.excess = self.excess or self.complete_at is not None

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status is None:  # trailers come here, too
            self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Set up for the body; an interim answer says nothing."""
        status, headers = self._parser.get_status_code(), self.headers
        if status < _OK:
            self.headers = {}
        if status < _OK or self.status is not None:
            return
        self.status, self.keep_alive = status, self._parser.should_keep_alive()
        framing, length = headers.get(b"transfer-encoding"), headers.get(b"content-length", b"")
        self.length = int(length) if length.isdigit() and not framing else None
        chunked = (framing or b"").lower().endswith(b"chunked")
        self.ends_by_close = not chunked and self.length is None
        encoding = headers.get(b"content-encoding", b"").strip().lower()
        self._encoding = encoding.decode("latin-1")
        if encoding in (b"gzip", b"x-gzip", b"deflate"):
            self._inflate = inflater(gzip=encoding != b"deflate")
            self._step_bytes = _ENCODED_STEP_BYTES
        elif encoding not in (b"", b"identity"):
            self._malformed = f"the content encoding {self._encoding!r}, which was not asked for"
        kind = headers.get(b"content-type", b"").lower()
        streamed = self._streamed and status == _OK
        self._undecided = streamed and b"event-stream" not in kind
        self._begin_body(streamed=streamed and b"json" not in kind)
        self._flows = True

    def _begin_body(self, *, streamed: bool) -> None:
        self._stream = CompletionStream(keeps_answer=self._keeps_answer) if streamed else None

    def on_chunk_header(self) -> None:  # the last one, of no bytes, too
        self._between_chunks = False

    def on_chunk_complete(self) -> None:
        self._between_chunks = self._flows and self._inflate is None

    def on_message_complete(self) -> None:
        """Note where the response ended; what may follow is not its body."""
        if self.status is not None and self.complete_at is None:
            self._feed()
            self.complete_at = self._place
            self._flows = self._between_chunks = False

    def _feed(self) -> None:
        """Hand on the pieces of the body that the parser has found; what follows is not body."""
        pieces = self._pieces
        for piece in pieces if self.complete_at is None else ():
            self.begun = True
            self._body_bytes += len(piece)
            try:
                for part in (piece,) if self._inflate is None else self._inflate(piece):
                    if (
                        self._has_enough()
                    ):  # asked for each: a read can inflate to a thousand pieces
                        break
                    self._feed_part(part)
            except zlib.error as error:
                self._malformed = f"a {self._encoding} body that does not unpack ({error})"
        pieces.clear()

    def _feed_part(self, piece: bytes) -> None:
        """Hand on a piece. What a body is whose type is not an event stream's, its first byte says:
        a proxy may call a stream JSON, or nothing.
        """
        if self._undecided and (start := piece.lstrip()[:1]):
            self._undecided = False
            self._begin_body(streamed=start not in b"{[<")
        if self._stream is not None:
            self._stream.feed(piece, self._place)
        else:
            self._text += piece

    # --- the end ------------------------------------------------------------------------------

    def body(self, *, complete: bool) -> Body | None:
        """Return the body, None where no head came; a last event without its blank line counts only
        where ``complete``.
        """
        self._parser = None  # it holds this object: a cycle, and no collector runs in a window
        stream = self._stream
        if self.status is None:
            return None
        if stream is None:
            large = len(self._text) > MAX_TEXT_BYTES
            return Body(None, bytes(self._text), large, self._malformed)
        if complete and not stream.too_large:
            stream.end(self._place)
        return Body(stream.result(self.times), b"", stream.too_large, self._malformed)


def inflater(*, gzip: bool) -> Callable[[bytes], Iterator[bytes]]:
    """Return what undoes gzip (RFC 1952), or deflate with its zlib wrapper (RFC 1950) or, as some
    send it, without: the inflated bytes in pieces of at most 64 KiB, whatever the bytes expand to.
    Raises zlib.error.
    """
    inflating = zlib.decompressobj(16 + zlib.MAX_WBITS if gzip else zlib.MAX_WBITS)
    may_be_bare = not gzip

    def inflate(data: bytes) -> Iterator[bytes]:
        nonlocal inflating, may_be_bare
        while data and not inflating.eof:
            try:
                piece = inflating.decompress(data, _INFLATED_BYTES)
            except zlib.error:
                if not may_be_bare:
                    raise
                inflating, may_be_bare = zlib.decompressobj(-zlib.MAX_WBITS), False
                continue
            may_be_bare = False
            data = inflating.unconsumed_tail
            if piece:
                yield piece

    return inflate

"""One HTTP/1.1 response, understood from the socket reads it came in: head, framing and body.

The reads are kept as they came, each known by its place, and parsed later: by httptools in place,
its body handed on as it comes, in slices that the loop polls its sockets between (parsing.py).
Not for: what the events of a body mean (completion_stream.py), or connections (connection.py).
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import httptools

from agentx_replay.endpoint.alike import AlikeChunks
from agentx_replay.endpoint.completion_stream import CompletionStream, ParsedStream
from agentx_replay.endpoint.decode import Decoder, Identity, UndecodableError, decoder_for
from agentx_replay.endpoint.timing import ReadTimes

MAX_TEXT_BYTES = 4_000_000
_MAX_HEAD_BYTES = 65_536
_STEP_BYTES = 4_096
_ENCODED_STEP_BYTES = 256
_READS_A_LOOK = 16
"""As many reads are parsed between two looks at the clock."""

_ALIKE_A_LOOK = 256
"""The same for reads that the parser need not see."""

_PROTOCOL = b"HTTP/"
_NOT_HTTP = "the answer is not HTTP"
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


class PlainText:
    """A body that is no event stream: an error, or a plain answer."""

    __slots__ = ("_text", "too_large")

    def __init__(self) -> None:
        self._text = bytearray()
        self.too_large = False

    @property
    def finished(self) -> bool:
        """Whether the rest need not be waited for."""
        return self.too_large

    def feed(self, piece: bytes, place: int) -> None:  # noqa: ARG002 (as a stream is fed)
        """Keep the piece."""
        if self.too_large:
            return
        self._text += piece
        self.too_large = len(self._text) > MAX_TEXT_BYTES

    def end(self, place: int) -> None:
        """Nothing more is known at the end."""

    @property
    def text(self) -> bytes:
        """What came."""
        return bytes(self._text)


@dataclass(slots=True, eq=False)
class Head:
    """What a response's head says; ``headers`` have lower-case names."""

    status: int
    headers: dict[bytes, bytes]
    keep_alive: bool
    chunked: bool = field(init=False)
    length: int | None = field(init=False)

    def __post_init__(self) -> None:
        encodings = self.headers.get(b"transfer-encoding", b"").lower()
        self.chunked = encodings.endswith(b"chunked")
        length = self.headers.get(b"content-length", b"")
        self.length = int(length) if length.isdigit() and not encodings else None

    @property
    def ends_by_close(self) -> bool:
        """Whether the close of the connection is the proper end of the body."""
        return not self.chunked and self.length is None


class HttpResponse:
    """One response: ``add`` its reads, ``run`` the parser over them, ``end`` and take the ``body``.

    ``streamed`` is whether a success must be an event stream. ``head`` is the final one, None
    until it has come; ``fault`` says why what came is no such response. ``complete_at`` is the
    place of the read that completed it; ``excess`` whether bytes came after its end.
    """

    def __init__(self, times: ReadTimes, *, streamed: bool, keeps_answer: bool) -> None:
        self.times = times
        self.head: Head | None = None
        self.fault: str | None = None
        self.complete_at: int | None = None
        self.excess = False
        self._streamed = streamed
        self._keeps_answer = keeps_answer
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        """Called by the parser with each piece of the body."""
        self._feed: Callable[[bytes, int], None] = _forget
        self._parser: Any = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_chunked_length=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._waiting: deque[Any] = deque()
        self._place = -1
        self._inside_read = False
        self._start = b""
        self._head_bytes = 0
        self._headers: dict[bytes, bytes] = {}
        self._body_bytes = 0
        self._step_bytes = _STEP_BYTES
        self._flows = False
        self._between_chunks = False
        self._alike_chunks = AlikeChunks()
        self._decoder: Decoder = Identity()
        self._malformed: str | None = None
        self._sink: CompletionStream | PlainText | None = None
        self._undecided = False

    @property
    def over(self) -> bool:
        """Whether nothing that may still come matters."""
        sink = self._sink
        return self.fault is not None or self._malformed is not None or (
            sink is not None and sink.finished
        )  # fmt: skip

    @property
    def done(self) -> bool:
        """Whether ``[DONE]`` has come."""
        return isinstance(self._sink, CompletionStream) and self._sink.done

    @property
    def missing_bytes(self) -> int | None:
        """How many bytes of the body are still to come; None where that is not known."""
        head = self.head
        return None if head is None or head.length is None else head.length - self._body_bytes

    def add(self, reads: Sequence[bytes]) -> int:
        """Take the next reads, in order; return how many bytes they are."""
        self._waiting += reads
        return sum(map(len, reads))

    def run(self, until_ns: int) -> bool:
        """Parse what has come, until that time; return whether there is more."""
        waiting, pieces, parse = self._waiting, self._pieces, self._parser.feed_data
        reads = 0
        while waiting:
            was_between = self._between_chunks
            if was_between and not self._inside_read and self._take_alike():
                if time.monotonic_ns() >= until_ns:
                    return bool(waiting)
                continue
            data = waiting.popleft()
            if self._inside_read or len(data) > self._step_bytes:
                data = self._beginning_of(data)
            else:
                self._place += 1
            if not self._flows and not self._may_go_on(data):
                continue
            try:
                parse(data)
            except _PARSER_ERRORS as error:
                self._failed(error)
            if pieces:
                feed, place = self._feed, self._place
                for piece in pieces:
                    feed(piece, place)
                if was_between and self._between_chunks and len(pieces) == 1:
                    self._learn_alike(data, pieces[0])
                pieces.clear()
            reads += 1
            if (self._inside_read or reads % _READS_A_LOOK == 0) and (
                time.monotonic_ns() >= until_ns
            ):
                return bool(waiting)
        return False

    def _take_alike(self) -> bool:
        """Take the next reads, while each is one chunk of one event as there were before; return
        whether any was.
        """
        sink = self._sink
        alike = sink.alike if isinstance(sink, CompletionStream) else None
        if alike is None or not isinstance(sink, CompletionStream):
            return False
        waiting = self._waiting
        texts = self._alike_chunks.texts(islice(waiting, _ALIKE_A_LOOK), alike)
        sink.take_alike(texts, self._place + 1)
        self._place += len(texts)
        for _ in texts:
            waiting.popleft()
        return bool(texts)

    def _learn_alike(self, data: bytes | memoryview, piece: bytes) -> None:
        """Learn from a read that was one whole chunk."""
        sink = self._sink
        alike = sink.alike if isinstance(sink, CompletionStream) else None
        if alike is not None and not self._inside_read and isinstance(data, bytes):
            self._alike_chunks.learn(data, piece, alike)

    def _beginning_of(self, data: bytes | memoryview) -> bytes | memoryview:
        """Return the beginning of a long read, or of what is left of one; the rest waits."""
        if not self._inside_read:
            self._place += 1
        self._inside_read = len(data) > self._step_bytes
        if self._inside_read:
            rest = memoryview(data)
            self._waiting.appendleft(rest[self._step_bytes :])
            return rest[: self._step_bytes]
        return data

    def _failed(self, error: Exception) -> None:
        """Say why the bytes are no such response; after its end they matter no more."""
        if self.complete_at is not None:
            self.excess = True
        elif isinstance(error, httptools.HttpParserUpgrade):
            self.fault = "the server changed to another protocol"
        elif self.head is None:
            self.fault = f"a response head that is not HTTP ({error})"
        else:
            self.fault = f"a body that is not framed as HTTP says ({error})"
        self._flows = False

    def _may_go_on(self, data: bytes | memoryview) -> bool:
        """Whether bytes outside a body are to be parsed: before it, behind it, or after a fault."""
        if self.fault is not None:
            return False
        if self.complete_at is not None:
            self.excess = True
            return False
        return self.head is not None or self._may_be_head(data)

    def _may_be_head(self, data: bytes | memoryview) -> bool:
        """Look at bytes before the final head is whole: the parser passes over line ends before it,
        and knows no bound.
        """
        if len(self._start) < len(_PROTOCOL):
            self._start = (self._start + bytes(data[: len(_PROTOCOL)]))[: len(_PROTOCOL)]
        self._head_bytes += len(data)
        if not _PROTOCOL.startswith(self._start):
            self.fault = _NOT_HTTP
        elif self._head_bytes - len(data) > _MAX_HEAD_BYTES:
            self.fault = "a response head without end"
        return self.fault is None

    # --- what the parser calls ----------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A message after the response is one that nobody asked for."""
        self.excess = self.excess or self.complete_at is not None

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; trailers come here, too, and are not looked at."""
        if self.head is None:
            self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Set up for the body; an interim answer says nothing."""
        status = self._parser.get_status_code()
        headers, self._headers = self._headers, {}
        if status < _OK or self.head is not None:
            return
        self.head = Head(status, headers, self._parser.should_keep_alive())
        encoding = headers.get(b"content-encoding", b"")
        try:
            self._decoder = decoder_for(encoding)
        except UndecodableError as error:
            self.fault = str(error)
        kind = headers.get(b"content-type", b"").lower()
        streamed = self._streamed and status == _OK
        self._undecided = streamed and b"event-stream" not in kind
        if not isinstance(self._decoder, Identity):
            self._step_bytes = _ENCODED_STEP_BYTES
        self._begin_body(streamed=streamed and b"json" not in kind)
        self._flows = self.fault is None

    def _begin_body(self, *, streamed: bool) -> None:
        stream = CompletionStream(keeps_answer=self._keeps_answer)
        sink = self._sink = stream if streamed else PlainText()
        direct = self.head is not None and self.head.chunked and not self._undecided
        direct = direct and isinstance(self._decoder, Identity)
        self._feed = sink.feed if direct else self._take

    def _decide(self, piece: bytes) -> None:
        """See by its first byte what a body is whose type is not an event stream's: a proxy may
        call one JSON, or nothing.
        """
        if start := piece.lstrip()[:1]:
            self._undecided = False
            self._begin_body(streamed=start not in b"{[<")

    def _take(self, piece: bytes, place: int) -> None:
        """Count a piece of the body, undo its encoding, and hand it on."""
        self._body_bytes += len(piece)
        try:
            for decoded in self._decoder.pieces(piece):
                if self._undecided:
                    self._decide(decoded)
                sink = self._sink
                # Asked for each: a read can inflate to a thousand pieces.
                if sink is None or sink.finished or self._malformed is not None:
                    return
                sink.feed(decoded, place)
        except UndecodableError as error:
            self._malformed = str(error)

    def on_chunk_header(self) -> None:
        """A chunk has begun; the last one, of no bytes, too."""
        self._between_chunks = False

    def on_chunk_complete(self) -> None:
        """A chunk has ended."""
        self._between_chunks = self._flows

    def on_message_complete(self) -> None:
        """Note where the response ended; what may follow is not its body."""
        if self.head is not None and self.complete_at is None:
            for piece in self._pieces:
                self._feed(piece, self._place)
            self._pieces.clear()
            self.complete_at = self._place
            self._flows, self._feed = False, _forget
            self._between_chunks = False

    # --- the end ------------------------------------------------------------------------------

    def body(self, *, complete: bool) -> Body | None:
        """Return the body, None where no head came; a last event without its blank line counts only
        where ``complete``.
        """
        sink = self._sink
        # They hold this object: a cycle, and no collector runs in a window.
        self._parser, self._feed = None, _forget
        if sink is None:
            return None
        if complete and not sink.too_large:
            sink.end(self._place)
        if isinstance(sink, PlainText):
            return Body(text=sink.text, too_large=sink.too_large, malformed=self._malformed)
        return Body(sink.result(self.times), b"", sink.too_large, self._malformed)


def _forget(piece: bytes, place: int) -> None:
    """Pass over a piece of what is not the body."""

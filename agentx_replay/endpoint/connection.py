"""One HTTP/1.1 connection: a request out, its response stamped read by read.

Per socket read this does one clock read, two appends and one look at the bytes' tail for the end of
the response; nothing is parsed and nobody is woken before that end. A ``Protocol`` and not a
``BufferedProtocol``: an event loop makes a small read into bytes for less than it takes to ask for
a buffer and to copy out of it. Heads are read by httptools, bodies framed by framing.py and
understood by parsing.py.
Not for: which connection a request takes, or what a response means (client.py, outcome.py).
"""

import asyncio
import socket
import struct
import time
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import cast

import httptools

from agentx_replay.endpoint.answer import AnswerSink
from agentx_replay.endpoint.decode import UndecodableError, decoder_for
from agentx_replay.endpoint.framing import (
    Framing,
    MalformedFramingError,
    UntilClose,
    framing_of,
)
from agentx_replay.endpoint.parsing import (
    SEGMENT_BYTES,
    Body,
    BodyJob,
    EventSink,
    ParseQueue,
    Segment,
    Sink,
    TextSink,
)

_NS = 1_000_000_000
_WRITE_BYTES = 262_144
_MAX_HEAD_BYTES = 65_536
_END = b"\r\n\r\n"
"""Of a head, and of a chunked body."""

_END_BYTES = len(_END)
_PROTOCOL = b"HTTP/"
_NOT_HTTP = "the answer is not HTTP"
_OK = 200
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""``struct linger``: on, for no time."""

_now_ns = time.monotonic_ns
"""Global, for an attribute that is called is looked up by name each time."""


class Ending(StrEnum):
    """How a response stopped."""

    COMPLETE = "complete"
    LOST = "lost"
    CUT = "cut"
    TIMEOUT = "timeout"
    MALFORMED = "malformed"
    GIVEN_UP = "given_up"


@dataclass(slots=True, eq=False)
class Exchange:
    """One request's passage over a connection, filled in as it happens; stamps in ns.

    ``body`` is there when ``done`` is, where a head came. ``headers`` have lower-case names.
    """

    send_ns: int
    done: "asyncio.Future[None]"
    streamed: bool
    sent_ns: int | None = None
    first_byte_ns: int | None = None
    end_ns: int = 0
    http_status: int | None = None
    headers: dict[bytes, bytes] = field(default_factory=dict)
    ending: Ending | None = None
    fault: str | None = None
    body: Body | None = None

    @property
    def unanswered(self) -> bool:
        """Whether the connection was lost before any byte of a response."""
        return self.ending is Ending.LOST and self.first_byte_ns is None


class _Head:
    """What httptools tells of one response head."""

    __slots__ = ("_parser", "headers")

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self._parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def read(self, head: bytes) -> tuple[int, bool]:
        """Return the status and whether the connection may live on."""
        self._parser.feed_data(head)
        return self._parser.get_status_code(), self._parser.should_keep_alive()


class Connection(asyncio.Protocol):
    """One connection; one exchange at a time.

    ``keep_alive_s`` is what the server last announced. ``closed`` is done when it is, and
    ``closed_after_idle_s`` then the age at which the server closed it while it was free.
    ``keeps_answers`` is whether what is said is kept beside what it is measured by.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, parses: ParseQueue, *, keeps_answers: bool = False
    ) -> None:
        self._loop = loop
        self._parses = parses
        self._keeps_answers = keeps_answers
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._unsent: list[memoryview] = []
        self._sending = False
        self._head = bytearray()
        self._reads: list[bytes] | None = None
        self._stamps: list[int] = []
        self._look_in = 0
        self._segment_bytes = SEGMENT_BYTES
        self._framing: Framing = UntilClose()
        self._job: BodyJob | None = None
        self._reusable = True
        self._idle_since_ns = _now_ns()
        self.closed_after_idle_s: float | None = None
        self.keep_alive_s: float | None = None
        self.closed: asyncio.Future[None] = loop.create_future()

    # --- the hot path -------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Keep a read and its stamp; look closer only where the response may have ended."""
        stamp_ns = _now_ns()
        reads = self._reads
        if reads is None:
            self._read_head(data, stamp_ns)
            return
        reads.append(data)
        self._stamps.append(stamp_ns)
        size = len(data)
        self._look_in = left = self._look_in - size
        if left <= 0 or size < _END_BYTES or data.endswith(_END):
            self._look_if_ended(reads, stamp_ns)

    # --- requests -----------------------------------------------------------------------------

    def exchange(self, request: bytes, *, streamed: bool) -> Exchange:
        """Send a request, already framed, and return its exchange, under way.

        ``streamed`` is whether a success is to be an event stream.
        """
        if self._exchange is not None:
            raise RuntimeError("a stream has one request in flight at a time")
        whole = memoryview(request)
        starts = range(0, len(request), _WRITE_BYTES)
        self._unsent = [whole[at : at + _WRITE_BYTES] for at in reversed(starts)]
        self._sending = True
        exchange = Exchange(_now_ns(), self._loop.create_future(), streamed)
        self._exchange = exchange
        if self._transport is None:
            self._finish(Ending.LOST, exchange.send_ns)
        else:
            self._write(self._transport, exchange)
        return exchange

    def _write(self, transport: asyncio.Transport, exchange: Exchange) -> None:
        """Write until the kernel takes no more; stamp when the user-space buffer is empty."""
        while self._unsent and not transport.get_write_buffer_size():
            transport.write(self._unsent.pop())
        if not self._unsent and not transport.get_write_buffer_size():
            exchange.sent_ns = _now_ns()
            self._sending = False

    def resume_writing(self) -> None:
        """Go on: the transport's buffer has emptied."""
        if self._sending and self._transport is not None and self._exchange is not None:
            self._write(self._transport, self._exchange)

    def stop(self, ending: Ending) -> None:
        """End the exchange in flight, if any, and the connection."""
        self._finish(ending, _now_ns())
        self.abort()

    def abort(self) -> None:
        """Close at once, with a reset: a close in good order would keep its port from being used
        for a minute, and a run that ends hundreds of streams a second would have none left.
        """
        self._reusable = False
        transport = self._transport
        if transport is None:
            return
        if not transport.is_closing():
            transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE
            )
        transport.abort()

    def usable(self, now_ns: int, idle_limit_s: float | None) -> bool:
        """Whether the connection is alive, and has not been idle for too long."""
        if not self._reusable:
            return False
        return idle_limit_s is None or now_ns - self._idle_since_ns < idle_limit_s * _NS

    # --- responses ----------------------------------------------------------------------------

    def _read_head(self, data: bytes, stamp_ns: int) -> None:
        """Collect a head; when it is whole, set up for the body and hand it what follows."""
        exchange = self._exchange
        if exchange is None:
            self.abort()  # nothing was asked
            return
        if exchange.first_byte_ns is None:
            exchange.first_byte_ns = stamp_ns
        head = self._head
        head += data
        while self._reads is None:
            end = head.find(_END)
            if end < 0:
                self._check_head(stamp_ns)
                return
            end += _END_BYTES
            fault = self._take_head(exchange, bytes(head[:end]))
            if fault is not None:
                self._give_up(Ending.MALFORMED, fault, stamp_ns)
                return
            del head[:end]
        if head:
            self._reads.append(bytes(head))
            self._stamps.append(stamp_ns)
        self._look(stamp_ns)

    def _check_head(self, stamp_ns: int) -> None:
        head = self._head
        if not head.startswith(_PROTOCOL[: len(head)]):
            self._give_up(Ending.MALFORMED, _NOT_HTTP, stamp_ns)
        elif len(head) > _MAX_HEAD_BYTES:
            self._give_up(Ending.MALFORMED, "a response head without end", stamp_ns)

    def _take_head(self, exchange: Exchange, head: bytes) -> str | None:
        """Take one head in (an interim one says nothing); return what is wrong with it."""
        if not head.startswith(_PROTOCOL):  # the parser passes over line ends before it
            return _NOT_HTTP
        reader = _Head()
        try:
            status, keep_alive = reader.read(head)
            if status < _OK:
                return None
            framing = framing_of(reader.headers, status)
            decoder = decoder_for(reader.headers.get(b"content-encoding", b""))
        except httptools.HttpParserError as error:
            return f"a response head that is not HTTP ({error})"
        except (MalformedFramingError, UndecodableError) as error:
            return str(error)
        exchange.http_status = status
        exchange.headers = reader.headers
        self._reusable = keep_alive and not self._sending
        self._stop_upload()
        self.keep_alive_s = announced_keep_alive_s(reader.headers.get(b"keep-alive", b""))
        self._framing = framing
        self._job = BodyJob(decoder, self._sink(exchange))
        self._reads = []
        self._segment_bytes = self._parses.first_segment_bytes()
        return None

    def _sink(self, exchange: Exchange) -> Sink:
        if not _streams(exchange):
            return TextSink()
        return AnswerSink() if self._keeps_answers else EventSink()

    def _stop_upload(self) -> None:
        """Send no more of a request that is answered already."""
        self._sending = False
        self._unsent.clear()

    def _look_if_ended(self, reads: list[bytes], stamp_ns: int) -> None:
        """Look where the end may have come, or enough bytes have."""
        if self._look_in <= 0 or _may_end(b"".join(reads[-_END_BYTES - 1 :])):
            self._look(stamp_ns)

    def _look(self, stamp_ns: int) -> None:
        """Frame what has come, hand it on, and end the response where it ends."""
        framing = self._framing
        given_up = self._hand_on()
        self._look_in = min(self._segment_bytes, framing.next_look() or self._segment_bytes)
        if framing.ended:
            self._reusable = self._reusable and not framing.excess
            self._finish(Ending.COMPLETE, stamp_ns)
        elif framing.fault is not None:
            self._give_up(Ending.MALFORMED, framing.fault, stamp_ns)
        elif given_up:
            self._give_up(Ending.GIVEN_UP, None, stamp_ns)

    def _hand_on(self) -> bool:
        """Hand on what came since the last time; return whether the rest does not matter."""
        reads, job = self._reads, self._job
        if not reads or job is None:
            return False
        raw = b"".join(reads)
        if len(raw) >= self._segment_bytes:
            self._segment_bytes = SEGMENT_BYTES
        offsets = list(accumulate(map(len, reads)))
        self._parses.add(job, Segment(raw, offsets, self._stamps, self._framing.scan(raw)))
        self._reads, self._stamps = [], []
        return job.finished

    def _give_up(self, ending: Ending, fault: str | None, stamp_ns: int) -> None:
        self._finish(ending, stamp_ns, fault)
        self.abort()

    def eof_received(self) -> None:
        """Let the transport close: a half-open server has no more to say."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; every byte it cannot pass on at once is to be known of."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one without saying so
        self._transport.set_write_buffer_limits(high=0)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the response: properly where a close is its proper end, else as lost."""
        lost_ns = _now_ns()
        if self._exchange is None and self._reusable:
            self.closed_after_idle_s = (lost_ns - self._idle_since_ns) / _NS
        ends = self._reads is not None and self._framing.ends_by_close and exc is None
        self._reusable = False
        self._finish(Ending.COMPLETE if ends else Ending.LOST, lost_ns, _reason(exc))
        self._transport = None
        self.closed.set_result(None)

    def _finish(self, ending: Ending, end_ns: int, fault: str | None = None) -> None:
        """End the exchange; its ``done`` follows when the body has been read."""
        exchange, job = self._exchange, self._job
        if exchange is None:
            return
        last_ns = self._stamps[-1] if self._stamps else end_ns
        self._hand_on()
        if self._framing.ended and ending is not Ending.COMPLETE:
            # The hot path did not see the end, for the same read brought more after it.
            ending, end_ns, fault = Ending.COMPLETE, last_ns, None
            self._reusable = False
        elif ending is Ending.LOST and self._framing.fault is not None:
            ending, fault = Ending.MALFORMED, self._framing.fault
        exchange.ending, exchange.end_ns, exchange.fault = ending, end_ns, fault
        self._exchange = self._job = self._reads = None
        self._framing = UntilClose()
        self._head.clear()
        self._stop_upload()
        self._reusable = self._reusable and ending is Ending.COMPLETE
        self._idle_since_ns = end_ns
        if not self._reusable:
            self.abort()
        if job is None:
            _resolve(exchange, None)
            return
        job.close(lambda body: _resolve(exchange, body), complete=ending is Ending.COMPLETE)
        self._parses.push(job)


def _may_end(tail: bytes) -> bool:
    """Whether a chunked body may end here: in CRLF CRLF, and never after another empty line."""
    return tail.endswith(_END) and tail[-_END_BYTES - 1 : -_END_BYTES] != b"\n"


def _resolve(exchange: Exchange, body: Body | None) -> None:
    exchange.body = body
    if not exchange.done.done():
        exchange.done.set_result(None)


def _streams(exchange: Exchange) -> bool:
    """Whether the response is an event stream, as asked: a success that is not said to be JSON."""
    if not exchange.streamed or exchange.http_status != _OK:
        return False
    return b"json" not in exchange.headers.get(b"content-type", b"").lower()


def _reason(exc: Exception | None) -> str | None:
    return None if exc is None else str(exc) or type(exc).__name__


def announced_keep_alive_s(header: bytes) -> float | None:
    """Return the seconds that a ``Keep-Alive: timeout=N`` header announces, None where none."""
    for part in header.split(b","):
        name, _, value = part.strip().partition(b"=")
        if name.strip().lower() == b"timeout" and value.strip().isdigit():
            return float(value)
    return None

"""One HTTP/1.1 connection: a request out, its response kept read by read and parsed later.

Not for: bytes on the wire (stamped_socket.py), which connection a request takes, or what a response
means (client.py, outcome.py).
"""

import asyncio
import time
from dataclasses import dataclass, field
from enum import StrEnum

from agentx_replay.endpoint.http_response import Body, HttpResponse
from agentx_replay.endpoint.stamped_socket import Pieces, StampedSocket, Wire
from agentx_replay.endpoint.timing import ReadTimes

_NS = 1_000_000_000
_SILENCE_S = 1.0
"""After so long without a read what has come is parsed, and after ``[DONE]`` no end awaited: the
socket shows only what may be an end, and some servers never end the body.
"""


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

    ``send_uncertainty_ns`` is how long the last byte of the request waited for this process.
    ``body`` is there when ``done`` is, where a head came. ``headers`` have lower-case names.
    """

    send_ns: int
    done: "asyncio.Future[None]"
    sent_ns: int | None = None
    send_uncertainty_ns: int = 0
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


@dataclass(frozen=True, slots=True)
class _Stop:
    """Why no more of a response will be read, and since when."""

    ending: Ending
    at_ns: int
    fault: str | None = None


@dataclass(slots=True, eq=False)
class _Passage:
    """An exchange under way, its response, and what the socket had seen before it."""

    exchange: Exchange
    response: HttpResponse
    segments_before: int | None
    silent_reads_before: int
    late_before_ns: int
    stop: _Stop | None = None


class Connection:
    """One connection; one exchange at a time.

    ``keep_alive_s`` is what the server last announced. ``closed`` is done when it is, and
    ``closed_after_idle_s`` then the age at which the server closed it while it was free.
    ``keeps_answers`` is whether what is said is kept beside what it is measured by.
    """

    def __init__(self, wire: Wire, sock: StampedSocket, *, keeps_answers: bool = False) -> None:
        self._wire = wire
        self._sock = sock
        self._keeps_answers = keeps_answers
        self._passage: _Passage | None = None
        self._silence: asyncio.TimerHandle | None = None
        self._reusable = True
        self._idle_since_ns = time.monotonic_ns()
        self.closed_after_idle_s: float | None = None
        self.keep_alive_s: float | None = None
        self.closed: asyncio.Future[None] = wire.loop.create_future()
        sock.start(self)

    def exchange(self, request: Pieces, *, streamed: bool) -> Exchange:
        """Send a request, already framed, and return its exchange, under way.

        ``streamed`` is whether a success must be an event stream.
        """
        if self._passage is not None:
            raise RuntimeError("a stream has one request in flight at a time")
        wire, sock = self._wire, self._sock
        wire.polls.begin()
        segments = sock.data_segments
        exchange = Exchange(time.monotonic_ns(), wire.loop.create_future())
        times = ReadTimes(wire.timestamps == "kernel", exchange.send_ns)
        response = HttpResponse(times, streamed=streamed, keeps_answer=self._keeps_answers)
        late_ns = wire.polls.late_by_ns()
        self._passage = _Passage(exchange, response, segments, sock.silent_reads, late_ns)
        if sock.closed:
            self._stop(_Stop(Ending.LOST, exchange.send_ns))
        else:
            sock.send(request)
            exchange.send_uncertainty_ns = time.monotonic_ns() - exchange.send_ns
            self._await_silence(0)
        return exchange

    def _await_silence(self, reads: int) -> None:
        self._silence = self._wire.loop.call_later(_SILENCE_S, self._look_if_silent, reads)

    def _look_if_silent(self, reads_before: int) -> None:
        passage = self._passage
        if passage is None:
            return
        response = passage.response
        reads = len(response.times.stamps) + len(self._sock.reads) // 3
        if reads == reads_before:
            if response.done:
                self._stop(_Stop(Ending.LOST, 0))  # it ended with the last read
            elif self._sock.reads:
                self._hand_over(response)
        self._await_silence(reads)

    def stop(self, ending: Ending) -> None:
        """End the exchange in flight, if any, and the connection."""
        self._stop(_Stop(ending, time.monotonic_ns()))
        self.abort()

    def abort(self) -> None:
        """Close at once."""
        self._reusable = False
        self._sock.close()
        if not self.closed.done():
            self.closed.set_result(None)

    def usable(self, now_ns: int, idle_limit_s: float | None) -> bool:
        """Whether the connection is alive, and has not been idle for too long."""
        if not self._reusable:
            return False
        return idle_limit_s is None or now_ns - self._idle_since_ns < idle_limit_s * _NS

    # --- what the socket tells ----------------------------------------------------------------

    def look(self) -> None:
        """Have what was read parsed; where nothing was asked, or nothing more matters, close."""
        passage = self._passage
        if passage is None:
            self.abort()
        elif passage.response.over:
            self._finish(passage, _Stop(Ending.GIVEN_UP, time.monotonic_ns()))
        else:
            self._hand_over(passage.response)

    def sent(self, at_ns: int) -> None:
        """Note when the request had left, and by how much this process held it up."""
        passage = self._passage
        if passage is not None:
            passage.exchange.sent_ns = at_ns
            late_ns = self._wire.polls.late_by_ns() - passage.late_before_ns
            passage.exchange.send_uncertainty_ns += late_ns

    def lost(self, error: Exception | None) -> None:
        """End the response: properly where a close is its proper end, else as lost."""
        lost_ns = time.monotonic_ns()
        if self._passage is None and self._reusable:
            self.closed_after_idle_s = (lost_ns - self._idle_since_ns) / _NS
        fault = None if error is None else str(error) or type(error).__name__
        self._stop(_Stop(Ending.LOST, lost_ns, fault))
        self.abort()

    # --- responses ----------------------------------------------------------------------------

    def _stop(self, stop: _Stop) -> None:
        """Read no more of the response under way; it ends when what came is parsed."""
        passage = self._passage
        if passage is not None and passage.stop is None:
            passage.stop = stop
            self._note_segments(passage)
            self._hand_over(passage.response)

    def _hand_over(self, response: HttpResponse) -> None:
        """Give what was read to be parsed when the loop has polled its sockets."""
        sock, times = self._sock, response.times
        reads = sock.reads
        times.bounds.update(len(times.stamps) + at for at in sock.bounds)
        times.stamps += reads[1::3]
        times.intervals += reads[2::3]
        size = response.add(reads[0::3])
        reads.clear()
        sock.bounds.clear()
        sock.look_in = sock.look_bytes
        self._wire.parses.push(self, size)

    def parse(self, until_ns: int) -> bool:
        """Parse what was handed over, until that time; return whether there is more."""
        return self._passage is not None and self._passage.response.run(until_ns)

    def parsed(self) -> None:
        """See how far the response has come, now that all that was handed over is parsed."""
        passage = self._passage
        if passage is None:
            return
        exchange, response, stop = passage.exchange, passage.response, passage.stop
        self._take_head(exchange, response)
        if response.complete_at is not None:
            end_ns = int(response.times.ns()[response.complete_at])
            self._finish(passage, _Stop(Ending.COMPLETE, end_ns))
        elif response.fault is not None and (stop is None or stop.ending is Ending.LOST):
            self._finish(passage, _Stop(Ending.MALFORMED, time.monotonic_ns(), response.fault))
        elif stop is not None:
            self._finish(passage, _as_meant(stop, response))
        else:
            self._look_in_time(response)

    def _take_head(self, exchange: Exchange, response: HttpResponse) -> None:
        head = response.head
        if head is None or exchange.http_status is not None:
            return
        exchange.http_status, exchange.headers = head.status, head.headers
        self._reusable = self._reusable and head.keep_alive and exchange.sent_ns is not None
        self._sock.stop_sending()  # no more of a request that is answered already
        self.keep_alive_s = announced_keep_alive_s(head.headers.get(b"keep-alive", b""))

    def _look_in_time(self, response: HttpResponse) -> None:
        """Have the socket show the end where no empty line will."""
        sock = self._sock
        wanted = 1 if response.head is None else response.missing_bytes
        if wanted is not None:
            sock.look_in = min(wanted, sock.look_bytes) - sum(map(len, sock.reads[0::3]))
            if sock.look_in <= 0:
                self._hand_over(response)

    def _note_segments(self, passage: _Passage) -> None:
        """Note whether each read of the response was of one segment."""
        times, sock = passage.response.times, self._sock
        segments, before = sock.data_segments, passage.segments_before
        if segments is not None and before is not None:
            waiting = len(sock.reads) // 3 + sock.silent_reads - passage.silent_reads_before
            times.one_segment_each = segments - before == len(times.stamps) + waiting

    def _finish(self, passage: _Passage, stop: _Stop) -> None:
        """End the exchange."""
        exchange, response, sock = passage.exchange, passage.response, self._sock
        if passage.stop is None:
            self._note_segments(passage)
        self._wire.polls.end()
        complete = response.complete_at is not None
        exchange.ending, exchange.end_ns, exchange.fault = stop.ending, stop.at_ns, stop.fault
        if response.times.stamps:
            ns = response.times.ns()
            exchange.first_byte_ns = int(ns[0])
            if not complete:  # a timestamp may be late, as where the clock was set
                exchange.end_ns = max(stop.at_ns, int(ns[-1]))
        complete = stop.ending is Ending.COMPLETE
        exchange.body = response.body(complete=complete)
        self._passage = None
        if self._silence is not None:
            self._silence.cancel()
        self._reusable = self._reusable and complete and not response.excess and not sock.reads
        self._idle_since_ns = stop.at_ns
        sock.look_in = 0
        if not self._reusable:
            self.abort()
        if not exchange.done.done():
            exchange.done.set_result(None)


def _as_meant(stop: _Stop, response: HttpResponse) -> _Stop:
    """Return the end of a response that was not complete by itself: a close may be what ends it."""
    head = response.head
    meant = head is not None and head.ends_by_close
    if stop.ending is Ending.LOST and stop.fault is None and meant:
        return _Stop(Ending.COMPLETE, stop.at_ns)
    return stop


def announced_keep_alive_s(header: bytes) -> float | None:
    """Return the seconds that a ``Keep-Alive: timeout=N`` header announces, None where none."""
    for part in header.split(b","):
        name, _, value = part.strip().partition(b"=")
        if name.strip().lower() == b"timeout" and value.strip().isdigit():
            return float(value)
    return None

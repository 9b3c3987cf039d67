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
from agentx_replay.units import NS_PER_S


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

    ``connect_start_ns`` and ``connected_ns`` are of a connection that was made for it; ``retries``
    is whether it was sent again. ``send_uncertainty_ns`` is how long the last byte of the request
    waited for this process. ``body`` is there when ``done`` is, where a head came. ``headers`` have
    lower-case names.
    """

    send_ns: int
    done: "asyncio.Future[None]"
    sent_ns: int | None = None
    send_uncertainty_ns: int = 0
    connect_start_ns: int | None = None
    connected_ns: int | None = None
    retries: int = 0
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


@dataclass(slots=True, eq=False)
class _Passage:
    """An exchange under way, its response, and what the socket had seen before it.

    ``stop`` is how it ended before its response was complete, when, and why. Nothing was read for
    a while from ``paused_ns`` on.
    """

    exchange: Exchange
    response: HttpResponse
    segments_before: int | None
    late_before_ns: int
    begun: bool = False
    reads_before: int = -1
    stop: tuple[Ending, int, str | None] | None = None
    paused_ns: int | None = None


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
        wire.every_second.begin(self._look_if_silent)
        exchange = Exchange(0, wire.loop.create_future())
        times = ReadTimes(wire.timestamps == "kernel", 0)
        response = HttpResponse(times, streamed=streamed, keeps_answer=self._keeps_answers)
        sock.silent_reads = 0
        late_ns = wire.polls.late_by_ns()
        self._passage = _Passage(exchange, response, sock.data_segments, late_ns)
        exchange.send_ns = times.sent_ns = time.monotonic_ns()
        if sock.closed:
            self._stop(Ending.LOST, exchange.send_ns)
        else:
            sock.send(request)
            exchange.send_uncertainty_ns = time.monotonic_ns() - exchange.send_ns
        return exchange

    def stop(self, ending: Ending) -> None:
        """End the exchange in flight, if any, and the connection."""
        self._stop(ending, time.monotonic_ns())
        self.abort()

    def give_up(self) -> None:
        """Close at once, and parse nothing more of a response that nobody waits for."""
        if self._passage is not None:
            self._leave_the_loop(self._passage)
            self._passage = None
        self.abort()

    def abort(self) -> None:
        self._reusable = False
        self._sock.close()
        if not self.closed.done():
            self.closed.set_result(None)

    def usable(self, now_ns: int, idle_limit_s: float | None) -> bool:
        if not self._reusable:
            return False
        return idle_limit_s is None or now_ns - self._idle_since_ns < idle_limit_s * NS_PER_S

    # --- what the socket says -----------------------------------------------------------------

    def look(self) -> None:
        """Have what was read parsed; where nothing was asked, or nothing more matters, close."""
        if (passage := self._passage) is None:
            self.abort()
        elif passage.response.over:
            self._finish(passage, Ending.GIVEN_UP, time.monotonic_ns())
        else:
            self._hand_over(passage)

    def sent(self, at_ns: int) -> None:
        """Note when the request had left, and by how much this process held it up."""
        if (passage := self._passage) is not None:
            passage.exchange.sent_ns = at_ns
            late_ns = self._wire.polls.late_by_ns() - passage.late_before_ns
            passage.exchange.send_uncertainty_ns += late_ns

    def lost(self, error: Exception | None) -> None:
        """End the response: properly where a close is its proper end, else as lost."""
        lost_ns = time.monotonic_ns()
        if self._passage is None and self._reusable:
            self.closed_after_idle_s = (lost_ns - self._idle_since_ns) / NS_PER_S
        fault = None if error is None else str(error) or type(error).__name__
        self._stop(Ending.LOST, lost_ns, fault)
        self.abort()

    def _look_if_silent(self) -> None:
        """Parse what came before a second or two of silence, and after ``[DONE]`` await no end: the
        socket shows only what may be an end, and some servers never end the body.
        """
        if (passage := self._passage) is None:
            return
        reads = passage.response.times.reads + len(self._sock.reads)
        if reads == passage.reads_before:
            if passage.response.done:
                self._stop(Ending.LOST, 0)  # it ended with the last read
            elif self._sock.reads:
                self._hand_over(passage)
        passage.reads_before = reads

    # --- responses ----------------------------------------------------------------------------

    def _stop(self, ending: Ending, at_ns: int, fault: str | None = None) -> None:
        """Read no more of the response under way; it ends when what came is parsed."""
        passage = self._passage
        if passage is not None and passage.stop is None:
            passage.stop = ending, at_ns, fault
            self._count_segments(passage)
            self._hand_over(passage)

    def _hand_over(self, passage: _Passage) -> None:
        """Give what was read to be parsed when the loop has polled its sockets."""
        sock, response, times = self._sock, passage.response, passage.response.times
        times.bounds += [times.reads + at for at in sock.bounds]
        times.stamps += sock.stamps
        size = response.add(sock.reads)
        sock.reads.clear()
        sock.stamps.clear()
        sock.bounds.clear()
        sock.look_after(sock.look_bytes)
        if self._wire.parses.push(self, size):
            sock.pause()
            passage.paused_ns = passage.paused_ns or time.monotonic_ns()

    def parse(self, until_ns: int) -> bool:
        """Parse what was handed over, until that time; return whether there is more."""
        return self._passage is not None and self._passage.response.run(until_ns)

    def parsed(self) -> None:
        """See how far the response has come, now that all that was handed over is parsed."""
        self._sock.resume()
        if (passage := self._passage) is None:
            return
        response, stop = passage.response, passage.stop
        self._take_head(passage.exchange, response)
        if response.complete_at is not None:
            self._finish(passage, Ending.COMPLETE, 0)
        elif response.fault is not None and (stop is None or stop[0] is Ending.LOST):
            self._finish(passage, Ending.MALFORMED, time.monotonic_ns(), response.fault)
        elif stop is not None:
            meant = stop[0] is Ending.LOST and stop[2] is None and response.ends_by_close
            self._finish(passage, Ending.COMPLETE if meant else stop[0], *stop[1:])
        elif response.over:
            self._finish(passage, Ending.GIVEN_UP, time.monotonic_ns())
        else:
            self._look_in_time(passage)

    def _take_head(self, exchange: Exchange, response: HttpResponse) -> None:
        if response.status is None or exchange.http_status is not None:
            return
        exchange.http_status, exchange.headers = response.status, response.headers
        self._reusable = self._reusable and response.keep_alive and exchange.sent_ns is not None
        self._sock.stop_sending()  # no more of a request that is answered already
        self.keep_alive_s = announced_keep_alive_s(response.headers.get(b"keep-alive", b""))

    def _look_in_time(self, passage: _Passage) -> None:
        """Have the socket show the first bytes of the body, and the end that no empty line will."""
        sock, response = self._sock, passage.response
        if response.begun and not passage.begun:
            passage.begun = True
            self._wire.polls.begun()
        wanted = response.missing_bytes if passage.begun else 1
        if wanted is not None:
            wanted = min(wanted, sock.look_bytes) - sum(map(len, sock.reads))
            sock.look_after(wanted)
            if wanted <= 0:
                self._hand_over(passage)

    def _count_segments(self, passage: _Passage) -> None:
        """Note whether each read of the response was of one segment."""
        times, sock = passage.response.times, self._sock
        segments, before = sock.data_segments, passage.segments_before
        if segments is not None and before is not None:
            reads = times.reads + len(sock.reads) + sock.silent_reads
            times.one_segment_each = segments - before == reads

    def _finish(
        self, passage: _Passage, ending: Ending, at_ns: int, fault: str | None = None
    ) -> None:
        """End the exchange: at the read that completed the response, or else at ``at_ns``."""
        exchange, response, sock = passage.exchange, passage.response, self._sock
        if passage.stop is None:
            self._count_segments(passage)
        self._leave_the_loop(passage)
        if response.times.stamps:
            ns = response.times.ns()
            exchange.first_byte_ns = int(ns[0])
            end_ns = int(ns[-1 if response.complete_at is None else response.complete_at])
            # A timestamp may be late, as where the clock was set.
            at_ns = end_ns if response.complete_at is not None else max(at_ns, end_ns)
        exchange.ending, exchange.end_ns, exchange.fault = ending, at_ns, fault
        complete = ending is Ending.COMPLETE
        exchange.body = response.body(complete=complete)
        self._passage = None
        self._reusable = self._reusable and complete and not response.excess and not sock.reads
        self._idle_since_ns = at_ns
        sock.look_after(0)
        if not self._reusable:
            self.abort()
        if not exchange.done.done():
            exchange.done.set_result(None)

    def _leave_the_loop(self, passage: _Passage) -> None:
        """Need ticks no more, and take what they say of the reads."""
        polls, times = self._wire.polls, passage.response.times
        if not passage.begun:
            polls.begun()
        polls.end()
        self._wire.every_second.end(self._look_if_silent)
        times.offset_ns, times.step_ns = polls.offset_since(times.sent_ns)
        if not times.exact:
            times.ticks_ns = polls.ticks_ns(times.sent_ns, passage.paused_ns)


def announced_keep_alive_s(header: bytes) -> float | None:
    """Return the seconds that a ``Keep-Alive: timeout=N`` header announces, None where none."""
    for part in header.split(b","):
        name, _, value = part.strip().partition(b"=")
        if name.strip().lower() == b"timeout" and value.strip().isdigit():
            return float(value)
    return None

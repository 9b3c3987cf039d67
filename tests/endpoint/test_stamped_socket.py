"""Sockets that keep what they read with the time of its arrival: what the kernel says, on loopback.

The other end is a plain socket of the same thread: what it sends has arrived when it has sent it,
and the client has not looked yet.
"""

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from client_cases import until
from scripted_server import DONE, HEAD, LAST_CHUNK, chunk, token, usage

from agentx_replay.endpoint.connection import Connection, Ending, Exchange
from agentx_replay.endpoint.kernel_stamps import (
    NS,
    RECEIVE_BUFFER_BYTES,
    TIMESPEC,
    Timestamps,
    stamp_ns,
    timestamps_here,
)
from agentx_replay.endpoint.outcome import response_of
from agentx_replay.endpoint.socket_polls import MAX_STEP_NS
from agentx_replay.endpoint.stamped_socket import READ_BYTES, StampedSocket, Wire, connect
from agentx_replay.replay.ports import Response, Status

needs_kernel = pytest.mark.skipif(
    timestamps_here() != "kernel", reason="this kernel does not stamp what arrives"
)
either = pytest.mark.parametrize("timestamps", ["kernel", "process"])
REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
MS = 1_000_000


@dataclass
class Owner:
    """Keeps what a socket tells."""

    looks: int = 0
    sent_ns: int | None = None
    lost_by: list[Exception | None] = field(default_factory=list)

    def look(self) -> None:
        self.looks += 1

    def sent(self, at_ns: int) -> None:
        self.sent_ns = at_ns

    def lost(self, error: Exception | None) -> None:
        self.lost_by.append(error)


@dataclass
class Pair:
    """A client's socket, and the plain one at the other end."""

    wire: Wire
    ours: StampedSocket
    theirs: socket.socket
    owner: Owner = field(default_factory=Owner)

    async def read(self) -> None:
        await until(lambda: bool(self.ours.reads))

    async def take(self, done: Callable[[], bool]) -> bytes:
        """Take what the client sends, until something is so."""
        self.theirs.setblocking(False)
        came = bytearray()
        while not done():
            try:
                came += self.theirs.recv(1 << 20)
            except BlockingIOError:
                await asyncio.sleep(0)
        return bytes(came)


@asynccontextmanager
async def joined(
    timestamps: Timestamps = "kernel", host: str = "127.0.0.1", *, started: bool = True
) -> AsyncIterator[Pair]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wire = Wire.of(asyncio.get_running_loop(), timestamps)
    with socket.create_server((host, 0), family=family) as listener:
        ours = await connect(wire, (family, listener.getsockname()), None, host)
        theirs, _ = listener.accept()
    theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    pair = Pair(wire, ours, theirs)
    if started:
        ours.start(pair.owner)
    with theirs:
        yield pair
    ours.close()


def busy_for(ms: float) -> None:
    until_ns = time.monotonic_ns() + round(ms * MS)
    while time.monotonic_ns() < until_ns:
        pass


# --- stamps -------------------------------------------------------------------------------------


@needs_kernel
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_stamp_is_when_bytes_arrived_and_not_when_they_were_read(host: str) -> None:
    async with joined(host=host) as pair:
        before_ns = time.monotonic_ns()
        pair.theirs.send(b"x" * 100)
        after_ns = time.monotonic_ns()
        busy_for(5)
        await pair.read()
        at_ns = stamp_ns(pair.ours.stamps) - pair.wire.polls.offset_ns
        assert pair.ours.reads == [b"x" * 100]
        assert before_ns - MAX_STEP_NS <= at_ns <= after_ns + MAX_STEP_NS
        assert pair.ours.bounds == []


async def test_a_process_stamps_when_it_reads() -> None:
    async with joined("process") as pair:
        pair.theirs.send(b"x" * 100)
        sent_ns = time.monotonic_ns()
        await pair.read()
        (stamp,) = NS.unpack(pair.ours.stamps)
        assert sent_ns < stamp < time.monotonic_ns()


async def test_what_the_kernel_did_not_stamp_is_stamped_now_and_noted() -> None:
    """A pair of local sockets: the kernel stamps what comes over a network alone."""
    wire = Wire.of(asyncio.get_running_loop(), "kernel")
    local, theirs = socket.socketpair()
    local.setblocking(False)
    ours = StampedSocket(wire, local, RECEIVE_BUFFER_BYTES, None)
    ours.start(Owner())
    before_ns = time.monotonic_ns()
    theirs.send(b"x" * 100)
    await until(lambda: bool(ours.reads))
    assert before_ns <= stamp_ns(ours.stamps) - wire.polls.offset_ns <= time.monotonic_ns()
    assert ours.bounds == [0]
    ours.close()
    theirs.close()


@needs_kernel
async def test_reads_that_fill_their_buffer_are_one_with_what_follows() -> None:
    async with joined() as pair:
        pair.theirs.sendall(b"a" * READ_BYTES + b"b" * 100)
        await pair.read()
        assert pair.ours.reads == [b"a" * READ_BYTES + b"b" * 100]
        assert len(pair.ours.stamps) == TIMESPEC.size


@needs_kernel
@pytest.mark.parametrize(("buffer_bytes", "bounds"), [(4_000, []), (3_999, [0])])
async def test_a_read_of_over_a_quarter_of_the_receive_buffer_is_noted(
    buffer_bytes: int, bounds: list[int]
) -> None:
    """The sender may have been held back: 1,000 bytes of 3,999 are, and of 4,000 not."""
    async with joined(started=False) as pair:
        pair.ours._buffer_bytes = buffer_bytes
        pair.ours.start(pair.owner)
        pair.theirs.send(b"x" * 1_000)
        await pair.read()
        assert pair.ours.bounds == bounds


@needs_kernel
async def test_a_socket_asks_for_a_look_when_all_that_is_wanted_has_come() -> None:
    """Of 40,000 bytes that come by the thousand: after the fortieth read, and at no other."""
    async with joined() as pair:
        pair.ours.look_after(40_000)
        while not pair.owner.looks:
            seen = len(pair.ours.reads)
            pair.theirs.send(b"x" * 999 + b"\n")
            await until(lambda seen=seen: len(pair.ours.reads) > seen)  # type: ignore[misc]
        assert len(pair.ours.reads) == 40


# --- what a response makes of them --------------------------------------------------------------


async def answered(
    timestamps: Timestamps, *writes: list[bytes], late_ms: float = 0.0
) -> tuple[Response, Exchange]:
    """Return the response that comes in these groups of segments: the client looks after each."""
    async with joined(timestamps, started=False) as pair:
        connection = Connection(pair.wire, pair.ours)
        exchange = connection.exchange(REQUEST, streamed=True)
        pair.theirs.recv(1 << 16)
        for segments in writes:
            for segment in segments:
                pair.theirs.send(segment)
            busy_for(late_ms)
            for _ in range(20):
                await asyncio.sleep(0)
        await exchange.done
        connection.abort()
        return response_of(exchange, ()), exchange


A, B = chunk(token("a")), chunk(token("b", "length"))
END = chunk(usage(5, 2) + DONE) + LAST_CHUNK


@needs_kernel
async def test_events_that_come_one_by_one_are_exact() -> None:
    response, _ = await answered("kernel", [HEAD], [A], [B], [END])
    assert response.status is Status.OK
    assert (response.late_events, response.gathered_reads) == (0, 0)
    assert response.first_token_uncertainty_ns == response.last_token_uncertainty_ns == 0


@needs_kernel
async def test_events_of_several_segments_in_one_read_are_uncertain_but_for_the_last() -> None:
    """The head had been read before, so the first event came after that."""
    response, exchange = await answered("kernel", [HEAD], [A, B], [END], late_ms=8)
    first_ns, last_ns = response.arrival_ns.tolist()
    assert first_ns == last_ns
    assert exchange.first_byte_ns is not None
    assert 0 < response.first_token_uncertainty_ns <= last_ns - exchange.first_byte_ns
    assert (response.last_token_uncertainty_ns, response.late_events) == (0, 1)
    assert response.gathered_reads == 0


@needs_kernel
async def test_what_follows_the_last_token_in_its_read_makes_it_uncertain() -> None:
    response, _ = await answered("kernel", [HEAD], [A], [B, END], late_ms=8)
    assert response.first_token_uncertainty_ns == 0
    assert response.last_token_uncertainty_ns > 0
    assert response.late_events == 1


@needs_kernel
async def test_events_that_came_in_one_segment_were_gathered_by_somebody_else() -> None:
    response, _ = await answered("kernel", [HEAD], [A + B + END], late_ms=8)
    assert (response.late_events, response.gathered_reads) == (0, 1)
    assert response.first_token_uncertainty_ns == response.last_token_uncertainty_ns == 0


async def test_a_process_that_was_held_up_says_by_how_much() -> None:
    response, _ = await answered("process", [HEAD], [A], [B], [END], late_ms=20)
    assert response.late_events == 2
    assert response.first_token_uncertainty_ns >= 15 * MS
    assert response.last_token_uncertainty_ns >= 15 * MS


@needs_kernel
async def test_a_response_that_is_cut_ends_after_all_that_came_of_it() -> None:
    """The wall clock was set back by a second meanwhile: timestamps may be late by that."""
    async with joined(started=False) as pair:
        connection = Connection(pair.wire, pair.ours)
        pair.wire.polls._offsets[-1] = (0, pair.wire.polls.offset_ns - 1_000 * MS)
        exchange = connection.exchange(REQUEST, streamed=True)
        pair.theirs.send(HEAD + A)
        await until(lambda: exchange.http_status == 200)
        connection.stop(Ending.CUT)
        await exchange.done
        response = response_of(exchange, ())
        assert (response.status, len(response.arrival_ns)) == (Status.CUT, 1)
        assert response.last_token_ns is not None
        assert time.monotonic_ns() < response.last_token_ns <= response.end_ns
        assert abs(response.last_token_uncertainty_ns - 1_000 * MS) < MS


# --- sending ------------------------------------------------------------------------------------


async def test_a_request_is_sent_as_the_other_side_takes_it() -> None:
    async with joined() as pair:
        request = bytes(range(256)) * 40_000
        pair.ours.send((request[:10], b"", request[10:9_000_000], request[9_000_000:]))
        assert pair.owner.sent_ns is None
        came = await pair.take(lambda: pair.owner.sent_ns is not None)
        pair.theirs.setblocking(True)
        while len(came) < len(request):
            came += pair.theirs.recv(1 << 20)
        assert came == request


@pytest.mark.parametrize(("size", "waited"), [(10_000_000, True), (10, False)])
async def test_a_late_loop_is_on_record_where_bytes_of_the_request_waited_for_it(
    size: int, waited: bool
) -> None:
    """The loop is held up for 5 ms, as its ticks tell; with nothing to send it is not the request's
    matter.
    """
    async with joined(started=False) as pair:
        connection = Connection(pair.wire, pair.ours)
        exchange = connection.exchange(b"x" * size, streamed=True)
        before_ns = exchange.send_uncertainty_ns
        pair.wire.polls.late_ns += 5 * MS
        await pair.take(lambda: exchange.sent_ns is not None)
        assert (exchange.send_uncertainty_ns - before_ns >= 5 * MS) is waited
        connection.abort()


# --- ends ---------------------------------------------------------------------------------------


@either
async def test_a_reset_is_seen_also_behind_bytes_that_wait(timestamps: Timestamps) -> None:
    async with joined(timestamps) as pair:
        pair.theirs.send(b"x" * 100)
        pair.theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        pair.theirs.close()
        await until(lambda: bool(pair.owner.lost_by))
        assert pair.ours.reads[0] == b"x" * 100
        assert isinstance(pair.owner.lost_by[0], ConnectionResetError)


@either
async def test_a_close_in_good_order_is_no_error(timestamps: Timestamps) -> None:
    async with joined(timestamps) as pair:
        pair.theirs.close()
        await until(lambda: bool(pair.owner.lost_by))
        assert pair.owner.lost_by[0] is None


async def test_a_socket_closes_once_and_leaves_nothing_behind() -> None:
    async with joined() as pair:
        pair.ours.send(b"x" * 10_000_000)
        pair.ours.close()
        pair.ours.close()
        assert pair.ours.closed
        assert pair.wire.polls.sockets == 0
        with pytest.raises(ConnectionResetError):
            all(iter(lambda: pair.theirs.recv(1 << 20), b""))


@needs_kernel
def test_the_self_test_says_kernel_here() -> None:
    assert timestamps_here() == "kernel"

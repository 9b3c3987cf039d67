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
from client_cases import LOOPS
from scripted_server import DONE, HEAD, LAST_CHUNK, chunk, token, usage

from agentx_replay.endpoint.connection import Connection, Ending, Exchange
from agentx_replay.endpoint.kernel_stamps import (
    RECEIVE_BUFFER_BYTES,
    Timestamps,
    stamp_ns,
    timestamps_here,
)
from agentx_replay.endpoint.outcome import Connected, response_of
from agentx_replay.endpoint.poll_times import MAX_STEP_NS
from agentx_replay.endpoint.stamped_socket import READ_BYTES, StampedSocket, Wire, connect
from agentx_replay.replay.ports import Response, Status

needs_kernel = pytest.mark.skipif(
    timestamps_here() != "kernel", reason="this kernel does not stamp what arrives"
)
every_loop = pytest.mark.parametrize("loops", LOOPS.values(), ids=LOOPS)
REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
MS = 1_000_000


def run(loops: Callable[[], asyncio.AbstractEventLoop], test: Callable[[], object]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(20):
            await test()  # type: ignore[misc]

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(limited())


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


@asynccontextmanager
async def joined(
    timestamps: Timestamps = "kernel", host: str = "127.0.0.1"
) -> AsyncIterator[tuple[Wire, StampedSocket, socket.socket]]:
    """Give a client's socket that is connected to the other end."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wire = Wire.of(asyncio.get_running_loop(), timestamps)
    with socket.create_server((host, 0), family=family) as listener:
        ours = await connect(wire, (family, listener.getsockname()), None, host)
        theirs, _ = listener.accept()
    theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with theirs:
        yield wire, ours, theirs
    ours.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


# --- stamps -------------------------------------------------------------------------------------


@needs_kernel
@every_loop
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_stamp_is_when_bytes_arrived_and_not_when_they_were_read(
    loops: Callable[[], asyncio.AbstractEventLoop], host: str
) -> None:
    async def test() -> None:
        async with joined(host=host) as (_, ours, theirs):
            ours.start(Owner())
            before_ns = time.monotonic_ns()
            theirs.send(b"x" * 100)
            after_ns = time.monotonic_ns()
            while time.monotonic_ns() < after_ns + 5 * MS:
                pass  # the process is busy
            await until(lambda: bool(ours.reads))
            data, stamp, interval = ours.reads
            at_ns = stamp_ns(stamp) - interval.offset_ns
            assert data == b"x" * 100
            assert before_ns - MAX_STEP_NS <= at_ns <= after_ns + MAX_STEP_NS
            assert ours.bounds == []

    run(loops, test)


@every_loop
def test_a_process_stamps_when_it_reads(loops: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def test() -> None:
        async with joined("process") as (_, ours, theirs):
            ours.start(Owner())
            theirs.send(b"x" * 100)
            sent_ns = time.monotonic_ns()
            await until(lambda: bool(ours.reads))
            _, stamp, _ = ours.reads
            assert sent_ns < stamp < time.monotonic_ns()

    run(loops, test)


@every_loop
def test_what_the_kernel_did_not_stamp_is_stamped_now_and_noted(
    loops: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """A pair of local sockets: the kernel stamps what comes over a network alone."""

    async def test() -> None:
        wire = Wire.of(asyncio.get_running_loop(), "kernel")
        local, theirs = socket.socketpair()
        local.setblocking(False)
        ours = StampedSocket(wire, local, RECEIVE_BUFFER_BYTES, None)
        ours.start(Owner())
        before_ns = time.monotonic_ns()
        theirs.send(b"x" * 100)
        await until(lambda: bool(ours.reads))
        _, stamp, interval = ours.reads
        assert before_ns <= stamp_ns(stamp) - interval.offset_ns <= time.monotonic_ns()
        assert ours.bounds == [0]
        ours.close()
        theirs.close()

    run(loops, test)


@needs_kernel
@every_loop
def test_reads_that_fill_their_buffer_are_one_with_what_follows(
    loops: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def test() -> None:
        async with joined() as (_, ours, theirs):
            ours.start(Owner())
            theirs.sendall(b"a" * READ_BYTES + b"b" * 100)
            await until(lambda: bool(ours.reads))
            data, _, _ = ours.reads
            assert data == b"a" * READ_BYTES + b"b" * 100

    run(loops, test)


@needs_kernel
def test_a_read_of_over_a_quarter_of_the_receive_buffer_is_noted() -> None:
    """The sender may have been held back: 1,000 bytes of 3,999 are, and of 4,000 not."""

    async def test() -> None:
        for buffer_bytes, bounds in ((4_000, []), (3_999, [0])):
            wire = Wire.of(asyncio.get_running_loop(), "kernel")
            with socket.create_server(("127.0.0.1", 0)) as listener:
                plain = socket.create_connection(listener.getsockname())
                theirs, _ = listener.accept()
            plain.setsockopt(socket.SOL_SOCKET, 35, 1)
            plain.setblocking(False)
            ours = StampedSocket(wire, plain, buffer_bytes, None)
            ours.start(Owner())
            ours.look_in = ours.look_bytes
            theirs.send(b"x" * 1_000)
            await until(lambda ours=ours: bool(ours.reads))  # type: ignore[misc]
            assert [at for at in ours.bounds if at == 0][:1] == bounds
            ours.close()
            theirs.close()

    run(asyncio.new_event_loop, test)


# --- what a response makes of them --------------------------------------------------------------


async def answered(
    timestamps: Timestamps, *writes: list[bytes], late_ms: float = 0.0
) -> tuple[Response, Exchange]:
    """Return the response that comes in these groups of segments: the client looks after each."""
    async with joined(timestamps) as (wire, ours, theirs):
        connection = Connection(wire, ours)
        exchange = connection.exchange(REQUEST, streamed=True)
        theirs.recv(1 << 16)
        for segments in writes:
            for segment in segments:
                theirs.send(segment)
            until_ns = time.monotonic_ns() + round(late_ms * MS)
            while time.monotonic_ns() < until_ns:
                pass
            for _ in range(20):
                await asyncio.sleep(0)
        await exchange.done
        connection.abort()
        return response_of(exchange, Connected(), 0, ()), exchange


A, B = chunk(token("a")), chunk(token("b", "length"))
END = chunk(usage(5, 2) + DONE) + LAST_CHUNK


@needs_kernel
@every_loop
def test_events_that_come_one_by_one_are_exact(
    loops: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def test() -> None:
        response, _ = await answered("kernel", [HEAD], [A], [B], [END])
        assert response.status is Status.OK
        assert (response.late_events, response.gathered_reads) == (0, 0)
        assert response.first_token_uncertainty_ns == response.last_token_uncertainty_ns == 0

    run(loops, test)


@needs_kernel
@every_loop
def test_events_of_several_segments_in_one_read_are_uncertain_but_for_the_last(
    loops: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """The head had been read before, so the first event came after that."""

    async def test() -> None:
        response, exchange = await answered("kernel", [HEAD], [A, B], [END], late_ms=8)
        first_ns, last_ns = response.arrival_ns.tolist()
        assert first_ns == last_ns
        assert exchange.first_byte_ns is not None
        assert 0 < response.first_token_uncertainty_ns <= last_ns - exchange.first_byte_ns
        assert (response.last_token_uncertainty_ns, response.late_events) == (0, 1)
        assert response.gathered_reads == 0

    run(loops, test)


@needs_kernel
@every_loop
def test_what_follows_the_last_token_in_its_read_makes_it_uncertain(
    loops: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def test() -> None:
        response, _ = await answered("kernel", [HEAD], [A], [B, END], late_ms=8)
        assert response.first_token_uncertainty_ns == 0
        assert response.last_token_uncertainty_ns > 0
        assert response.late_events == 1

    run(loops, test)


@needs_kernel
@every_loop
def test_events_that_came_in_one_segment_were_gathered_by_somebody_else(
    loops: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def test() -> None:
        response, _ = await answered("kernel", [HEAD], [A + B + END], late_ms=8)
        assert (response.late_events, response.gathered_reads) == (0, 1)
        assert response.first_token_uncertainty_ns == response.last_token_uncertainty_ns == 0

    run(loops, test)


@every_loop
def test_a_process_that_was_held_up_says_by_how_much(
    loops: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def test() -> None:
        response, _ = await answered("process", [HEAD], [A], [B], [END], late_ms=20)
        assert response.late_events == 2
        assert response.first_token_uncertainty_ns >= 15 * MS
        assert response.last_token_uncertainty_ns >= 15 * MS

    run(loops, test)


@needs_kernel
@every_loop
def test_a_response_that_is_cut_ends_after_all_that_came_of_it(
    loops: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """The wall clock is taken for a second less ahead than it is: timestamps are late by that."""

    async def test() -> None:
        async with joined() as (wire, ours, theirs):
            connection = Connection(wire, ours)
            exchange = connection.exchange(REQUEST, streamed=True)
            wire.polls.interval.offset_ns -= 1_000 * MS
            theirs.send(HEAD + A)
            await until(lambda: exchange.http_status == 200)
            connection.stop(Ending.CUT)
            await exchange.done
            response = response_of(exchange, Connected(), 0, ())
            assert (response.status, len(response.arrival_ns)) == (Status.CUT, 1)
            assert response.last_token_ns is not None
            assert time.monotonic_ns() < response.last_token_ns <= response.end_ns

    run(loops, test)


# --- sending ------------------------------------------------------------------------------------


@every_loop
def test_a_request_is_sent_as_the_other_side_takes_it(
    loops: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def test() -> None:
        async with joined() as (_, ours, theirs):
            owner = Owner()
            ours.start(owner)
            request = bytes(range(256)) * 40_000
            ours.send((request[:10], b"", request[10:9_000_000], request[9_000_000:]))
            assert owner.sent_ns is None
            theirs.setblocking(False)
            came = bytearray()
            while len(came) < len(request):
                try:
                    came += theirs.recv(1 << 20)
                except BlockingIOError:
                    await asyncio.sleep(0)
            assert owner.sent_ns is not None
            assert bytes(came) == request

    run(loops, test)


@every_loop
def test_a_late_loop_is_on_record_where_bytes_of_the_request_waited_for_it(
    loops: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """The loop is held up for 5 ms, as its ticks tell, while 10 MB wait; and with nothing to send
    it is not the request's matter.
    """

    async def test() -> None:
        for size, waited in ((10_000_000, True), (10, False)):
            async with joined() as (wire, ours, theirs):
                connection = Connection(wire, ours)
                exchange = connection.exchange(b"x" * size, streamed=True)
                before_ns = exchange.send_uncertainty_ns
                wire.polls.late_ns += 5 * MS
                theirs.setblocking(False)
                while exchange.sent_ns is None:
                    try:
                        theirs.recv(1 << 20)
                    except BlockingIOError:
                        await asyncio.sleep(0)
                late_ns = exchange.send_uncertainty_ns - before_ns
                assert (late_ns >= 5 * MS) is waited
                connection.abort()

    run(loops, test)


# --- ends ---------------------------------------------------------------------------------------


@every_loop
@pytest.mark.parametrize("timestamps", ["kernel", "process"])
def test_a_reset_is_seen_also_behind_bytes_that_wait(
    loops: Callable[[], asyncio.AbstractEventLoop], timestamps: Timestamps
) -> None:
    async def test() -> None:
        async with joined(timestamps) as (_, ours, theirs):
            owner = Owner()
            ours.start(owner)
            theirs.send(b"x" * 100)
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            theirs.close()
            await until(lambda: bool(owner.lost_by))
            assert ours.reads[0] == b"x" * 100
            assert isinstance(owner.lost_by[0], ConnectionResetError)

    run(loops, test)


@every_loop
@pytest.mark.parametrize("timestamps", ["kernel", "process"])
def test_a_close_in_good_order_is_no_error(
    loops: Callable[[], asyncio.AbstractEventLoop], timestamps: Timestamps
) -> None:
    async def test() -> None:
        async with joined(timestamps) as (_, ours, theirs):
            owner = Owner()
            ours.start(owner)
            theirs.close()
            await until(lambda: bool(owner.lost_by))
            assert owner.lost_by[0] is None

    run(loops, test)


@every_loop
def test_a_socket_closes_once_and_leaves_nothing_behind(
    loops: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def test() -> None:
        async with joined() as (wire, ours, theirs):
            ours.start(Owner())
            ours.send(b"x" * 10_000_000)
            ours.close()
            ours.close()
            assert ours.closed
            assert wire.hangups.files == 0
            with pytest.raises(ConnectionResetError):
                all(iter(lambda: theirs.recv(1 << 20), b""))

    run(loops, test)


@needs_kernel
def test_the_self_test_says_kernel_here_and_keeps_a_socket_open() -> None:
    assert timestamps_here() == "kernel"

"""The client's connections on real sockets: kept, given up, cut, and not to be had."""

import asyncio
import gzip
import socket

import pytest
from client_cases import client_of, dispatch, settings
from scripted_server import (
    HEAD,
    LAST_CHUNK,
    SSE,
    WHOLE,
    Answer,
    Move,
    answer,
    chunk,
    scripted,
    token,
)

from agentx_replay.endpoint.client import Client, reuse_limit_s
from agentx_replay.endpoint.connection import Connection, announced_keep_alive_s
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.stamped_socket import Wire, connect
from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.replay.ports import ErrorCategory, Status


async def test_a_stream_keeps_its_connection_and_another_has_its_own() -> None:
    async with scripted([WHOLE, WHOLE]) as server, client_of(server) as client:
        first = await client.send(dispatch("a"))
        again = await client.send(dispatch("a"))
        other = await client.send(dispatch("b"))
        assert server.connections == 2
    assert first.connected_ns is not None
    assert (again.connect_start_ns, again.connected_ns, again.retries) == (None, None, 0)
    assert other.connected_ns is not None


async def test_a_kept_connection_found_closed_is_made_again_and_counted() -> None:
    closes = [WHOLE, [Move.CLOSE]]
    async with scripted(closes, [WHOLE]) as server, client_of(server) as client:
        await client.send(dispatch())
        response = await client.send(dispatch())
        assert (server.connections, len(server.requests)) == (2, 3)
    assert (response.status, response.retries) == (Status.OK, 1)
    assert response.connected_ns is not None
    assert response.connect_start_ns is not None
    assert response.send_ns < response.connect_start_ns  # the first sending counts


async def test_nothing_is_sent_again_after_the_first_byte_of_a_response() -> None:
    async with scripted([WHOLE, [b"H", Move.CLOSE]]) as server, client_of(server) as client:
        await client.send(dispatch())
        response = await client.send(dispatch())
        assert server.connections == 1
    assert (response.error_category, response.retries) == (ErrorCategory.RESET, 0)


async def test_a_connection_the_server_has_closed_is_not_used_and_its_age_is_remembered() -> None:
    """The first server closes at once, so that from then on no connection is old enough to keep."""
    scripts: list[list[Answer]] = [[[*WHOLE, Move.CLOSE]], [WHOLE, WHOLE]]
    async with scripted(*scripts) as server, client_of(server) as client:
        assert (await client.send(dispatch())).status is Status.OK
        await server.closed.wait()
        while client.connections:
            await asyncio.sleep(0)
        for _ in range(2):
            response = await client.send(dispatch())
            assert (response.status, response.retries) == (Status.OK, 0)


@pytest.mark.parametrize(
    ("keep_alive_s", "limit_s"), [(5.0, 4.0), (60.0, 59.0), (1.0, 0.5), (0.0, 0.0)]
)
def test_a_connection_is_given_up_a_second_before_the_server_would(
    keep_alive_s: float, limit_s: float
) -> None:
    assert reuse_limit_s(keep_alive_s) == limit_s


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (b"timeout=5", 5.0),
        (b"max=100, Timeout = 15", 15.0),
        (b"", None),
        (b"max=100", None),
        (b"timeout=soon", None),
    ],
)
def test_what_a_keep_alive_header_announces(header: bytes, seconds: float | None) -> None:
    assert announced_keep_alive_s(header) == seconds


@pytest.mark.parametrize("header", [b"Connection: close\r\n", b"Keep-Alive: timeout=0\r\n"])
async def test_a_connection_is_not_kept_longer_than_the_server_says(header: bytes) -> None:
    steps = [HEAD[:-2] + header + b"\r\n", *WHOLE[1:]]
    async with scripted([steps]) as server, client_of(server) as client:
        await client.send(dispatch())
        response = await client.send(dispatch())
        assert server.connections == 2
    assert (response.status, response.retries) == (Status.OK, 0)


async def test_bytes_after_the_end_of_a_response_end_the_connection() -> None:
    steps = [*WHOLE[:-1], LAST_CHUNK + b"HTTP/1.1 200 OK\r\n\r\n"]
    async with scripted([steps]) as server, client_of(server) as client:
        assert (await client.send(dispatch())).status is Status.OK
        assert (await client.send(dispatch())).status is Status.OK
        assert server.connections == 2


@pytest.mark.parametrize("end", [Move.CLOSE, Move.RESET, Move.HANG])
async def test_bytes_after_the_end_of_a_response_take_nothing_from_it(end: Move) -> None:
    """However the connection ends: closed or reset by the server, or cut by the window's end."""
    came = asyncio.Event()
    steps = [*WHOLE[:-1], LAST_CHUNK + b"more", came.set, end]
    async with scripted([steps], [WHOLE]) as server, client_of(server) as client:
        task = asyncio.ensure_future(client.send(dispatch()))
        await came.wait()
        if end is Move.HANG:
            client.cut()
        response = await task
        assert (response.status, response.error_category) == (Status.OK, None)
        assert response.last_token_ns is not None
        assert response.last_token_ns <= response.end_ns
        assert (await client.send(dispatch())).status is Status.OK
        assert server.connections == 2


async def test_a_stream_that_has_ended_gives_its_connection_back() -> None:
    async with scripted([WHOLE]) as server, client_of(server) as client:
        await client.send(dispatch())
        client.conversation_ended("s")
        client.conversation_ended("never seen")
        await server.closed.wait()


async def test_a_megabyte_is_sent_whole_and_stamped_when_it_has_left() -> None:
    content = b"x" * 8_000_000
    async with scripted([WHOLE]) as server, client_of(server) as client:
        response = await client.send(dispatch(content=content))
        assert content in server.requests[0]
    assert response.sent_ns is not None
    assert response.first_byte_ns is not None
    assert response.send_ns < response.sent_ns <= response.first_byte_ns


async def test_an_answer_before_the_request_is_sent_stops_the_upload_and_is_kept() -> None:
    early: Answer = [answer("413 Too Large", b"max_model_len"), Move.HANG]
    async with scripted([early], read_bodies=False) as server, client_of(server) as client:
        response = await client.send(dispatch(content=b"x" * 64_000_000))
    assert response.status is Status.OVERFLOW
    assert response.sent_ns is None


# --- ends that are ours -------------------------------------------------------------------------


async def test_a_cut_ends_what_is_in_flight_with_what_arrived() -> None:
    came = asyncio.Event()
    script: list[Answer] = [[HEAD, chunk(token("a")), chunk(token("b")[:9]), came.set]]
    async with scripted(script) as server, client_of(server) as client:
        task = asyncio.ensure_future(client.send(dispatch()))
        await came.wait()
        client.cut()
        response = await task
    assert (response.status, response.error_category) == (Status.CUT, None)
    assert len(response.arrival_ns) == 1


TWO_WHOLE = token("a") + token("b")
SHORT_OF_WHAT_WAS_ANNOUNCED: dict[str, Answer] = {
    "a length": [SSE + b"Content-Length: 9000\r\n\r\n", TWO_WHOLE + token("c")[:9]],
    "a chunk": [HEAD, b"ff00\r\n" + TWO_WHOLE + token("c")[:9]],
    "a chunk, whole but for its end": [HEAD, chunk(TWO_WHOLE)[:-1]],
    "the last chunk": [HEAD, chunk(TWO_WHOLE) + b"0\r\n"],
    "gzip": [
        HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n",
        b"fff\r\n" + gzip.compress(TWO_WHOLE, 0)[:-8],
    ],
}


@pytest.mark.parametrize(
    "steps", SHORT_OF_WHAT_WAS_ANNOUNCED.values(), ids=SHORT_OF_WHAT_WAS_ANNOUNCED
)
async def test_a_body_shorter_than_announced_is_waited_for_until_the_cut(
    steps: Answer,
) -> None:
    came = asyncio.Event()
    async with scripted([[*steps, came.set, Move.HANG]]) as server, client_of(server) as client:
        task = asyncio.ensure_future(client.send(dispatch()))
        await came.wait()
        assert not task.done()
        client.cut()
        response = await task
    assert (response.status, response.error_category) == (Status.CUT, None)
    assert response.http_status == 200
    assert len(response.arrival_ns) == 2


async def test_a_cut_ends_a_connection_being_made() -> None:
    async with scripted([WHOLE]) as server, client_of(server) as client:
        task = asyncio.ensure_future(client.send(dispatch()))
        await asyncio.sleep(0)
        client.cut()
        assert (await task).status is Status.CUT
        assert (await client.send(dispatch())).status is Status.OK


async def test_a_response_past_the_limit_that_was_asked_for_is_a_timeout() -> None:
    """Six hours are the least a person can ask for; the test shortens them behind the check."""
    async with scripted([[HEAD, chunk(token("a")), Move.HANG]]) as server:
        limited = settings(server.port, timeout_s=21_600.0)
        object.__setattr__(limited, "timeout_s", 0.2)
        client = Client(limited)
        response = await client.send(dispatch())
        await client.close()
    assert response.error_category is ErrorCategory.TIMEOUT


async def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    async with scripted([WHOLE]) as server, client_of(server, timeout_s=21_600.0) as client:
        assert (await client.send(dispatch())).status is Status.OK


async def test_a_request_on_a_connection_lost_meanwhile_ends_at_once() -> None:
    loop = asyncio.get_running_loop()
    listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    wire = Wire.of(loop, "process")
    sock = await connect(wire, (socket.AF_INET, ("127.0.0.1", port)), None, "127.0.0.1")
    connection = Connection(wire, sock)
    await connection.closed
    exchange = connection.exchange(b"GET / HTTP/1.1\r\n\r\n", streamed=True)
    await exchange.done
    assert exchange.unanswered
    listener.close()


async def test_bytes_that_nobody_asked_for_end_a_free_connection() -> None:
    script: list[Answer] = [[*WHOLE, b"HTTP/1.1 408 Request Timeout\r\n\r\n"]]
    async with scripted(script) as server, client_of(server) as client:
        for _ in range(2):
            response = await client.send(dispatch())
            assert (response.status, response.retries) == (Status.OK, 0)
            await server.closed.wait()
        assert server.connections == 2


async def test_a_caller_that_gives_up_closes_the_connection() -> None:
    came = asyncio.Event()
    script: list[Answer] = [[HEAD, came.set]]
    async with scripted(script) as server, client_of(server) as client:
        task = asyncio.ensure_future(client.send(dispatch()))
        await came.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.closed.wait()


async def test_a_stream_has_one_request_in_flight() -> None:
    came = asyncio.Event()
    script: list[Answer] = [[HEAD, came.set]]
    async with scripted(script) as server, client_of(server) as client:
        task = asyncio.ensure_future(client.send(dispatch()))
        await came.wait()
        with pytest.raises(RuntimeError):
            await client.send(dispatch())
        client.cut()
        await task


# --- no connection ------------------------------------------------------------------------------


async def test_a_refused_connection_is_a_failure() -> None:
    async with scripted([WHOLE]) as server:
        port = server.port
    client = Client(settings(port))
    response = await client.send(dispatch())
    assert (response.status, response.error_category) == (Status.FAILED, ErrorCategory.CONNECT)
    assert (response.error_text or "").startswith(f"cannot connect to 127.0.0.1:{port} (")
    assert response.connect_start_ns is not None
    assert response.connected_ns is None
    await client.close()


async def test_a_name_that_does_not_resolve_is_a_failure() -> None:
    url = BaseUrl("http", "no-such-host.invalid", 80, "/v1")
    client = Client(EndpointSettings(url, "m"))
    response = await client.send(dispatch())
    assert response.error_category is ErrorCategory.CONNECT
    assert url.host in (response.error_text or "")
    await client.close()

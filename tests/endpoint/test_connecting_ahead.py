"""Connecting ahead of a request, on real sockets: the connection stands before it is due."""

import asyncio
import socket
import time
from pathlib import Path

import pytest
from certificates import made_certificate, server_context
from client_cases import client_of, dispatch, settings, until
from scripted_server import HEAD, WHOLE, Answer, Move, ScriptedServer, scripted

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.settings import EndpointSettings, TlsSettings
from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.replay.ports import ErrorCategory, Status

S = 1_000_000_000
POLLS = 20
"""As often the client looks at its sockets before a test goes on."""
SHORT_LIVED: Answer = [HEAD[:-2] + b"Keep-Alive: timeout=2\r\n\r\n", *WHOLE[1:]]
"""A whole response of a server that announces to close idle connections after 2 s."""


def from_now_ns(seconds: float) -> int:
    return time.monotonic_ns() + round(seconds * S)


async def connected(server: ScriptedServer, connections: int) -> None:
    await until(lambda: server.connections >= connections)


async def test_a_connection_that_will_be_too_old_is_replaced_before_the_request() -> None:
    async with scripted([SHORT_LIVED]) as server, client_of(server) as client:
        await client.send(dispatch())
        client.prepare(0, "s", from_now_ns(1.5))  # used up to 1 s, by the announced 2
        await connected(server, 2)
        await until(lambda: client.connections == 1)  # the old one is closed
        before_ns = time.monotonic_ns()
        response = await client.send(dispatch())
        assert (response.status, response.retries) == (Status.OK, 0)
        assert server.connections == 2
        assert response.connect_start_ns is not None
        assert response.connected_ns is not None
        assert response.connect_start_ns < response.connected_ns < before_ns < response.send_ns


async def test_a_connection_that_will_still_be_good_is_left_alone() -> None:
    async with scripted([SHORT_LIVED, WHOLE]) as server, client_of(server) as client:
        await client.send(dispatch())
        client.prepare(0, "s", from_now_ns(0.1))
        response = await client.send(dispatch())
        assert (response.status, response.connected_ns) == (Status.OK, None)
        assert server.connections == 1


async def test_a_stream_without_a_connection_gets_one_and_only_one() -> None:
    async with scripted([WHOLE]) as server, client_of(server) as client:
        client.prepare(0, "s", from_now_ns(0.1))
        await connected(server, 1)
        client.prepare(0, "s", from_now_ns(0.1))
        response = await client.send(dispatch())
        assert response.status is Status.OK
        assert response.connected_ns is not None
        assert server.connections == 1


async def test_a_request_that_comes_sooner_waits_for_the_connection_under_way() -> None:
    async with scripted([WHOLE]) as server, client_of(server) as client:
        client.prepare(0, "s", from_now_ns(0.1))
        response = await client.send(dispatch())
        assert response.status is Status.OK
        assert server.connections == 1


async def test_a_connection_that_cannot_be_made_ahead_is_made_when_it_is_needed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = Client(settings(port))
    client.prepare(0, "s", from_now_ns(0.1))
    await client.send(dispatch("other"))  # refused by now, and so was the first
    listener = await asyncio.start_server(_answer, "127.0.0.1", port)
    response = await client.send(dispatch())
    assert (response.status, response.retries) == (Status.OK, 0)
    await client.close()
    listener.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    for step in WHOLE:
        assert isinstance(step, bytes)
        writer.write(step)
    writer.close()


async def test_a_server_that_is_gone_is_one_failure_told_by_the_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = Client(settings(port))
    client.prepare(0, "s", from_now_ns(0.1))
    asked_ns = time.monotonic_ns()
    response = await client.send(dispatch())
    assert (response.status, response.error_category) == (Status.FAILED, ErrorCategory.CONNECT)
    assert response.connect_start_ns is not None
    assert response.connect_start_ns >= asked_ns
    await client.close()


async def test_one_that_the_server_closed_unused_is_made_again_and_tells_no_keep_alive() -> None:
    closes: list[Answer] = []
    async with scripted(closes, [WHOLE, WHOLE]) as server, client_of(server) as client:
        client.prepare(0, "s", from_now_ns(0.1))
        await server.closed.wait()
        for _ in range(POLLS):
            await asyncio.sleep(0)
        assert client.connections == 0
        for _ in range(2):  # the second on the connection of the first: it is not too old
            response = await client.send(dispatch())
            assert (response.status, response.retries) == (Status.OK, 0)
            assert server.connections == 2


async def test_what_was_never_used_before_is_not_sent_again() -> None:
    async with scripted([[Move.CLOSE]]) as server, client_of(server) as client:
        client.prepare(0, "s", from_now_ns(0.1))
        await connected(server, 1)
        response = await client.send(dispatch())
        assert (response.error_category, response.retries) == (ErrorCategory.RESET, 0)
        assert server.connections == 1


@pytest.mark.parametrize("at_once", [True, False], ids=["under way", "made"])
@pytest.mark.parametrize("end", ["stream ended", "cut", "close"])
async def test_a_connection_that_is_never_used_is_closed(end: str, at_once: bool) -> None:
    async with scripted([WHOLE]) as server, client_of(server) as client:
        client.prepare(0, "s", from_now_ns(0.1))
        if not at_once:
            await until(lambda: client.connections == 1)
        if end == "stream ended":
            client.conversation_ended("s")
        elif end == "cut":
            client.cut()
        else:
            await client.close()
        await until(lambda: client.connections == 0)
        if not at_once:
            await server.closed.wait()


async def test_after_a_cut_a_stream_connects_anew() -> None:
    async with scripted([WHOLE]) as server, client_of(server) as client:
        client.prepare(0, "s", from_now_ns(0.1))
        client.cut()
        assert (await client.send(dispatch())).status is Status.OK


async def test_the_handshake_of_tls_is_over_before_the_request_is_sent(tmp_path: Path) -> None:
    certificate = made_certificate(tmp_path)
    async with scripted([WHOLE], tls=server_context(certificate)) as server:
        url = BaseUrl("https", "127.0.0.1", server.port, "/v1")
        client = Client(EndpointSettings(url, "m", tls=TlsSettings(str(certificate[0]))))
        client.prepare(0, "s", from_now_ns(0.1))
        await until(lambda: client.connections == 1)
        before_ns = time.monotonic_ns()
        response = await client.send(dispatch())
        assert response.status is Status.OK
        assert response.connected_ns is not None
        assert response.connected_ns < before_ns
        assert server.connections == 1
        await client.close()

"""The client over TLS, against a certificate made on the spot."""

import array
import asyncio
import fcntl
import os
import shutil
import ssl
import subprocess
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import uvloop
from certificates import made_certificate, server_context
from refusals import refuses
from scripted_server import SSE, TWO_TOKENS, WHOLE, Answer, Move, scripted

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.settings import EndpointSettings, TlsSettings
from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.replay.ports import ErrorCategory, Response, Status

LoopFactory = Callable[[], asyncio.AbstractEventLoop]
REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    return made_certificate(tmp_path_factory.mktemp("tls"))


def ask(certificate: tuple[Path, Path] | None, tls: TlsSettings, *requests: bytes) -> Response:
    """Return the response to the last of the requests, sent one by one on one stream."""

    async def run() -> Response:
        context = None if certificate is None else server_context(certificate)
        async with scripted([WHOLE, WHOLE], tls=context) as server:
            client = Client(
                EndpointSettings(BaseUrl("https", "127.0.0.1", server.port, "/v1"), "m", tls=tls)
            )
            for request in requests:
                response = await client.request("s", request)
            await client.close()
        return response

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def test_a_certificate_of_a_given_authority_is_accepted(certificate: tuple[Path, Path]) -> None:
    tls = TlsSettings(ca_file=str(certificate[0]))
    response = ask(certificate, tls, REQUEST, REQUEST)
    assert response.status is Status.OK
    assert response.connected_ns is None
    assert response.sent_ns is not None
    assert bool(np.all(np.diff(response.arrival_ns) > 0))


def test_a_megabyte_goes_through_tls(certificate: tuple[Path, Path]) -> None:
    body = b"POST / HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n" + b"x" * 3_000_000
    response = ask(certificate, TlsSettings(insecure=True), body)
    assert response.status is Status.OK
    assert response.sent_ns is not None


def test_an_unknown_certificate_is_a_tls_failure(certificate: tuple[Path, Path]) -> None:
    response = ask(certificate, TlsSettings(), REQUEST)
    assert (response.status, response.error_category) == (Status.FAILED, ErrorCategory.TLS)
    assert "self-signed" in (response.error_text or "")


def test_a_ca_file_that_is_none_is_told() -> None:
    with refuses("file-unreadable", "/nowhere.pem"):
        TlsSettings(ca_file="/nowhere.pem").context()


VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
async def test_every_version_is_spoken_on_a_kept_connection(
    certificate: tuple[Path, Path], version: ssl.TLSVersion
) -> None:
    context = server_context(certificate)
    context.minimum_version = context.maximum_version = version
    async with scripted([WHOLE, WHOLE], tls=context) as server:
        client = client_at(server.port)
        for _ in range(2):
            response = await client.request("s", REQUEST)
            assert (response.status, len(response.arrival_ns)) == (Status.OK, 2)
        assert server.connections == 1
        await client.close()


async def test_a_server_that_says_goodbye_ends_what_ends_by_close(
    certificate: tuple[Path, Path],
) -> None:
    """The server's close_notify, and its close in good order."""
    steps: Answer = [SSE + b"\r\n", TWO_TOKENS, Move.CLOSE]
    async with scripted([steps], tls=server_context(certificate)) as server:
        client = client_at(server.port)
        response = await client.request("s", REQUEST)
        assert (response.status, len(response.arrival_ns)) == (Status.OK, 2)
        await client.close()


@pytest.mark.parametrize("say", [b"", b"SSH-2.0-OpenSSH_9\r\n"], ids=["nothing", "no TLS"])
async def test_a_server_that_does_not_shake_hands_is_a_failure(say: bytes) -> None:
    async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(say)
        writer.close()

    listener = await asyncio.start_server(closes, "127.0.0.1", 0)
    client = client_at(listener.sockets[0].getsockname()[1])
    response = await client.request("s", REQUEST)
    expected = ErrorCategory.TLS if say else ErrorCategory.CONNECT
    assert (response.status, response.error_category) == (Status.FAILED, expected)
    await client.close()
    listener.close()


def client_at(port: int) -> Client:
    tls = TlsSettings(insecure=True)
    return Client(EndpointSettings(BaseUrl("https", "127.0.0.1", port, "/v1"), "m", tls=tls))


class OpenSsl:
    """OpenSSL's own server, driven by hand: what is written to it is sent, but for what begins with
    one of some letters, which are orders."""

    def __init__(self, process: asyncio.subprocess.Process, orders: int) -> None:
        self._process = process
        self._orders = orders
        self.said = b""

    async def hears(self, text: bytes) -> None:
        """Return when the client has sent so much that a text is in it."""
        assert self._process.stdout is not None
        while text not in self.said:
            self.said += await self._process.stdout.read(1 << 16)

    async def says(self, text: bytes) -> None:
        """Return when it has taken a text, by itself."""
        os.write(self._orders, text)
        waiting = array.array("i", [1])
        while waiting[0]:
            await asyncio.sleep(0)
            fcntl.ioctl(self._orders, termios.FIONREAD, waiting)


@asynccontextmanager
async def openssl_server(
    certificate: tuple[Path, Path], *more: str
) -> AsyncIterator[tuple[OpenSsl, int]]:
    openssl = shutil.which("openssl")
    assert openssl is not None
    given, orders = os.pipe()
    process = await asyncio.create_subprocess_exec(
        openssl, "s_server", "-accept", "127.0.0.1:0", "-cert", str(certificate[0]), "-key",
        str(certificate[1]), *more, stdin=given, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    os.close(given)
    server = OpenSsl(process, orders)
    try:
        async with asyncio.timeout(20):
            await server.hears(b"ACCEPT 127.0.0.1:")
            await server.hears(b"\n")
            port = server.said.split(b"ACCEPT 127.0.0.1:")[1].split()[0]
            yield server, int(port)
    finally:
        process.kill()
        await process.wait()
        os.close(orders)


LONG_HEAD = SSE.replace(b"\r\n", b"\n") + b"Content-Length: %d\n\n" % len(TWO_TOKENS)


@pytest.mark.parametrize(
    ("more", "order"),
    [("-tls1_3", b"k"), ("-tls1_3", b"K"), ("-tls1_2", b"r")],
    ids=["new keys", "new keys on both sides", "renegotiated"],
)
async def test_keys_that_change_within_a_response_change_nothing_of_it(
    certificate: tuple[Path, Path], more: str, order: bytes
) -> None:
    """The client answers while it reads; what it sends after that is understood."""
    async with openssl_server(certificate, more) as (server, port):
        client = client_at(port)
        for number in (b"1", b"2"):
            request = REQUEST[:-4] + b"\r\nX-Number: " + number + b"\r\n\r\n{}"
            sending = asyncio.ensure_future(client.request("s", request))
            await server.hears(b"X-Number: " + number)
            await server.says(LONG_HEAD)
            await server.says(order + b"\n")
            await server.says(TWO_TOKENS)
            response = await sending
            assert (response.status, len(response.arrival_ns)) == (Status.OK, 2)
            assert response.retries == 0
        await client.close()

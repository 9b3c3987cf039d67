"""The client over TLS, against a certificate made on the spot."""

import asyncio
import ssl
from pathlib import Path

import numpy as np
import pytest
import uvloop
from certificates import made_certificate
from scripted_server import WHOLE, scripted

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.settings import EndpointSettings, TlsSettings
from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.errors import UsageError
from agentx_replay.replay.ports import ErrorCategory, Response, Status

REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    return made_certificate(tmp_path_factory.mktemp("tls"))


def ask(certificate: tuple[Path, Path] | None, tls: TlsSettings, *requests: bytes) -> Response:
    """Return the response to the last of the requests, sent one by one on one stream."""

    async def run() -> Response:
        context = None
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
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
    assert (response.error_text or "").startswith("no secure connection to 127.0.0.1:")


def test_a_ca_file_that_is_none_is_told() -> None:
    with pytest.raises(UsageError, match=r"the CA file /nowhere\.pem cannot be read"):
        TlsSettings(ca_file="/nowhere.pem").context()

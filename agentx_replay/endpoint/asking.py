"""Asking a server something before a run: one request, its answer, and how long it is waited for.

A server that accepts and never answers must not hang a command, nor one that sends a byte now and
then; one that is loading its model, is busy or not there yet is asked again. Not for: measured
requests, which nothing cuts off (``EndpointSettings.timeout_s``), or what an answer means.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin

import orjson

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.completion_stream import error_message, read_json
from agentx_replay.endpoint.connect_error import ConnectError
from agentx_replay.endpoint.connection import Ending, Exchange
from agentx_replay.endpoint.outcome import short
from agentx_replay.endpoint.requests import head_start, post
from agentx_replay.endpoint.settings import EndpointSettings, TlsSettings
from agentx_replay.errors import UsageError

_UNUSABLE = 3
_BUSY = (429, 502, 503)
_REDIRECTS = (301, 302, 303, 307, 308)
_UNAUTHORIZED = (401, 403)
_ERRORS = 400
_SERVER_ERRORS = 500
_LEAST_WAIT_S, _DEFAULT_WAIT_S, _LONGEST_WAIT_S = 0.05, 1.0, 10.0
_HANDSHAKE_S = 2.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: until a person is told of the wait, that ``/v1/models`` may take, that any other
    request may, which a server may have to queue, and for which one that says that it is not ready
    is asked again (one that refuses connections: ``EndpointSettings.wait_s``).
    """

    told_after_s: float = 5.0
    models_s: float = 60.0
    request_s: float = 600.0
    busy_s: float = 600.0


LIMITS = Limits()


class _NotReadyError(Exception):
    """A server may answer later: its ``words``, and the ``refusal`` to raise after ``limit_s``."""

    def __init__(
        self, words: str, refusal: UsageError, limit_s: float, retry_after: bytes | None = None
    ) -> None:
        super().__init__(words)
        self.words = words
        self.refusal = refusal
        self.limit_s = limit_s
        self.pause_s = wait_s(retry_after)


class Asker:
    """Asks one server, over connections of its own. Make it inside a running loop, close it after.

    ``requests`` counts what was asked. ``answered`` is whether the server has answered before: one
    that has, and then accepts no connection, does not load but is gone.
    """

    def __init__(
        self, settings: EndpointSettings, limits: Limits | None = None, *, answered: bool = False
    ) -> None:
        self.settings = settings
        self.limits = limits or LIMITS
        self.requests = 0
        self._answered = answered
        self._client = Client(settings)
        self._told: set[str] = set()

    async def close(self) -> None:
        await self._client.close()

    async def ask(
        self, path: str, body: dict[str, Any] | None = None, *, connection: str = "asked"
    ) -> Exchange:
        """Return the whole exchange of a request of the API; asks again while the server is not
        ready.

        Raises UsageError (exit code 3) where no answer can be had.
        """
        exchange = await self._ask(self.settings, path, body, connection)
        if exchange.http_status is None:
            raise await self._no_answer(exchange)
        if exchange.http_status in _UNAUTHORIZED:
            raise self._no_key()
        if exchange.http_status in _REDIRECTS:
            raise self._redirected(path, exchange)
        if exchange.body is not None and exchange.body.malformed:
            raise self._compressed(exchange.body.malformed)
        if exchange.http_status >= _ERRORS and b"HTTPS" in text_of(exchange):
            await self._refuse_plain()
        return exchange

    async def ask_root(self, path: str, body: dict[str, Any], *, connection: str = "asked") -> Any:
        """Return the JSON that a path outside the API answers, None where it does not."""
        url = self.settings.url
        root = replace(self.settings, url=replace(url, path=url.path.removesuffix("/v1")))
        return json_of(await self._ask(root, path, body, connection))

    async def _ask(
        self, settings: EndpointSettings, path: str, body: dict[str, Any] | None, connection: str
    ) -> Exchange:
        head = head_start(settings, "GET" if body is None else "POST", path)
        request = head + b"\r\n" if body is None else post(head, {}, (orjson.dumps(body),))
        streamed = bool(body and body.get("stream"))
        begun_s = time.monotonic()
        while True:
            try:
                return await self._ready(connection, request, streamed=streamed, get=body is None)
            except _NotReadyError as not_ready:
                limit_s = not_ready.limit_s
                if time.monotonic() + not_ready.pause_s > begun_s + limit_s:
                    raise not_ready.refusal from None
                self._tell(f"waiting up to {limit_s:g} s for {settings.url}: {not_ready.words}")
                await asyncio.sleep(not_ready.pause_s)

    async def _ready(
        self, connection: str, request: bytes | tuple[bytes, ...], *, streamed: bool, get: bool
    ) -> Exchange:
        """Return the answer of a server that is ready, or that will never be. Raises
        _NotReadyError, and UsageError where there is no answer.
        """
        try:
            exchange = await self._once(connection, request, streamed=streamed, get=get)
        except ConnectError as error:
            may_start = error.refused and not self._answered
            way_out = error.way_out + ("; --wait 10m waits longer for it" if may_start else "")
            refusal = unusable("server-unreachable", error.text, way_out)
            if may_start:
                raise _NotReadyError(error.text, refusal, self.settings.wait_s) from None
            raise refusal from error
        if exchange.unanswered and not self._answered:
            refusal = await self._no_answer(exchange)
            words = "it closes connections without an answer"
            raise _NotReadyError(words, refusal, self.settings.wait_s)
        if is_busy(exchange):
            raise self._busy(exchange)
        self._answered = True
        return exchange

    def _busy(self, exchange: Exchange) -> _NotReadyError:
        said = f"HTTP {exchange.http_status}: {_words(exchange) or 'no words'}"
        refusal = unusable(
            "server-busy",
            f"{self.settings.url} answered {said}, for {self.limits.busy_s:g} s",
            "try again when the server is ready",
            self.settings.secrets,
        )
        retry_after = exchange.headers.get(b"retry-after")
        return _NotReadyError(said, refusal, self.limits.busy_s, retry_after)

    async def _once(
        self, connection: str, request: bytes | tuple[bytes, ...], *, streamed: bool, get: bool
    ) -> Exchange:
        """Return the answer to one request. Raises ConnectError, and UsageError after its limit."""
        self.requests += 1
        limit_s = self.limits.models_s if get else self.limits.request_s
        telling = asyncio.get_running_loop().call_later(
            self.limits.told_after_s, self._tell, f"waiting for {self.settings.url} to answer"
        )
        try:
            async with asyncio.timeout(limit_s):
                exchange = await self._client.exchange(connection, request, streamed=streamed)
        except TimeoutError:
            raise unusable(
                "server-silent",
                f"{self.settings.url} has not answered a request within {limit_s:g} s",
                "see the server's log, and that the URL is the one it serves",
            ) from None
        finally:
            telling.cancel()
        return exchange

    def _tell(self, words: str) -> None:
        if words not in self._told:
            self._told.add(words)
            _log.warning("%s", short(words, self.settings.secrets))

    # --- why no answer can be had -------------------------------------------------------------

    async def _no_answer(self, exchange: Exchange) -> UsageError:
        await self._refuse_plain()
        url, why = self.settings.url, f" ({exchange.fault})" if exchange.fault else ""
        way_out = "check scheme and port of the URL, and see the server's log"
        if exchange.ending is Ending.LOST:
            what = f"{url} closed the connection without an answer{why}"
            return unusable("server-closes", what, way_out)
        return unusable("server-not-http", f"{url} does not answer HTTP{why}", way_out)

    async def _refuse_plain(self) -> None:
        """Raise UsageError where the server speaks TLS and was asked without."""
        url = self.settings.url
        if url.tls:
            return
        context = TlsSettings(insecure=True).context()
        with suppress(OSError, TimeoutError):  # of which ssl.SSLError is one
            async with asyncio.timeout(_HANDSHAKE_S):
                _, writer = await asyncio.open_connection(url.host, url.port, ssl=context)
            writer.transport.abort()
            raise unusable(
                "server-wants-tls",
                f"{url.authority} speaks TLS, and the URL is without",
                f"give it as https://{url.authority}{url.path}",
            )

    def _compressed(self, fault: str) -> UsageError:
        return unusable(
            "server-compresses",
            f"{self.settings.url} sends {fault}",
            "turn compression off in the server and in any proxy before it, or let it use gzip",
        )

    def _redirected(self, path: str, exchange: Exchange) -> UsageError:
        url = self.settings.url
        location = exchange.headers.get(b"location", b"").decode("latin-1")
        there = urljoin(f"{url}{path}", location).removesuffix(path)
        return unusable(
            "server-redirects",
            f"{url} redirects to {there if location else 'nowhere'} (HTTP {exchange.http_status})",
            "give that as --url if it is the server; redirects are not followed",
        )

    def _no_key(self) -> UsageError:
        variable = self.settings.api_key_env
        if self.settings.api_key:
            return unusable(
                "api-key-refused", "the server refuses the API key", f"check {variable}"
            )
        return unusable("api-key-missing", "the server wants an API key", f"set {variable}")


def unusable(code: str, what: str, what_to_do: str, secrets: Sequence[str] = ()) -> UsageError:
    return UsageError(code, short(what, secrets), what_to_do, exit_code=_UNUSABLE)


def is_busy(exchange: Exchange) -> bool:
    """Whether a server says that it has too much to do, or loads its model: so llama.cpp, TGI and
    gateways in front of a server that starts, with 503 or 502, and others in words alone.
    """
    status = exchange.http_status or 0
    loading = status >= _SERVER_ERRORS and b"loading" in text_of(exchange).lower()
    return status in _BUSY or loading


def wait_s(retry_after: bytes | None) -> float:
    """Return for how many seconds to wait, as the server asks (a number), at most ten."""
    try:
        asked_s = float(retry_after or _DEFAULT_WAIT_S)
    except ValueError:
        asked_s = _DEFAULT_WAIT_S
    return min(max(_LEAST_WAIT_S, asked_s), _LONGEST_WAIT_S)  # the least for NaN, too


def text_of(exchange: Exchange) -> bytes:
    """Return the body of an answer that is not a stream, empty if it has none."""
    return exchange.body.text if exchange.body is not None else b""


def json_of(exchange: Exchange) -> Any:
    """Return the JSON of a success in one piece, else None."""
    return read_json(text_of(exchange)) if exchange.http_status == 200 else None


def _words(exchange: Exchange) -> str:
    text = text_of(exchange)
    return error_message(read_json(text), text)

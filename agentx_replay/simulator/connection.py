"""HTTP/1.1 for the simulator: one connection's requests in order, and its bytes out.

Written on the event loop's protocol rather than on a web framework because a step writes to
hundreds of connections at once: a write here is one system call, made when it is asked for, so
that the moment it happens is known. It parses with httptools and knows nothing of what is asked.
"""

import asyncio
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

import httptools

from agentx_replay.simulator.api import error_body, http_response

_MAX_HEADER_BYTES = 64 * 1024
_MAX_UNSENT_BYTES = 16 * 1024 * 1024
_MAX_PIPELINED = 16
_LINGER_S = 2.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, eq=False)
class HttpRequest:
    """One whole request. ``path`` has no query."""

    method: str
    path: str
    body: bytes
    request_id: str
    keep_alive: bool


class Handler(Protocol):
    """Answers requests. The answer ends with ``Connection.finish``."""

    def handle(self, connection: "Connection", request: HttpRequest) -> None:
        """Begin to answer ``request``."""

    def lost(self, connection: "Connection") -> None:
        """Learn that nothing more can be written."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long an idle connection is kept, in s, and how large a body may be."""

    keep_alive_s: float
    max_body_bytes: int


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, handler: Handler, limits: Limits) -> None:
        self._handler = handler
        self._limits = limits
        self._parser = httptools.HttpRequestParser(self)
        self._requests: deque[HttpRequest] = deque()
        self._busy = False
        self._refusal: bytes | None = None
        self._open = False  # may be written to
        self._lost = True  # has no transport, or had one
        self._idle: asyncio.TimerHandle | None = None
        self.on_message_begin()

    # The event loop's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport and its descriptor."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._descriptor: int = transport.get_extra_info("socket").fileno()
        self._open = True
        self._lost = False
        self._watch_idle()

    def data_received(self, data: bytes) -> None:
        """Parse what came; requests behind one being answered wait their turn."""
        if self._refusal is not None:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._parser = httptools.HttpRequestParser(self)  # stay with HTTP/1.1
        except httptools.HttpParserError as error:
            self._refuse(400, f"The request is not HTTP: {error}")
        if len(self._requests) >= _MAX_PIPELINED:
            self._transport.pause_reading()
        self._watch_idle()
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Forget the transport: its descriptor may soon be another's."""
        self._open = False
        self._lost = True
        self._stop_idle()
        self._handler.lost(self)

    # The parser's side.

    def on_message_begin(self) -> None:
        """Start a request."""
        self._url = b""
        self._request_id = b""
        self._header_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._url += url
        self._count_header(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take the one header that matters here."""
        self._count_header(len(name) + len(value))
        if name.lower() == b"x-request-id":
            self._request_id = value

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.max_body_bytes:
            self._refuse(413, f"The body is over {self._limits.max_body_bytes} bytes.")
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """Queue a whole request."""
        if self._refusal is not None:
            return
        self._requests.append(
            HttpRequest(
                method=self._parser.get_method().decode("ascii"),
                path=self._url.partition(b"?")[0].decode("latin-1"),
                body=b"".join(self._body),
                request_id=self._request_id.decode("latin-1"),
                keep_alive=self._parser.should_keep_alive(),
            )
        )

    # The handler's side.

    def send(self, data: bytes) -> None:
        """Write now; what the kernel does not take goes to the transport's buffer.

        A client that has let 16 MiB pile up is dropped.
        """
        if not self._open:
            return
        unsent_bytes = self._transport.get_write_buffer_size()
        if unsent_bytes > _MAX_UNSENT_BYTES:
            self.reset()
        elif unsent_bytes:
            self._transport.write(data)
        else:
            self._write_now(data)

    def finish(self, *, keep_alive: bool) -> None:
        """End the answer: close, or go on to the next request."""
        if not self._open:
            return
        self._busy = False
        if not keep_alive:
            self.close()
            return
        self._transport.resume_reading()
        self._watch_idle()
        asyncio.get_running_loop().call_soon(self._next)

    def close(self) -> None:
        """Close when what was written is sent."""
        self._open = False
        self._stop_idle()
        self._transport.close()

    def reset(self) -> None:
        """Reset the connection (RST): what was not sent is lost."""
        if self._lost:
            return
        self._open = False
        self._stop_idle()
        with socket.socket(fileno=os.dup(self._descriptor)) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()

    def _write_now(self, data: bytes) -> None:
        try:
            written = os.write(self._descriptor, data)
        except BlockingIOError:
            written = 0
        except OSError:  # the client is gone and the loop has not said so yet
            self.reset()
            return
        if written < len(data):
            self._transport.write(data[written:])

    def _next(self) -> None:
        if self._busy or not self._open:
            return
        if self._requests:
            self._busy = True
            self._stop_idle()
            self._handler.handle(self, self._requests.popleft())
        elif self._refusal is not None:
            self.send(self._refusal)
            self._linger()

    def _linger(self) -> None:
        """Close for writing and drop what still comes: a close with unread bytes is a reset, and
        the client would lose the answer."""
        if self._open:
            self._open = False
            self._transport.write_eof()
            self._idle = _later(_LINGER_S, self._transport.close)

    def _count_header(self, length: int) -> None:
        self._header_bytes += length
        if self._header_bytes > _MAX_HEADER_BYTES:
            self._refuse(431, f"The headers are over {_MAX_HEADER_BYTES} bytes.")

    def _refuse(self, status: int, message: str) -> None:
        """Answer, in its turn, what cannot be a request; where the next begins is not known."""
        if self._refusal is None:
            body = error_body(status, message, "BadRequestError")
            self._refusal = http_response(status, body, keep_alive=False)

    def _watch_idle(self) -> None:
        self._stop_idle()
        if self._open and not self._busy:
            self._idle = _later(self._limits.keep_alive_s, self.close)

    def _stop_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None


def _later(delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(delay_s, call)

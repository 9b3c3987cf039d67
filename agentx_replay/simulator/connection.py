"""HTTP/1.1 for the simulator: one connection's requests in order, and its bytes out.

Written on the socket rather than on a web framework because a step writes to hundreds of
connections at once: a write here is one system call, made when it is asked for, so that the moment
it happens is known; and a read has the kernel's stamp of when its bytes were there. It parses with
httptools and knows nothing of what is asked.
"""

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import httptools

from agentx_replay.simulator.api import error_body, http_response
from agentx_replay.simulator.listening import ANCILLARY_BYTES, received_ns

_MAX_HEADER_BYTES = 64 * 1024
_MAX_UNSENT_BYTES = 16 * 1024 * 1024
_MAX_PIPELINED = 16
_READ_BYTES = 256 * 1024
_LINGER_S = 2.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, eq=False)
class HttpRequest:
    """One whole request. ``path`` has no query; ``received_ns`` is when its first byte was there,
    on the monotonic clock.
    """

    method: str
    path: str
    body: bytes
    request_id: str
    keep_alive: bool
    received_ns: int


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


class Connection:
    """One client's connection, on an accepted socket."""

    def __init__(self, handler: Handler, limits: Limits, accepted: socket.socket) -> None:
        self._handler = handler
        self._limits = limits
        self._socket = accepted
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._requests: deque[HttpRequest] = deque()
        self._busy = False
        self._refusal: bytes | None = None
        self._open = True  # may be written to
        self._lost = False  # its socket is closed
        self._reading = False
        self._unsent = bytearray()
        self._when_sent: Callable[[], None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._between_requests = True
        self._read_ns = 0
        self._begin_request()
        self._resume_reading()
        self._watch_idle()

    # The event loop's side.

    def _read(self) -> None:
        """Parse what came; requests behind one being answered wait their turn."""
        try:
            if self._between_requests:  # a long request's read is stamped for its last segment
                _, ancillary, _, _ = self._socket.recvmsg(1, ANCILLARY_BYTES, socket.MSG_PEEK)
                first_byte_ns = received_ns(ancillary)
            data, ancillary, _, _ = self._socket.recvmsg(_READ_BYTES, ANCILLARY_BYTES)
        except BlockingIOError:
            return
        except OSError:  # reset by the client
            self._lose()
            return
        self._read_ns = first_byte_ns if self._between_requests else received_ns(ancillary)
        if data:
            self._parse(data)
        else:
            self._pause_reading()
            self.close()

    def _parse(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._parser = httptools.HttpRequestParser(self)  # stay with HTTP/1.1
        except httptools.HttpParserError as error:
            self._refuse(400, f"The request is not HTTP: {error}")
        if len(self._requests) >= _MAX_PIPELINED:
            self._pause_reading()
        self._watch_idle()
        self._next()

    def _pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._socket)

    def _resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._loop.add_reader(self._socket, self._read)

    def _lose(self) -> None:
        """Close the socket, and say so in the loop's next turn."""
        if self._lost:
            return
        self._open = False
        self._lost = True
        self._stop_idle()
        self._pause_reading()
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._loop.call_soon(self._handler.lost, self)

    # The parser's side.

    def on_message_begin(self) -> None:
        self._between_requests = False
        self._begin_request()

    def _begin_request(self) -> None:
        self._received_ns = self._read_ns
        self._url = b""
        self._request_id = b""
        self._header_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count_header(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
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
        self._between_requests = True
        if self._refusal is not None:
            return
        self._requests.append(
            HttpRequest(
                method=self._parser.get_method().decode("ascii"),
                path=self._url.partition(b"?")[0].decode("latin-1"),
                body=b"".join(self._body),
                request_id=self._request_id.decode("latin-1"),
                keep_alive=self._parser.should_keep_alive(),
                received_ns=self._received_ns,
            )
        )

    # The handler's side.

    def send(self, data: bytes) -> None:
        """Write now; what the kernel does not take is kept until it does.

        A client that has let 16 MiB pile up is dropped.
        """
        if not self._open:
            return
        if len(self._unsent) > _MAX_UNSENT_BYTES:
            self.reset()
        elif self._unsent:
            self._unsent += data
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
        self._resume_reading()
        self._watch_idle()
        self._loop.call_soon(self._next)

    def close(self) -> None:
        """Close when what was written is sent."""
        if not self._lost:
            self._open = False
            self._stop_idle()
            self._after_sending(self._lose)

    def reset(self) -> None:
        """Reset the connection (RST): what was not sent is lost."""
        if not self._lost:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._lose()

    def _write_now(self, data: bytes) -> None:
        try:
            written = self._socket.send(data)
        except BlockingIOError:
            written = 0
        except OSError:  # the client is gone and the loop has not said so yet
            self.reset()
            return
        if written < len(data):
            self._unsent += data[written:]
            self._loop.add_writer(self._socket, self._write_on)

    def _write_on(self) -> None:
        """Write what was kept."""
        try:
            written = self._socket.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:
            self.reset()
            return
        del self._unsent[:written]
        if not self._unsent:
            self._loop.remove_writer(self._socket)
            if self._when_sent is not None:
                self._when_sent()

    def _after_sending(self, call: Callable[[], None]) -> None:
        self._when_sent = call
        if not self._unsent:
            call()

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
            self._after_sending(self._end_writing)
            self._idle = self._loop.call_later(_LINGER_S, self._lose)

    def _end_writing(self) -> None:
        with contextlib.suppress(OSError):  # the client is gone: the next read says so
            self._socket.shutdown(socket.SHUT_WR)

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
            self._idle = self._loop.call_later(self._limits.keep_alive_s, self.close)

    def _stop_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

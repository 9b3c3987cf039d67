"""HTTP/1.1 for the simulator: one connection's requests in order, and its bytes out.

On sockets and not on a web framework, because a step writes to hundreds of connections at once: a
write is one system call, made when it is asked for, so that its moment is known, and a read has the
kernel's timestamp. Nothing here knows what is asked.
"""

import asyncio
import contextlib
import socket
import struct
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import httptools
import orjson

from agentx_replay import __version__
from agentx_replay.endpoint.kernel_stamps import CONTROL_BYTES, prepare, stamp_ns
from agentx_replay.errors import UsageError

JSON_TYPE = b"application/json"
LAST_CHUNK = b"0\r\n\r\n"

_NAME = f"agentx-replay-simulator/{__version__}".encode()
_REASONS = {
    200: b"OK",
    400: b"Bad Request",
    404: b"Not Found",
    405: b"Method Not Allowed",
    413: b"Content Too Large",
    431: b"Request Header Fields Too Large",
}
_MAX_HEAD_BYTES = 64 * 1024
_MAX_REQUEST_BYTES = 256 * 1024 * 1024
"""Far more than the longest prompt, and little enough that no client can fill the memory."""

_MAX_UNSENT_BYTES = 16 * 1024 * 1024
_READ_BYTES = 256 * 1024
_LINGER_S = 2.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_BACKLOG = 4096
_ACCEPT_AGAIN_S = 0.1
"""After a connection could not be accepted, as for want of a file descriptor."""

Control = list[tuple[int, int, bytes]]


@dataclass(frozen=True, slots=True, eq=False)
class HttpRequest:
    """One whole request. ``path`` has no query; ``received_ns`` is when its first byte arrived, on
    the monotonic clock.
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
        """Nothing more can be written to the connection."""


class Connection:
    """One client's connection, on an accepted socket."""

    def __init__(self, handler: Handler, keep_alive_s: float, accepted: socket.socket) -> None:
        self._handler = handler
        self._keep_alive_s = keep_alive_s
        self._socket = accepted
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._requests: deque[HttpRequest] = deque()
        self._refusal: bytes | None = None
        self._busy = self._lost = False
        self._open = True  # may be written to
        self._unsent = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._between_requests = True
        self._has_head = False
        self._request_bytes = self._reading_bytes = 0
        self._read_ns = 0
        self._loop.add_reader(accepted, self._read)
        self._await_request()

    # --- what comes ---------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            first: Control = []
            if self._between_requests:  # a long request's read is stamped for its last segment
                first = self._socket.recvmsg(1, CONTROL_BYTES, socket.MSG_PEEK)[1]
            data, control, _, _ = self._socket.recvmsg(_READ_BYTES, CONTROL_BYTES)
            self._read_ns = received_ns(first or control)
        except BlockingIOError:
            return
        except OSError:  # reset by the client
            data = b""
        if not data:
            self._lose()
        elif self._refusal is None:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        self._reading_bytes = len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._parser = httptools.HttpRequestParser(self)  # stay with HTTP/1.1
        except httptools.HttpParserError as error:
            self._refuse(400, f"The request is not HTTP: {error}")
        self._bound()
        if not self._busy:
            self._await_request()
            self._next()

    def _bound(self) -> None:
        """Refuse a request without end. The read in which it begins is bounded, and not counted."""
        self._request_bytes += self._reading_bytes
        if not self._has_head and self._request_bytes > _MAX_HEAD_BYTES:
            self._refuse(431, f"The headers are over {_MAX_HEAD_BYTES} bytes.")
        elif self._request_bytes > _MAX_REQUEST_BYTES:
            self._refuse(413, f"The request is over {_MAX_REQUEST_BYTES} bytes.")

    def _refuse(self, status: int, message: str) -> None:
        """Answer in its turn what is no request: where the next begins is not known."""
        body = error_body(status, message, "BadRequestError")
        self._refusal = http_response(status, body, keep_alive=False)

    def on_message_begin(self) -> None:
        self._between_requests = self._has_head = False
        self._request_bytes = -self._reading_bytes
        self._received_ns = self._read_ns
        self._url = self._request_id = b""
        self._body: list[bytes] = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"x-request-id":
            self._request_id = value

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._between_requests = True
        self._request_bytes = -self._reading_bytes
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

    def _next(self) -> None:
        if self._busy or not self._open:
            return
        if self._requests:
            self._busy = True
            self._set_timer(None)
            self._handler.handle(self, self._requests.popleft())
        elif self._refusal is not None:
            self.send(self._refusal)
            self.close()

    # --- what goes ----------------------------------------------------------------------------

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
        elif (written := self._written(data)) < len(data):
            self._unsent += data[written:]
            self._loop.add_writer(self._socket, self._write_on)

    def finish(self, *, keep_alive: bool) -> None:
        """End the answer: close, or go on to the next request."""
        self._busy = False
        if not keep_alive:
            self.close()
        elif self._open:
            self._await_request()
            self._loop.call_soon(self._next)

    def close(self) -> None:
        """Close when what was written is sent: for writing first, for a close with bytes unread is
        a reset, and the client would lose the answer.
        """
        if self._open:
            self._open = False
            self._set_timer(_LINGER_S, self._lose)
            if not self._unsent:
                self._end_writing()

    def reset(self) -> None:
        """Reset the connection (RST): what was not sent is lost."""
        if not self._lost:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._lose()

    def _written(self, data: bytes | bytearray) -> int:
        """Return how many bytes the kernel took; all, where the client is gone."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self.reset()
            return len(data)

    def _write_on(self) -> None:
        del self._unsent[: self._written(self._unsent)]
        if not self._unsent and not self._lost:
            self._loop.remove_writer(self._socket)
            if not self._open:
                self._end_writing()

    def _end_writing(self) -> None:
        with contextlib.suppress(OSError):  # the client is gone: the next read says so
            self._socket.shutdown(socket.SHUT_WR)

    def _lose(self) -> None:
        """Close the socket, and say so in the loop's next turn."""
        if self._lost:
            return
        self._open = False
        self._lost = True
        self._set_timer(None)
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._loop.call_soon(self._handler.lost, self)

    def _await_request(self) -> None:
        if self._open:
            self._set_timer(self._keep_alive_s, self.close)

    def _set_timer(self, delay_s: float | None, call: Callable[[], None] = lambda: None) -> None:
        """Have a call made in so many seconds in place of the one that was to be, None for none."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if delay_s is None else self._loop.call_later(delay_s, call)


def received_ns(control: Control) -> int:
    """Return when a read's bytes arrived, on the monotonic clock: by the kernel's timestamp, or now
    where it gave none.
    """
    now_ns = time.monotonic_ns()
    for _, _, stamp in control:
        return min(now_ns, stamp_ns(stamp) + now_ns - time.time_ns())
    return now_ns


@asynccontextmanager
async def listening(
    host: str, port: int, made: Callable[[socket.socket], None]
) -> AsyncIterator[int]:
    """Accept connections on every address of a host while the context is open, which is the port's
    number (port 0: any free one); hand each socket to ``made``.

    Raises UsageError where the address cannot be had.
    """
    with contextlib.ExitStack() as opened:
        try:
            listeners = [opened.enter_context(each) for each in await _listeners(host, port)]
        except OSError as error:
            raise UsageError(
                "address-unusable",
                f"the simulator cannot listen on {host} port {port}: {error.strerror}",
                "choose another address or port, or port 0 for a free one",
            ) from error
        accepting = [asyncio.create_task(_accept(each, made)) for each in listeners]
        try:
            yield listeners[0].getsockname()[1]
        finally:
            for task in accepting:
                task.cancel()
            await asyncio.gather(*accepting, return_exceptions=True)


async def _listeners(host: str, port: int) -> list[socket.socket]:
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    listeners = []
    for family, address in dict.fromkeys((each[0], each[4]) for each in found):
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
        listener.setblocking(False)
        prepare(listener, "kernel")  # accepted sockets inherit it, before anything comes
        listeners.append(listener)
    return listeners


async def _accept(listener: socket.socket, made: Callable[[socket.socket], None]) -> None:
    while True:
        try:
            accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            await asyncio.sleep(_ACCEPT_AGAIN_S)
        else:
            made(accepted)


# --- what responses are made of ---------------------------------------------------------------


def error_body(status: int, message: str, kind: str, param: str | None = None) -> bytes:
    """Return an error as vLLM shapes it."""
    return orjson.dumps(
        {"error": {"message": message, "type": kind, "param": param, "code": status}}
    )


def http_response(
    status: int, body: bytes, *, keep_alive: bool, content_type: bytes = JSON_TYPE
) -> bytes:
    return (
        b"HTTP/1.1 %d %b\r\nserver: %b\r\n" % (status, _REASONS.get(status, b"Status"), _NAME)
        + b"content-type: %b\r\ncontent-length: %d\r\n" % (content_type, len(body))
        + (b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
        + body
    )


def stream_head(*, keep_alive: bool) -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\n"
        b"content-type: text/event-stream; charset=utf-8\r\n"
        b"cache-control: no-cache\r\n"
        b"transfer-encoding: chunked\r\n"
        + (b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
    )


def chunk(data: bytes) -> bytes:
    """Return data as one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)

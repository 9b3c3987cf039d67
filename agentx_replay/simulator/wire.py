"""Response bytes onto a connection: headers and chunked framing.

What the events say is in ``events.py``.
"""

import time

from agentx_replay.simulator.api import http_response
from agentx_replay.simulator.connection import Connection
from agentx_replay.simulator.truth import ResponseTruth

LAST_CHUNK = b"0\r\n\r\n"


def stream_head(*, keep_alive: bool) -> bytes:
    """Return the headers of a stream."""
    return (
        b"HTTP/1.1 200 OK\r\n"
        b"content-type: text/event-stream; charset=utf-8\r\n"
        b"cache-control: no-cache\r\n"
        b"transfer-encoding: chunked\r\n"
        + (b"" if keep_alive else b"connection: close\r\n")
        + b"\r\n"
    )


def chunk(data: bytes) -> bytes:
    """Return data as one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Wire:
    """Where one response goes: each event is one write, made at once.

    An event is framed once where it is the one before again: the tokens of a response are the same
    bytes over and over.
    """

    __slots__ = ("_frame", "_payload", "connection", "keep_alive", "truth")

    def __init__(
        self, connection: Connection, *, keep_alive: bool, truth: ResponseTruth | None
    ) -> None:
        self.connection = connection
        self.keep_alive = keep_alive
        self.truth = truth
        self._payload = b""
        self._frame = b""

    def whole(self, body: bytes) -> None:
        self.connection.send(http_response(200, body, keep_alive=self.keep_alive))
        self.connection.finish(keep_alive=self.keep_alive)

    def head(self) -> None:
        self.connection.send(stream_head(keep_alive=self.keep_alive))

    def event(self, payload: bytes, tokens: int = 0) -> None:
        """Send an event that holds so many tokens, stamped just before the system call."""
        if payload is not self._payload:
            self._payload = payload
            self._frame = chunk(payload)
        if tokens and self.truth is not None:
            self.truth.sent(time.monotonic_ns(), tokens)
        self.connection.send(self._frame)

    def end(self) -> None:
        self.connection.send(LAST_CHUNK)
        self.connection.finish(keep_alive=self.keep_alive)

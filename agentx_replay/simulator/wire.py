"""Response bytes onto a connection: chunked framing, and the breaking of it on purpose.

``PlainWire`` writes each event at once, and frames an event it has just framed only once: the
tokens of a response are the same bytes over and over. ``FaultyWire`` does what a ``Fault`` says.
What the events say is in ``events.py``.
"""

import asyncio
import time
import zlib
from collections.abc import Callable
from typing import Protocol

from agentx_replay.simulator.api import error_body, http_response
from agentx_replay.simulator.connection import Connection
from agentx_replay.simulator.events import done
from agentx_replay.simulator.faults import Act, Break, Fault, Point
from agentx_replay.simulator.truth import ResponseTruth

_LAST_CHUNK = b"0\r\n\r\n"
_GZIP_WINDOW_BITS = 31
_BROKEN = "the simulator broke this response on purpose"


class Wire(Protocol):
    """Where one response goes."""

    def begin(self) -> bool:
        """Take the request up; False where it is answered already and nothing must follow."""

    def whole(self, status: int, body: bytes) -> None:
        """Send a response that is not streamed, and end."""

    def head(self) -> None:
        """Send the headers of a stream."""

    def event(self, payload: bytes, tokens: int = 0) -> None:
        """Send an event, which holds so many tokens."""

    def tail(self, payload: bytes) -> None:
        """Send an event that comes after the last token."""

    def end(self) -> None:
        """End the stream."""


def stream_head(*, keep_alive: bool, gzip: bool = False) -> bytes:
    """Return the headers of a stream."""
    return (
        b"HTTP/1.1 200 OK\r\n"
        b"content-type: text/event-stream; charset=utf-8\r\n"
        b"cache-control: no-cache\r\n"
        b"transfer-encoding: chunked\r\n"
        + (b"content-encoding: gzip\r\n" if gzip else b"")
        + (b"" if keep_alive else b"connection: close\r\n")
        + b"\r\n"
    )


def chunk(data: bytes) -> bytes:
    """Return data as one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class PlainWire:
    """A response as it should be."""

    __slots__ = ("_connection", "_frame", "_keep_alive", "_payload", "_truth")

    def __init__(
        self, connection: Connection, *, keep_alive: bool, truth: ResponseTruth | None
    ) -> None:
        self._connection = connection
        self._keep_alive = keep_alive
        self._truth = truth
        self._payload = b""
        self._frame = b""

    def begin(self) -> bool:
        """Take the request up."""
        return True

    def whole(self, status: int, body: bytes) -> None:
        """Send a response that is not streamed, and end."""
        self._connection.send(http_response(status, body, keep_alive=self._keep_alive))
        self._connection.finish(keep_alive=self._keep_alive)

    def head(self) -> None:
        """Send the headers of a stream."""
        self._connection.send(stream_head(keep_alive=self._keep_alive))

    def event(self, payload: bytes, tokens: int = 0) -> None:
        """Send an event, stamped just before the system call."""
        if payload is not self._payload:
            self._payload = payload
            self._frame = chunk(payload)
        if tokens and self._truth is not None:
            self._truth.sent(time.monotonic_ns(), tokens)
        self._connection.send(self._frame)

    def tail(self, payload: bytes) -> None:
        """Send an event that comes after the last token."""
        self._connection.send(chunk(payload))

    def end(self) -> None:
        """End the stream."""
        self._connection.send(_LAST_CHUNK)
        self._connection.finish(keep_alive=self._keep_alive)


class FaultyWire:
    """A response as a ``Fault`` has it. ``abandon`` stops the generation behind it."""

    def __init__(
        self,
        connection: Connection,
        fault: Fault,
        *,
        keep_alive: bool,
        truth: ResponseTruth | None,
        abandon: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._shape = fault.shape
        self._break: Break | None = fault.breaks
        self._keep_alive = keep_alive
        self._truth = truth
        self._abandon = abandon
        self._gzip = zlib.compressobj(wbits=_GZIP_WINDOW_BITS) if fault.shape.gzip else None
        self._token_events = 0
        self._gathered = b""
        self._gathered_events = 0
        self._gathered_tokens: list[int] = []
        self._held: list[tuple[bytes, list[int]]] | None = None
        self._over = False

    def begin(self) -> bool:
        """Take the request up, unless it breaks before the headers."""
        self._pass(Point.BEFORE_HEADERS)
        return not self._over

    def whole(self, status: int, body: bytes) -> None:
        """Send a response that is not streamed, and end."""
        self._write(http_response(status, body, keep_alive=self._keep_alive), [])
        self._finish()

    def head(self) -> None:
        """Send the headers of a stream."""
        gzip = self._gzip is not None
        self._write(stream_head(keep_alive=self._keep_alive, gzip=gzip), [])

    def event(self, payload: bytes, tokens: int = 0) -> None:
        """Send an event, or break before it or inside it."""
        if tokens:
            if not self._token_events:
                self._pass(Point.BEFORE_FIRST_TOKEN)
            elif self._break and self._token_events == self._break.after_events:
                self._pass(Point.BETWEEN_EVENTS)
        if self._over:
            return
        frame = self._framed(payload)
        if tokens and self._breaks_inside():
            self._flush()
            half = len(frame) // 2
            self._write(frame[:half], [])
            self._pass(Point.INSIDE_EVENT)
            if not self._over:
                self._write(frame[half:], [tokens])
        else:
            self._gather(frame, tokens)
        self._token_events += bool(tokens)

    def tail(self, payload: bytes) -> None:
        """Send an event that comes after the last token."""
        self._pass(Point.AFTER_LAST_TOKEN)
        if not self._over:
            self._gather(self._framed(payload), 0)

    def end(self) -> None:
        """End the stream."""
        self._pass(Point.AFTER_LAST_TOKEN)
        self._pass(Point.AFTER_DONE)
        if not self._over:
            self._close_stream()

    def _breaks_inside(self) -> bool:
        due = self._break
        return (
            due is not None
            and due.at is Point.INSIDE_EVENT
            and due.after_events == self._token_events
        )

    def _pass(self, point: Point) -> None:
        """Break here if here is where the response breaks."""
        due = self._break
        if due is None or due.at is not point or self._over:
            return
        self._break = None
        self._flush()
        if due.act is Act.STALL:
            self._held = []
            self._stall_until(time.monotonic() + due.stall_s)
            return
        self._end_early(due)

    def _stall_until(self, end_s: float) -> None:
        """Resume at ``end_s`` and no sooner: a loop's timer may fire a millisecond early."""
        left_s = end_s - time.monotonic()
        if left_s > 0.0:
            asyncio.get_running_loop().call_later(left_s, self._stall_until, end_s)
        else:
            self._resume()

    def _end_early(self, due: Break) -> None:
        if due.act is Act.RESET:
            self._connection.reset()
        elif due.act is Act.CLOSE:
            self._connection.close()
        elif due.act is Act.STATUS:
            self._answer_status(due)
        else:
            for payload in self._last_words(due):
                self._write(self._framed(payload), [])
            self._close_stream()
        self._over = True
        self._abandon()

    def _answer_status(self, due: Break) -> None:
        body = error_body(due.status, _BROKEN, "InternalServerError")
        self._connection.send(
            http_response(
                due.status, body, keep_alive=self._keep_alive, retry_after_s=due.retry_after_s
            )
        )
        self._connection.finish(keep_alive=self._keep_alive)

    def _last_words(self, due: Break) -> list[bytes]:
        end = self._shape.line_end.encode()
        if due.act is Act.GARBAGE:
            return [b'data: {"choices": [{"del' + end + end]
        error = b"data: " + error_body(500, _BROKEN, "InternalServerError") + end + end
        if due.act is Act.ERROR_EVENT:
            return [b"event: error" + end + error]
        return [error, done(self._shape)]

    def _framed(self, payload: bytes) -> bytes:
        if self._shape.comments:
            end = self._shape.line_end.encode()
            payload = b": still here" + end + end + payload
        if self._gzip is not None:
            payload = self._gzip.compress(payload) + self._gzip.flush(zlib.Z_SYNC_FLUSH)
        return chunk(payload)

    def _gather(self, frame: bytes, tokens: int) -> None:
        """Write when enough events are together; a sheared stream keeps the last half back."""
        self._gathered += frame
        self._gathered_events += 1
        if tokens:
            self._gathered_tokens.append(tokens)
        if self._gathered_events < self._shape.events_per_write:
            return
        if not self._shape.sheared:
            self._flush()
            return
        cut = len(self._gathered) - len(frame) // 2
        kept_tokens = [tokens] if tokens else []
        whole_tokens = self._gathered_tokens[: len(self._gathered_tokens) - len(kept_tokens)]
        self._write(self._gathered[:cut], whole_tokens)
        self._gathered, self._gathered_tokens = self._gathered[cut:], kept_tokens
        self._gathered_events = 0

    def _flush(self) -> None:
        if self._gathered:
            self._write(self._gathered, self._gathered_tokens)
        self._gathered, self._gathered_tokens, self._gathered_events = b"", [], 0

    def _close_stream(self) -> None:
        self._flush()
        trailer = b"" if self._gzip is None else chunk(self._gzip.flush())
        self._write(trailer + _LAST_CHUNK, [])
        self._finish()

    def _finish(self) -> None:
        self._over = True
        if self._held is None:
            self._connection.finish(keep_alive=self._keep_alive)

    def _write(self, data: bytes, tokens: list[int]) -> None:
        """Write now, or when the stall is over; an event counts as sent with its last byte."""
        if self._held is not None:
            self._held.append((data, tokens))
            return
        if self._truth is not None:
            for count in tokens:
                self._truth.sent(time.monotonic_ns(), count)
        self._connection.send(data)

    def _resume(self) -> None:
        held, self._held = self._held or [], None
        for data, tokens in held:
            self._write(data, tokens)
        if self._over:
            self._finish()

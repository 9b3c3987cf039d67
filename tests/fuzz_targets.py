"""What must hold for any bytes at all, as functions of bytes: for hypothesis and for a fuzzer.

The first byte says where the rest is cut into reads. A target raises AssertionError, or whatever
the code under test raises, where something does not hold.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable

from http_reads import parsed
from stamped_stream import StampedStream

from agentx_replay.endpoint.connection import Connection
from agentx_replay.endpoint.outcome import response_of
from agentx_replay.endpoint.server_sent_events import EventSplitter
from agentx_replay.endpoint.stamped_socket import READ_BYTES, StampedSocket, Wire
from agentx_replay.errors import UsageError
from agentx_replay.traces.weka import read_session

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
Seen = tuple[str, str | None, int, str | None]
"""Status, category, token events and finish reason of a response."""


def cut(data: bytes) -> list[bytes]:
    """Return the bytes after the first in pieces of that many, 1 to 64."""
    if not data:
        return []
    size = data[0] % 64 + 1
    rest = data[1:]
    return [rest[at : at + size] for at in range(0, len(rest), size)]


def events(data: bytes) -> None:
    """However a stream is cut, its events and what they mean are the same."""
    split, whole = EventSplitter(), EventSplitter()
    found = [event for piece in cut(data) for event in split.feed(piece)]
    assert found + split.rest() == whole.feed(data[1:]) + whole.rest()
    reader = StampedStream()
    for at_ns, event in enumerate(found):
        reader.read(event, at_ns)
    stream = reader.result()
    assert len(stream.arrival_ns) <= len(found)
    assert stream.arrival_tokens is None or len(stream.arrival_tokens) == len(stream.arrival_ns)


def chunks(data: bytes) -> None:
    """However a chunked body is cut, its bytes and its end are the same."""
    split, whole = parsed(CHUNKED, *cut(data)), parsed(CHUNKED, data[1:])
    told = [
        (body.text, each.complete_at is not None, each.fault)
        for each in (split, whole)
        if (body := each.body(complete=False)) is not None
    ]
    assert told[0] == told[1]


async def _response(pieces: list[bytes]) -> Seen:
    wire = Wire.of(asyncio.get_running_loop(), "process")
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    connection = Connection(wire, StampedSocket(wire, ours, READ_BYTES, None))
    exchange = connection.exchange(b"request", streamed=True)
    with theirs:
        for piece in pieces:
            with contextlib.suppress(OSError):
                theirs.sendall(piece)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    await exchange.done
    connection.abort()
    response = response_of(exchange, ())
    category = None if response.error_category is None else str(response.error_category)
    return str(response.status), category, len(response.arrival_ns), response.finish_reason


def http(data: bytes) -> None:
    """Whatever a server sends, there is one response; and it is the same however it is cut."""
    rest = data[1:]
    in_one = [rest] if rest else []
    with asyncio.Runner() as runner:
        assert runner.run(_response(cut(data))) == runner.run(_response(in_one))


def trace(data: bytes) -> None:
    """Any file is a session, or refused in words."""
    with contextlib.suppress(UsageError):
        read_session(data, "t.json")


TARGETS: dict[str, Callable[[bytes], None]] = {
    "events": events,
    "chunks": chunks,
    "http": http,
    "trace": trace,
}

"""What must hold for any bytes at all, as functions of bytes: for hypothesis and for a fuzzer.

The first byte says where the rest is cut into reads. A target raises AssertionError, or whatever
the code under test raises, where something does not hold.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import cast

from agentx_replay.endpoint.chunks import ChunkReader
from agentx_replay.endpoint.connection import Connection
from agentx_replay.endpoint.framing import Chunked
from agentx_replay.endpoint.outcome import Connected, response_of
from agentx_replay.endpoint.parsing import ParseQueue
from agentx_replay.endpoint.sse import EventSplitter
from agentx_replay.errors import UsageError
from agentx_replay.traces.weka import read_session

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
    reader = ChunkReader()
    for at_ns, event in enumerate(found):
        reader.read(event, at_ns)
    stream = reader.result()
    assert len(stream.arrival_ns) <= len(found)
    assert stream.arrival_tokens is None or len(stream.arrival_tokens) == len(stream.arrival_ns)


def _body(framing: Chunked, raw: bytes) -> bytes:
    edges = framing.scan(raw)
    return b"".join(raw[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))


def chunks(data: bytes) -> None:
    """However a chunked body is cut, its bytes and its end are the same."""
    split, whole = Chunked(), Chunked()
    body = b""
    for piece in cut(data):
        if split.ended or split.fault is not None:
            break
        body += _body(split, piece)
    assert body == _body(whole, data[1:])
    assert (split.ended, split.fault) == (whole.ended, whole.fault)


class _Wire(asyncio.Transport):
    """A transport whose other end is the test."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever buffered."""

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """What is sent does not matter."""

    def is_closing(self) -> bool:
        """The test closes; there is no socket whose options matter."""
        return True

    def abort(self) -> None:
        """The test closes."""


async def _response(pieces: list[bytes]) -> Seen:
    loop = asyncio.get_running_loop()
    connection = Connection(loop, ParseQueue(loop))
    connection.connection_made(cast(asyncio.BaseTransport, _Wire()))
    exchange = connection.exchange(b"request", streamed=True)
    for piece in pieces:
        connection.data_received(piece)
        await asyncio.sleep(0)
    connection.connection_lost(None)
    await exchange.done
    response = response_of(exchange, Connected(), 0, ())
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

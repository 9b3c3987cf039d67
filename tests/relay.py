"""A relay in front of a server that does one nasty thing to every stream, on real sockets.

    python tests/relay.py KIND UPSTREAM_PORT

It prints its URL, serves the loopback, and ends when its standard input does.
"""

import asyncio
import os
import subprocess
import sys
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import orjson

KINDS = ("bunch", "timer", "hide_half", "thin", "gzip_unflushed")
_BUNCH_BYTES = 4096
_TIMER_S = 0.25
_EVERY = 10

Alter = Callable[[bytes, bool], bytes]
"""Takes one event and whether it is the last; returns the bytes to send now."""


def _bunch() -> Alter:
    """Send 4 KB at a time."""
    held = bytearray()

    def alter(event: bytes, last: bool) -> bytes:
        held.extend(event)
        if len(held) < _BUNCH_BYTES and not last:
            return b""
        whole = bytes(held)
        held.clear()
        return whole

    return alter


def _timer() -> Alter:
    """Send what came every quarter of a second."""
    held, sent_s = bytearray(), time.monotonic()

    def alter(event: bytes, last: bool) -> bytes:
        nonlocal sent_s
        held.extend(event)
        if time.monotonic() - sent_s < _TIMER_S and not last:
            return b""
        sent_s = time.monotonic()
        whole = bytes(held)
        held.clear()
        return whole

    return alter


def _hide_half(max_tokens: int) -> Alter:
    """Show the second half of the output alone."""
    seen = 0

    def alter(event: bytes, last: bool) -> bytes:
        nonlocal seen
        seen += _has_content(event)
        return b"" if _has_content(event) and seen <= max_tokens / 2 else event

    return alter


def _thin() -> Alter:
    """Show every tenth token alone, and the last."""
    seen = 0

    def alter(event: bytes, last: bool) -> bytes:
        nonlocal seen
        if not _has_content(event) or b'"finish_reason":"length"' in event:
            return event
        seen += 1
        return b"" if seen % _EVERY else event

    return alter


def _gzip_unflushed() -> Alter:
    """Compress, and never flush before the end."""
    packer = zlib.compressobj(wbits=31)

    def alter(event: bytes, last: bool) -> bytes:
        return packer.compress(event) + (packer.flush() if last else b"")

    return alter


def _has_content(event: bytes) -> bool:
    return b'"content":" ' in event


def _alter(kind: str, body: bytes) -> Alter:
    if kind == "hide_half":
        return _hide_half(orjson.loads(body).get("max_completion_tokens", 0))
    makers = {
        "bunch": _bunch, "timer": _timer, "thin": _thin, "gzip_unflushed": _gzip_unflushed,
    }  # fmt: skip
    return makers[kind]()


async def _events(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the events of a chunked body."""
    held = b""
    while size := int(await reader.readline(), 16):
        held += await reader.readexactly(size)
        await reader.readline()
        *whole, held = held.split(b"\n\n")
        for event in whole:
            yield event + b"\n\n"
    await reader.readline()


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return a head and the body whose length it states."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    body = await reader.readexactly(int(lengths[0][15:])) if lengths else b""
    return head, body


async def _relay(
    kind: str, upstream: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    server, to_server = await asyncio.open_connection("127.0.0.1", upstream)
    try:
        while True:
            request, body = await _message(reader)
            to_server.write(request + body)
            head, answer = await _message(server)
            if b"chunked" not in head.lower():
                writer.write(head + answer)
                continue
            if kind == "gzip_unflushed":
                head = head[:-2] + b"Content-Encoding: gzip\r\n\r\n"
            writer.write(head)
            alter = _alter(kind, body)
            async for event in _events(server):
                piece = alter(event, event.startswith(b"data: [DONE]"))
                if piece:
                    writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    await writer.drain()
            writer.write(b"0\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        to_server.close()
        writer.close()


async def _serve(kind: str, upstream: int) -> None:
    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _relay(kind, upstream, reader, writer)

    server = await asyncio.start_server(relay, "127.0.0.1", 0, limit=1 << 26)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def at_end_of_input() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            loop.remove_reader(sys.stdin.fileno())
            ended.set()

    loop.add_reader(sys.stdin.fileno(), at_end_of_input)
    await ended.wait()


@contextmanager
def relayed(kind: str, upstream: int) -> Iterator[str]:
    """Start a relay to a port of the loopback; yield its URL."""
    process = subprocess.Popen(
        [sys.executable, __file__, kind, str(upstream)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.communicate("")


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2])))

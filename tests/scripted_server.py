"""A server that says exactly what a script says, in exactly the writes it says.

A connection plays one script: a list of answers, one a request, each a list of steps; without any
answer it is closed as soon as it is made. A step is
bytes to write (the client has polled its socket before the next step), a call to make, or one of
the moves below.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import orjson

_POLLS = 20
_TIMEOUT_S = 30.0


class Move(Enum):
    """``CLOSE`` and ``RESET`` end the connection; ``HANG`` waits until the client goes."""

    CLOSE = "close"
    RESET = "reset"
    HANG = "hang"


Step = bytes | Move | Callable[[], None]
Answer = Sequence[Step]

SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
HEAD = SSE + b"Transfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Return one HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(value: Any) -> bytes:
    """Return one event holding a value as JSON."""
    return b"data: " + orjson.dumps(value) + b"\n\n"


def token(text: str, finish: str | None = None, **more: Any) -> bytes:
    """Return the event of one content delta."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return event({"choices": [choice], **more})


def usage(prompt: int, completion: int, cached: int = 0) -> bytes:
    """Return the usage-only event at the end."""
    details = {"cached_tokens": cached}
    told = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": details,
    }
    return event({"choices": [], "usage": told})


DONE = b"data: [DONE]\n\n"
TWO_TOKENS = token("a") + token("b", "length") + usage(5, 2, 3) + DONE
WHOLE: Answer = [HEAD, chunk(token("a")), chunk(token("b", "length")), chunk(usage(5, 2, 3) + DONE),
                 LAST_CHUNK]  # fmt: skip


def answer(status: str, body: bytes, *headers: str) -> bytes:
    """Return a whole response of a stated length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass(slots=True)
class ScriptedServer:
    """``requests`` as they came, head and body; ``connections`` is how many were made."""

    scripts: list[Sequence[Answer]]
    read_bodies: bool
    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set["asyncio.Task[Any]"] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        script = self.scripts[min(self.connections, len(self.scripts) - 1)]
        self.connections += 1
        try:
            for steps in script:
                self.requests.append(await self._request(reader))
                for step in steps:
                    await _play(step, reader, writer)
            if script:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self.closed.set()

    async def _request(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n")
             if line.startswith(b"content-length")), 0,
        )  # fmt: skip
        return head + (await reader.readexactly(length) if self.read_bodies else b"")

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _play(step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if isinstance(step, bytes):
        writer.write(step)
        await writer.drain()
        for _ in range(_POLLS):
            await asyncio.sleep(0)
    elif step is Move.HANG:
        await reader.read()
    elif step is Move.RESET:
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
        raise ConnectionResetError
    elif step is Move.CLOSE:
        raise ConnectionResetError
    else:
        step()


@asynccontextmanager
async def scripted(
    *scripts: Sequence[Answer], read_bodies: bool = True, tls: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedServer]:
    """Serve one script a connection, the last one for all that follow."""
    server = ScriptedServer(list(scripts), read_bodies)
    async with asyncio.timeout(_TIMEOUT_S):
        listener = await asyncio.start_server(
            server.serve, "127.0.0.1", 0, limit=1 << 22, ssl=tls, backlog=4096
        )
        server.port = listener.sockets[0].getsockname()[1]
        try:
            yield server
        finally:
            listener.close()
            await server.stop()

"""A client of bytes for the simulator's tests: what is sent and what is read is seen whole."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson

_TIMEOUT_S = 20.0


def post(path: str, body: bytes | Mapping[str, Any], *headers: str) -> bytes:
    """Return the bytes of a POST."""
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    lines = [f"POST {path} HTTP/1.1", "host: x", f"content-length: {len(data)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    """Return the bytes of a request without a body."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: x", *headers]).encode() + b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole response. ``events`` are the data of its server-sent events, comments left out."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def events(self) -> list[bytes]:
        text = self.body.replace(b"\r\n", b"\n")
        return [line[6:] for line in text.split(b"\n") if line.startswith(b"data: ")]

    @property
    def objects(self) -> list[Any]:
        return [orjson.loads(event) for event in self.events if event != b"[DONE]"]


class RawClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def read(self) -> bytes:
        """Return what the next read brings, empty at the end."""
        return await asyncio.wait_for(self._reader.read(1 << 20), _TIMEOUT_S)

    async def read_to_end(self) -> tuple[bytes, bool]:
        """Return all that comes, and whether it ended in a reset."""
        got = b""
        try:
            while piece := await self.read():
                got += piece
        except ConnectionResetError:
            # A StreamReader raises before it gives out what had come before the reset.
            return got + bytes(self._reader._buffer), True  # type: ignore[attr-defined]
        return got, False

    async def answer(self) -> Answer:
        """Read one response, by its content length or its chunks."""
        head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), _TIMEOUT_S)
        first, *lines = head.decode().split("\r\n")[:-2]
        headers = dict(line.split(": ", 1) for line in lines)
        if "transfer-encoding" in headers:
            body = await self._chunks()
        else:
            body = await self._reader.readexactly(int(headers["content-length"]))
        return Answer(int(first.split(" ")[1]), headers, body)

    async def ask(self, request: bytes) -> Answer:
        self.send(request)
        return await self.answer()

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return

    async def _chunks(self) -> bytes:
        body = b""
        while True:
            line = await asyncio.wait_for(self._reader.readuntil(b"\r\n"), _TIMEOUT_S)
            length = int(line, 16)
            data = await self._reader.readexactly(length + 2)
            if not length:
                return body
            body += data[:-2]


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    client = RawClient(reader, writer)
    try:
        yield client
    finally:
        await client.close()

"""A server that counts prompts in whatever odd way a test wants, over real sockets.

``reply`` gets the path and the JSON of each request and returns an answer; the helpers below make
the answers that the servers in the field give. Not for: tokens in time (the simulator).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: JSON, or server-sent events."""

    status: int = 200
    json: Any = None
    events: Sequence[Any] = ()
    headers: tuple[str, ...] = ()

    def encoded(self) -> bytes:
        """Return the whole HTTP response."""
        body, kind = orjson.dumps(self.json), "application/json"
        if self.events:
            kind = "text/event-stream"
            body = b"".join(b"data: %b\n\n" % orjson.dumps(event) for event in self.events)
            body += b"data: [DONE]\n\n"
        lines = [
            f"HTTP/1.1 {self.status} Whatever",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            *self.headers,
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


NOT_FOUND = Reply(404, {"error": {"message": "no such path"}})
REFUSED = Reply(400, {"error": {"message": "the template refuses this"}})
OVERFLOWN = Reply(400, {"error": {"message": "exceeds the available context size"}})

Replying = Callable[[str, Body], Reply]


def words_in(body: Body) -> int:
    """Count the words of a request: of its messages, or of its text or ids."""
    prompt = body.get("prompt", body.get("content"))
    if prompt is None:
        return sum(len(message["content"].split()) for message in body.get("messages", ()))
    return len(prompt.split()) if isinstance(prompt, str) else len(prompt)


def chatml_count(body: Body) -> int:
    """Count messages as ChatML does, five tokens around each and three to answer."""
    return words_in(body) + 5 * len(body.get("messages", ())) + 3


def completion(body: Body, prompt_tokens: int | None) -> Reply:
    """Answer with one token, and with the usage where there is a count."""
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 1}
    if body.get("stream"):
        choice = {"index": 0, "delta": {"content": "a"}, "finish_reason": "length"}
        events: list[Any] = [{"choices": [choice]}]
        if prompt_tokens is not None:
            events.append({"choices": [], "usage": usage})
        return Reply(events=events)
    whole: Body = {"choices": [{"message": {"content": "a"}, "finish_reason": "length"}]}
    return Reply(json=whole if prompt_tokens is None else whole | {"usage": usage})


@dataclass(slots=True)
class CountingServer:
    """A server that listens; ``asked`` is every request as it came."""

    reply: Replying
    port: int = 0
    asked: list[tuple[str, Body]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The base of its API."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection in order."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode("latin-1").lower().split("\r\n")
                length = next((line for line in lines if line.startswith("content-length")), ":0")
                sent = await reader.readexactly(int(length.split(":")[1]))
                body = orjson.loads(sent) if sent else {}
                path = head.split(b" ")[1].decode()
                self.asked.append((path, body))
                writer.write(self.reply(path, body).encoded())
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def counting_server(reply: Replying) -> AsyncIterator[CountingServer]:
    """Serve on the running loop until the context ends."""
    server = CountingServer(reply)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 24)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()

"""A server that emits tokens exactly when it was asked to and remembers when each one left.

What a client measures can be held against it. It models no engine: a request says in its body when
its first token is due (``first_token_at_ns``), how far apart the others are (``every_ns``) and how
many there are (``max_completion_tokens``); ``GET /v1/truth`` tells what was sent since it was last
asked. As a process it is a child as in ``process.py``, and serves the loopback alone.
"""

import asyncio
import heapq
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import orjson

from agentx_replay.replay.clock import real_clock
from agentx_replay.replay.ports import Clock
from agentx_replay.simulator.answer_stream import DONE, Events, usage
from agentx_replay.simulator.http_connection import (
    LAST_CHUNK,
    Connection,
    HttpRequest,
    chunk,
    http_response,
    listening,
    stream_head,
)
from agentx_replay.simulator.process import SimulatorProcess, launch, serve_as_child
from agentx_replay.simulator.truth import ResponseTruth, TruthLog

_KEEP_ALIVE_S = 60.0
_TRUTH_BYTES = 64_000_000
_TOLD_BYTES = 1_000_000
"""At once: some 2 MB of JSON, half of what a client reads of a plain body."""

_EVENTS = Events("chatcmpl-truth", "truth", 1_790_000_000, chat=True)
_TOKEN = chunk(_EVENTS.tokens(1))
_LAST = chunk(_EVENTS.tokens(1, finish="length"))


@dataclass(slots=True, eq=False)
class _Emission:
    """One response under way."""

    connection: Connection
    truth: ResponseTruth
    every_ns: int
    tokens_left: int


class TruthServer:
    """Answers requests on their schedules."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: list[tuple[int, int, _Emission]] = []
        self._truth = TruthLog(_TRUTH_BYTES)
        self._requests = 0

    def connect(self, accepted: socket.socket) -> None:
        Connection(self, _KEEP_ALIVE_S, accepted)

    def handle(self, connection: Connection, request: HttpRequest) -> None:
        """Begin to answer a completion, or tell a part of the truth so far and forget it."""
        if request.path == "/v1/truth":
            body = orjson.dumps({"responses": self._truth.take(_TOLD_BYTES)})
            connection.send(http_response(200, body, keep_alive=request.keep_alive))
            connection.finish(keep_alive=request.keep_alive)
            return
        asked = orjson.loads(request.body)
        tokens = asked["max_completion_tokens"]
        truth = ResponseTruth(self._requests, request.request_id, request.received_ns, 0, tokens)
        self._requests += 1
        self._truth.keep(truth)
        connection.send(stream_head(keep_alive=True))
        emission = _Emission(connection, truth, asked["every_ns"], tokens)
        earliest = self._due[0] if self._due else None
        heapq.heappush(self._due, (asked["first_token_at_ns"], truth.number, emission))
        if self._due[0] is not earliest:
            self._clock.call_at(self._due[0][0], self._emit)

    def lost(self, connection: Connection) -> None:
        """Nothing is held for a connection; what is due on it is written to nobody."""

    def _emit(self) -> None:
        """Write every token that is due, in the order of dueness."""
        now_ns = self._clock.now_ns()
        while self._due and self._due[0][0] <= now_ns:
            due_ns, number, emission = heapq.heappop(self._due)
            emission.tokens_left -= 1
            emission.truth.sent(time.monotonic_ns(), 1)
            if emission.tokens_left:
                emission.connection.send(_TOKEN)
                heapq.heappush(self._due, (due_ns + emission.every_ns, number, emission))
            else:
                self._finish(emission)
        if self._due:
            self._clock.call_at(self._due[0][0], self._emit)

    def _finish(self, emission: _Emission) -> None:
        used = chunk(_EVENTS.usage(usage(1, 0, emission.truth.max_tokens)))
        emission.connection.send(_LAST + used + chunk(DONE) + LAST_CHUNK)
        emission.connection.finish(keep_alive=True)
        emission.truth.end = "complete"


@asynccontextmanager
async def _running() -> AsyncIterator[str]:
    with real_clock(asyncio.get_running_loop()) as clock:
        async with listening("127.0.0.1", 0, TruthServer(clock).connect) as port:
            yield f"http://127.0.0.1:{port}"


def launch_truth_server() -> SimulatorProcess:
    return launch("agentx_replay.simulator.truth_server")


if __name__ == "__main__":
    serve_as_child(_running())

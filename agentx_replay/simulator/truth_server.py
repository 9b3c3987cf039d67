"""A server that emits tokens exactly when it was asked to and remembers when each one left.

What a client measures can be held against it: stamps are taken just before each write, and by the
kernel as a request's first byte comes, on the monotonic clock of the machine, which is the client's
clock too. It models no engine. A request
says in its body when its first token is due (``first_token_at_ns``), how far apart the others
are (``every_ns``) and how many there are (``max_completion_tokens``); ``GET /v1/truth`` tells what
was sent since it was last asked.

    python -m agentx_replay.simulator.truth_server

It prints its URL as JSON, serves the loopback alone, and ends when its standard input does.
"""

import asyncio
import heapq
import socket
import time
from dataclasses import dataclass
from functools import partial
from typing import cast

import orjson
import uvloop

from agentx_replay.replay.clock import real_clock
from agentx_replay.replay.ports import Clock
from agentx_replay.simulator.api import http_response
from agentx_replay.simulator.connection import Connection, HttpRequest, Limits
from agentx_replay.simulator.events import DONE, Events, Usage
from agentx_replay.simulator.listening import listen
from agentx_replay.simulator.process import SimulatorProcess, launch, say, until_ended
from agentx_replay.simulator.truth import ResponseTruth, TruthLog
from agentx_replay.simulator.wire import LAST_CHUNK, chunk, stream_head

_LIMITS = Limits(keep_alive_s=60.0, max_body_bytes=4_000_000)
_TRUTH_BYTES = 64_000_000
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
        Connection(self, _LIMITS, accepted)

    def handle(self, connection: Connection, request: HttpRequest) -> None:
        """Begin to answer a completion, or tell the truth so far and forget it."""
        if request.path == "/v1/truth":
            body = orjson.dumps({"responses": self._truth.as_json()})
            self._truth = TruthLog(_TRUTH_BYTES)
            connection.send(http_response(200, body, keep_alive=request.keep_alive))
            connection.finish(keep_alive=request.keep_alive)
            return
        asked = orjson.loads(request.body)
        tokens = asked["max_completion_tokens"]
        number, self._requests = self._requests, self._requests + 1
        truth = self._truth.open(number, request.request_id, request.received_ns, 0, tokens)
        connection.send(stream_head(keep_alive=True))
        emission = _Emission(connection, cast(ResponseTruth, truth), asked["every_ns"], tokens)
        self._schedule(asked["first_token_at_ns"], emission)

    def lost(self, connection: Connection) -> None:
        """Nothing is held for a connection; what is due on it is written to nobody."""

    def _schedule(self, due_ns: int, emission: _Emission) -> None:
        earliest_ns = self._due[0][0] if self._due else None
        heapq.heappush(self._due, (due_ns, emission.truth.number, emission))
        if earliest_ns is None or due_ns < earliest_ns:
            self._clock.call_at(due_ns, self._emit)

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
        usage = _EVENTS.usage(Usage(1, 0, emission.truth.max_tokens))
        emission.connection.send(_LAST + chunk(usage) + chunk(DONE) + LAST_CHUNK)
        emission.connection.finish(keep_alive=True)
        emission.truth.end = "complete"


async def _serve() -> None:
    with real_clock(asyncio.get_running_loop()) as clock:
        listener = await listen("127.0.0.1", 0, TruthServer(clock).connect)
        url = f"http://127.0.0.1:{listener.port}"
        await until_ended(partial(say, url=url), end_with_stdin=True)
        await listener.close()


def launch_truth_server() -> SimulatorProcess:
    return launch("agentx_replay.simulator.truth_server")


if __name__ == "__main__":
    uvloop.run(_serve())

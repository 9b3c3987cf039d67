"""The engine behind an OpenAI-compatible HTTP server, in real time.

One event loop, one engine: a timer fires at the end of each step, and one pass writes what every
sequence said in it. Serves the embedded default, ``agentx-replay simulate`` and the tests; it is
pluggable in its engine model and its renderer (template and tokenizer).
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import orjson

from agentx_replay.errors import UsageError
from agentx_replay.replay.clock import LoopClock
from agentx_replay.replay.ports import Clock
from agentx_replay.simulator.api import (
    JSON_TYPE,
    Completion,
    RefusedError,
    http_response,
    models_body,
    parse_completion,
    tokenize_body,
)
from agentx_replay.simulator.connection import Connection, HttpRequest, Limits
from agentx_replay.simulator.engine import Engine, EngineModel, Sequence, SequenceState
from agentx_replay.simulator.events import WORD, Events
from agentx_replay.simulator.listening import listen
from agentx_replay.simulator.metrics import CONTENT_TYPE, metrics_page
from agentx_replay.simulator.prefix_cache import Ids
from agentx_replay.simulator.reply import Reply, StreamReply
from agentx_replay.simulator.tokens import Renderer, WordRenderer, block_ids
from agentx_replay.simulator.truth import ResponseTruth, TruthLog
from agentx_replay.simulator.wire import Wire

_CATCH_UP_NS = 5_000_000
"""A step whose end is noticed later than this is not made up for: the next starts late too. Below
it the next starts where it should have, so that the timers' grain does not slow the engine."""

_MAX_PORT = 65_535

_COMPLETIONS = {"/v1/chat/completions": True, "/v1/completions": False}


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where and what to serve. Port 0 is any free port; ``truth_bytes`` bounds what is kept for
    ``GET /truth`` (0: nothing)."""

    host: str = "127.0.0.1"
    port: int = 0
    model: str = "simulated"
    engine: EngineModel = field(default_factory=EngineModel)
    keep_alive_s: float = 65.0
    max_body_bytes: int = 64 * 1024 * 1024
    truth_bytes: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.port <= _MAX_PORT:  # the event loop would serve it modulo 65,536
            raise UsageError(
                "port-out-of-range",
                f"there is no port {self.port}",
                f"give one from 0 to {_MAX_PORT}",
            )


@dataclass(frozen=True, slots=True)
class Altered:
    """A completion that a hook changed: the body to answer, and the wire in place of the usual.

    ``wire`` is given the usual one and what ends the generation behind it.
    """

    body: bytes
    wire: Callable[[Wire, Callable[[], None]], Wire]


Hook = Callable[[int, bytes], Altered | None]
"""For tests: asked once a completion, with its number (from 0, in order of arrival) and body."""


@dataclass(slots=True, eq=False)
class _Flight:
    """A request inside the engine, and who waits for it."""

    connection: Connection
    reply: Reply
    truth: ResponseTruth | None


class Server:
    """Requests to sequences, steps to bytes."""

    def __init__(
        self, config: ServerConfig, clock: Clock, renderer: Renderer, hook: Hook | None
    ) -> None:
        self.engine = Engine(config.engine)
        self.truth = TruthLog(config.truth_bytes)
        self._config = config
        self._clock = clock
        self._renderer = renderer
        self._hook = hook
        self._created_s = int(time.time())
        self._completions = 0
        self._step_is_timed = False
        self._connections: set[Connection] = set()
        self._sequences: dict[Connection, Sequence] = {}
        self._flights: dict[Sequence, _Flight] = {}
        self._streaming: dict[Sequence, Reply] = {}

    def connect(self, accepted: socket.socket) -> None:
        limits = Limits(self._config.keep_alive_s, self._config.max_body_bytes)
        self._connections.add(Connection(self, limits, accepted))

    def disconnect(self) -> None:
        for connection in list(self._connections):
            connection.reset()

    def handle(self, connection: Connection, request: HttpRequest) -> None:
        """Answer a request, or begin to."""
        try:
            if request.path in _COMPLETIONS:
                _require("POST", request)
                self._complete(connection, request)
                return
            answer = self._look_up(request)
        except RefusedError as refused:
            answer = http_response(refused.status, refused.body, keep_alive=request.keep_alive)
        connection.send(answer)
        connection.finish(keep_alive=request.keep_alive)

    def lost(self, connection: Connection) -> None:
        """Stop generating for a client that is gone."""
        self._connections.discard(connection)
        self._abandon(connection)

    def _look_up(self, request: HttpRequest) -> bytes:
        """Return the whole answer to a question that generates nothing."""
        if request.path == "/metrics":
            _require("GET", request)
            body, kind = metrics_page(self.engine, self._config.model), CONTENT_TYPE
        else:
            body, kind = self._json(request), JSON_TYPE
        return http_response(200, body, keep_alive=request.keep_alive, content_type=kind)

    def _json(self, request: HttpRequest) -> bytes:
        if request.path == "/tokenize":
            _require("POST", request)
            limit = self.engine.model.context_limit_tokens
            return tokenize_body(request.body, renderer=self._renderer, max_model_len=limit)
        known = ("/v1/models", "/health", "/truth")
        if request.path not in known:
            raise RefusedError(404, f"There is no {request.path} here.", "NotFoundError")
        _require("GET", request)
        if request.path == "/v1/models":
            limit = self.engine.model.context_limit_tokens
            return models_body(self._config.model, limit, self._created_s)
        if request.path == "/truth":
            return orjson.dumps({"responses": self.truth.as_json()})
        return b"{}"

    def _complete(self, connection: Connection, request: HttpRequest) -> None:
        number = self._completions
        self._completions += 1
        altered = self._hook(number, request.body) if self._hook else None
        completion = parse_completion(
            request.body if altered is None else altered.body,
            chat=_COMPLETIONS[request.path],
            served=self._config.model,
            renderer=self._renderer,
        )
        prompt_tokens = len(completion.tokens)
        refusal = self.engine.model.overflow(prompt_tokens, completion.max_tokens)
        if refusal is not None:
            raise RefusedError(400, refusal, param="input_tokens")
        truth = self.truth.open(
            number, request.request_id, request.received_ns, prompt_tokens, completion.max_tokens
        )
        wire = Wire(connection, keep_alive=request.keep_alive, truth=truth)
        if altered is not None:
            wire = altered.wire(wire, partial(self._abandon, connection))
        self._submit(completion, _Flight(connection, self._reply(number, completion, wire), truth))

    def _submit(self, completion: Completion, flight: _Flight) -> None:
        sequence = self.engine.submit(
            self._clock.now_ns(),
            block_ids(completion.tokens, self.engine.model.block_tokens),
            len(completion.tokens),
            completion.max_tokens,
            self._output_ids(completion),
        )
        self._flights[sequence] = flight
        self._sequences[flight.connection] = sequence
        flight.reply.accepted()
        self._time_step()

    def _output_ids(self, completion: Completion) -> Ids | None:
        """Return the blocks that the output will fill up; None where a word is not a token."""
        word = self._renderer.text(WORD)
        if len(word) != 1:
            return None
        block_tokens = self.engine.model.block_tokens
        begun = completion.tokens[len(completion.tokens) // block_tokens * block_tokens :]
        output = np.repeat(word, completion.max_tokens - 1)
        return block_ids(np.concatenate((begun, output)), block_tokens)

    def _abandon(self, connection: Connection) -> None:
        sequence = self._sequences.pop(connection, None)
        if sequence is None:
            return
        self.engine.cancel(sequence)
        self._streaming.pop(sequence, None)
        _close_truth(self._flights.pop(sequence).truth, "cut")

    def _time_step(self) -> None:
        end_ns = self.engine.next_step_end_ns
        if end_ns is not None and not self._step_is_timed:
            self._step_is_timed = True
            self._clock.call_at(end_ns, partial(self._complete_step, end_ns))

    def _complete_step(self, end_ns: int) -> None:
        self._step_is_timed = False
        now_ns = self._clock.now_ns()
        outcome = self.engine.complete_step(end_ns if now_ns - end_ns < _CATCH_UP_NS else now_ns)
        for sequence in outcome.finished:
            self._streaming.pop(sequence, None)
        tokens_per_step = self.engine.model.tokens_per_step
        for reply in list(self._streaming.values()):
            reply.step(tokens_per_step)
        for sequence in outcome.started:
            self._start(sequence)
        for sequence in outcome.finished:
            self._finish(sequence)
        self._time_step()

    def _start(self, sequence: Sequence) -> None:
        flight = self._flights[sequence]
        cached_tokens = sequence.cached_tokens or 0
        if flight.truth is not None:
            flight.truth.cached_tokens = cached_tokens
        flight.reply.started(cached_tokens)
        if sequence.state is SequenceState.DECODE:
            self._streaming[sequence] = flight.reply
            flight.reply.step(1)

    def _finish(self, sequence: Sequence) -> None:
        flight = self._flights.pop(sequence)
        del self._sequences[flight.connection]
        _close_truth(flight.truth, "complete")
        flight.reply.last(int(self.engine.token_counts(sequence)[-1]))

    def _reply(self, number: int, completion: Completion, wire: Wire) -> Reply:
        events = Events(
            response_id=f"{'chatcmpl' if completion.chat else 'cmpl'}-{number}",
            model=completion.model,
            created_s=int(time.time()),
            chat=completion.chat,
        )
        if completion.stream:
            return StreamReply(completion, events, wire, self.engine.model.tokens_per_step)
        return Reply(completion, events, wire)


def _close_truth(truth: ResponseTruth | None, end: str) -> None:
    if truth is not None:
        truth.end = end


def _require(method: str, request: HttpRequest) -> None:
    if request.method != method:
        raise RefusedError(405, f"{request.path} takes {method} only.", "MethodNotAllowedError")


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that listens. ``url`` has no path."""

    url: str
    port: int
    server: Server


@asynccontextmanager
async def running_server(
    config: ServerConfig,
    *,
    renderer: Renderer | None = None,
    hook: Hook | None = None,
) -> AsyncIterator[RunningServer]:
    """Serve on the running loop until the context ends; then every connection is reset.

    Raises UsageError where the address cannot be had.
    """
    loop = asyncio.get_running_loop()
    server = Server(config, LoopClock(loop), renderer or WordRenderer(), hook)
    try:
        listener = await listen(config.host, config.port, server.connect)
    except OSError as error:
        raise UsageError(
            "address-unusable",
            f"the simulator cannot listen on {config.host} port {config.port}: {error.strerror}",
            "choose another address or port, or port 0 for a free one",
        ) from error
    host = f"[{config.host}]" if ":" in config.host else config.host
    try:
        yield RunningServer(f"http://{host}:{listener.port}", listener.port, server)
    finally:
        await listener.close()
        server.disconnect()

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
from agentx_replay.simulator.answer_stream import WORD, Answer, Events, Wire
from agentx_replay.simulator.api import (
    METRICS_TYPE,
    Completion,
    RefusedError,
    metrics_page,
    models_body,
    parse_completion,
    tokenize_body,
)
from agentx_replay.simulator.engine import Engine, EngineModel, Sequence, SequenceState
from agentx_replay.simulator.http_connection import (
    JSON_TYPE,
    Connection,
    HttpRequest,
    http_response,
    listening,
)
from agentx_replay.simulator.prefix_cache import Ids
from agentx_replay.simulator.tokens import Renderer, WordRenderer, block_ids
from agentx_replay.simulator.truth import ResponseTruth, TruthLog

_CATCH_UP_NS = 5_000_000
"""A step whose end is noticed later than this is not made up for: the next starts late too. Below
it the next starts where it should have, so that the timers' grain does not slow the engine."""

_MAX_PORT = 65_535

_OK = 200


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where and what to serve. Port 0 is any free port; ``truth_bytes`` bounds what is kept for
    ``GET /truth`` (0: nothing)."""

    host: str = "127.0.0.1"
    port: int = 0
    model: str = "simulated"
    engine: EngineModel = field(default_factory=EngineModel)
    keep_alive_s: float = 65.0
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
        self._answers: dict[Sequence, Answer] = {}
        self._streaming: dict[Sequence, Answer] = {}

    def connect(self, accepted: socket.socket) -> None:
        self._connections.add(Connection(self, self._config.keep_alive_s, accepted))

    def disconnect(self) -> None:
        for connection in list(self._connections):
            connection.reset()

    def handle(self, connection: Connection, request: HttpRequest) -> None:
        try:
            look_up = self._look_up(request)
            if look_up is None:
                self._complete(connection, request)
                return
            status, body = 200, look_up(request.body)
        except RefusedError as refused:
            status, body = refused.status, refused.body
        kind = METRICS_TYPE if request.path == "/metrics" and status == _OK else JSON_TYPE
        keep_alive = request.keep_alive
        connection.send(http_response(status, body, keep_alive=keep_alive, content_type=kind))
        connection.finish(keep_alive=keep_alive)

    def lost(self, connection: Connection) -> None:
        """Stop generating for a client that is gone."""
        self._connections.discard(connection)
        self._abandon(connection)

    def _look_up(self, request: HttpRequest) -> Callable[[bytes], bytes] | None:
        method, look_up = self._routes().get(request.path, ("", None))
        if not method:
            raise RefusedError(404, f"There is no {request.path} here.", "NotFoundError")
        if request.method != method:
            what = f"{request.path} takes {method} only."
            raise RefusedError(405, what, "MethodNotAllowedError")
        return look_up

    def _routes(self) -> dict[str, tuple[str, Callable[[bytes], bytes] | None]]:
        """Return by path its method, and what answers at once: nothing, where it generates."""
        model, limit = self._config.model, self.engine.model.context_limit_tokens
        tokenize = partial(tokenize_body, renderer=self._renderer, max_model_len=limit)
        return {
            "/v1/chat/completions": ("POST", None),
            "/v1/completions": ("POST", None),
            "/v1/models": ("GET", lambda _: models_body(model, limit, self._created_s)),
            "/health": ("GET", lambda _: b"{}"),
            "/metrics": ("GET", lambda _: metrics_page(self.engine, model)),
            "/tokenize": ("POST", tokenize),
            "/truth": ("GET", lambda _: orjson.dumps({"responses": self.truth.as_json()})),
        }

    def _complete(self, connection: Connection, request: HttpRequest) -> None:
        number = self._completions
        self._completions += 1
        altered = self._hook(number, request.body) if self._hook else None
        asked = parse_completion(
            request.body if altered is None else altered.body,
            chat=request.path == "/v1/chat/completions",
            served=self._config.model,
            renderer=self._renderer,
        )
        prompt_tokens, max_tokens = len(asked.tokens), asked.max_tokens
        refusal = self.engine.model.overflow(prompt_tokens, max_tokens)
        if refusal is not None:
            raise RefusedError(400, refusal, param="input_tokens")
        received = (number, request.request_id, request.received_ns)
        truth = self.truth.keep(ResponseTruth(*received, prompt_tokens, max_tokens))
        wire = Wire(connection, keep_alive=request.keep_alive, truth=truth)
        if altered is not None:
            wire = altered.wire(wire, partial(self._abandon, connection))
        self._submit(number, asked, wire)

    def _submit(self, number: int, asked: Completion, wire: Wire) -> None:
        response_id = f"{'chatcmpl' if asked.chat else 'cmpl'}-{number}"
        events = Events(response_id, asked.model, int(time.time()), asked.chat)
        answer = Answer(asked, events, wire, self.engine.model.tokens_per_step)
        sequence = self.engine.submit(
            self._clock.now_ns(),
            block_ids(asked.tokens, self.engine.model.block_tokens),
            len(asked.tokens),
            asked.max_tokens,
            self._output_ids(asked),
        )
        self._answers[sequence] = answer
        self._sequences[wire.connection] = sequence
        answer.accepted()
        self._time_step()

    def _output_ids(self, asked: Completion) -> Ids | None:
        """Return the blocks that the output will fill up; None where a word is not a token."""
        word = self._renderer.text(WORD)
        if len(word) != 1:
            return None
        block_tokens = self.engine.model.block_tokens
        begun = asked.tokens[len(asked.tokens) // block_tokens * block_tokens :]
        output = np.repeat(word, asked.max_tokens - 1)
        return block_ids(np.concatenate((begun, output)), block_tokens)

    def _abandon(self, connection: Connection) -> None:
        sequence = self._sequences.pop(connection, None)
        if sequence is not None:
            self.engine.cancel(sequence)
            self._streaming.pop(sequence, None)
            self._answers.pop(sequence).ended("cut")

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
        for answer in list(self._streaming.values()):
            answer.step(tokens_per_step)
        for sequence in outcome.started:
            answer = self._answers[sequence]
            answer.started(sequence.cached_tokens or 0)
            if sequence.state is SequenceState.DECODE:
                self._streaming[sequence] = answer
                answer.step(1)
        for sequence in outcome.finished:
            answer = self._answers.pop(sequence)
            del self._sequences[answer.wire.connection]
            answer.last(int(self.engine.token_counts(sequence)[-1]))
        self._time_step()


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
    clock = LoopClock(asyncio.get_running_loop())
    server = Server(config, clock, renderer or WordRenderer(), hook)
    async with listening(config.host, config.port, server.connect) as port:
        host = f"[{config.host}]" if ":" in config.host else config.host
        try:
            yield RunningServer(f"http://{host}:{port}", port, server)
        finally:
            server.disconnect()

"""The engine as an ``Endpoint`` without a wire: for a replay in virtual time.

Prompts are never turned into text: their block ids and lengths are all the engine needs. The
sockets, the HTTP and the JSON of the same engine are ``server.py``.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agentx_replay.prompts.keys import GOLDEN, mix64
from agentx_replay.replay.ports import Clock, Dispatch, ErrorCategory, Response, Status
from agentx_replay.simulator.engine import Engine, EngineModel, Sequence
from agentx_replay.simulator.prefix_cache import Ids


@dataclass(frozen=True, slots=True)
class _Flight:
    """A request in flight."""

    send_ns: int
    answer: asyncio.Future[Response]


class InProcessEndpoint:
    """``Endpoint`` over an ``EngineModel`` on the given clock."""

    def __init__(self, clock: Clock, model: EngineModel) -> None:
        self.engine = Engine(model)
        self._clock = clock
        self._flights: dict[Sequence, _Flight] = {}
        self._step_is_timed = False

    async def send(self, dispatch: Dispatch) -> Response:
        """Run one request; a prompt and output larger than the context are an overflow.

        A caller that is cancelled takes its request out of the engine.
        """
        now_ns = self._clock.now_ns()
        prompt = dispatch.prompt
        refusal = self.engine.model.overflow(prompt.tokens, dispatch.max_tokens)
        if refusal is not None:
            return _overflow(now_ns, refusal)
        ids = regrouped(prompt.block_ids, prompt.block_tokens, self.engine.model.block_tokens)
        sequence = self.engine.submit(now_ns, ids, prompt.tokens, dispatch.max_tokens)
        flight = _Flight(now_ns, asyncio.get_running_loop().create_future())
        self._flights[sequence] = flight
        self._time_step()
        try:
            return await flight.answer
        finally:
            if self._flights.pop(sequence, None) is not None:
                self.engine.cancel(sequence)

    def prepare(
        self, lane: int, conversation_id: str, due_ns: int, compose: Callable[[], int]
    ) -> None:
        """Do nothing: there is no connection to make, and no text."""

    def cut(self) -> None:
        """End every response in flight now: each ``send`` returns ``CUT`` with what arrived."""
        now_ns = self._clock.now_ns()
        for sequence in list(self._flights):
            self.engine.cancel(sequence)
            self._answer(sequence, Status.CUT, now_ns)

    def conversation_ended(self, conversation_id: str) -> None:
        """Do nothing: there is no connection to close."""

    async def close(self) -> None:
        """Do nothing: there is no connection to close."""

    def _time_step(self) -> None:
        end_ns = self.engine.next_step_end_ns
        if end_ns is not None and not self._step_is_timed:
            self._step_is_timed = True
            self._clock.call_at(end_ns, self._complete_step)

    def _complete_step(self) -> None:
        self._step_is_timed = False
        outcome = self.engine.complete_step()
        for sequence in outcome.finished:
            self._answer(sequence, Status.OK, outcome.end_ns)
        self._time_step()

    def _answer(self, sequence: Sequence, status: Status, end_ns: int) -> None:
        flight = self._flights.pop(sequence)
        arrival_ns = self.engine.token_times_ns(sequence)
        arrival_tokens = self.engine.token_counts(sequence)
        complete = status is Status.OK
        began = len(arrival_ns) > 0
        response = Response(
            status=status,
            send_ns=flight.send_ns,
            sent_ns=flight.send_ns,
            end_ns=end_ns,
            first_byte_ns=int(arrival_ns[0]) if began else None,
            arrival_ns=arrival_ns,
            arrival_tokens=arrival_tokens,
            prompt_tokens=sequence.prompt_tokens if complete else None,
            cached_tokens=sequence.cached_tokens if complete else None,
            completion_tokens=int(arrival_tokens.sum()) if complete else None,
            finish_reason="length" if complete else None,
            http_status=200 if began else None,
        )
        if not flight.answer.done():  # a caller just cancelled has not run yet
            flight.answer.set_result(response)


def regrouped(ids: Ids, block_tokens: int, engine_block_tokens: int) -> Ids:
    """Return the ids of the engine's whole blocks in a prompt of blocks of another size: equal for
    two prompts where all tokens of the engine's block are.
    """
    if block_tokens == engine_block_tokens:
        return ids
    places = np.arange(block_tokens, dtype=np.uint64) * GOLDEN
    tokens = mix64(ids[:, np.newaxis] + places).ravel()
    blocks = len(tokens) // engine_block_tokens
    in_blocks = tokens[: blocks * engine_block_tokens].reshape(blocks, engine_block_tokens)
    odd = np.arange(1, 2 * engine_block_tokens, 2, dtype=np.uint64)
    return mix64((in_blocks * odd).sum(axis=1, dtype=np.uint64))


def _overflow(now_ns: int, message: str) -> Response:
    return Response(
        status=Status.OVERFLOW,
        send_ns=now_ns,
        sent_ns=now_ns,
        end_ns=now_ns,
        first_byte_ns=now_ns,
        http_status=400,
        error_category=ErrorCategory.CONTEXT_OVERFLOW,
        error_text=message,
    )

"""Requests on the wire: sent, counted while in flight, recorded when they end."""

import asyncio
from collections.abc import Callable
from functools import partial

from agentx_replay.plan.graph import TurnId
from agentx_replay.replay.lane import Lane
from agentx_replay.replay.ports import Clock, Dispatch, Endpoint, Phase, Recorder, Response

OnEnded = Callable[[Lane, TurnId, Dispatch, Response], None]
"""What a phase does when a request of a lane's turn has ended."""


class Traffic:
    """Sends requests and tells the current phase (``on_ended``) when each has ended.

    An exception out of an endpoint or a phase is a programming error: it ends ``settled``.
    """

    def __init__(self, clock: Clock, endpoint: Endpoint, recorder: Recorder) -> None:
        self.clock = clock
        self.endpoint = endpoint
        self.recorder = recorder
        self.in_flight = 0
        self.on_ended: OnEnded | None = None
        self._tasks: set[asyncio.Task[Response]] = set()
        self._settled: asyncio.Future[None] | None = None

    def send(self, lane: Lane, turn: TurnId, phase: Phase, intended_start_ns: int) -> None:
        dispatch = lane.dispatch(turn, phase, intended_start_ns)
        self.in_flight += 1
        task = asyncio.get_running_loop().create_task(self.endpoint.send(dispatch))
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, lane, turn, dispatch))

    def _ended(
        self, lane: Lane, turn: TurnId, dispatch: Dispatch, task: asyncio.Task[Response]
    ) -> None:
        self._tasks.discard(task)
        self.in_flight -= 1
        lane.returned(turn, self.clock.now_ns())
        try:
            response = task.result()
            self.recorder.record(dispatch, response)
            if dispatch.phase is Phase.WINDOW:
                # One token of the warm-up is no answer.
                lane.prompts.answered(dispatch.request_index, response.answer)
            if self.on_ended is not None:
                self.on_ended(lane, turn, dispatch, response)
        except BaseException as error:
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """End the current phase with ``error``."""
        if self._settled is not None and not self._settled.done():
            self._settled.set_exception(error)

    def settle(self) -> None:
        """Say that the current phase is over: ``settled`` returns."""
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(None)

    def settle_if_quiet(self) -> None:
        """Say so once nothing is in flight."""
        if not self.in_flight:
            self.settle()

    async def settled(self, begin: Callable[[], None]) -> None:
        """Run one phase: call ``begin``, return when it has settled; raise what went wrong."""
        self._settled = asyncio.get_running_loop().create_future()
        try:
            begin()
            await self._settled
        finally:
            self._settled = None

    def guard(self, call: Callable[[], None]) -> Callable[[], None]:
        """Return ``call`` for a timer: an exception in it ends the phase instead of being lost."""

        def guarded() -> None:
            try:
                call()
            except BaseException as error:
                self.fail(error)
                raise

        return guarded

"""One process's part of a level: replay and record its lanes and monitor its own lag.

A level that one process plays alone is one part. Not for: other processes (``workers.py``), or
what becomes of the records (``level.py``).
"""

import asyncio
import gc
import logging
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentx_replay.analysis.early import EarlyRule
from agentx_replay.errors import UsageError
from agentx_replay.experiment.early_stop import EarlyWatch
from agentx_replay.experiment.live_view import ProgressSnapshot, live_itls_s
from agentx_replay.experiment.open_files import raise_open_files
from agentx_replay.experiment.prompting import Prompting
from agentx_replay.experiment.sessions import SessionSource
from agentx_replay.plan.plan import GraphLibrary, Plan, PlannedPlay
from agentx_replay.replay.driver import Replay, ReplayResult
from agentx_replay.replay.instrument import LagSampler
from agentx_replay.replay.lane import PromptSources
from agentx_replay.replay.peers import Peers
from agentx_replay.replay.ports import Clock, Endpoint, PromptSource
from agentx_replay.results.layout import Measurement
from agentx_replay.results.recent import Recent
from agentx_replay.results.recorder import Recorder
from agentx_replay.results.schema import INSTRUMENT
from agentx_replay.scenario import Scenario

_SHOW_EVERY_S = 1.0
_OLDEST_GENERATION_OFF = 1_000_000_000
_LENGTH_BYTES = 8


@dataclass(frozen=True, eq=False)
class Part:
    """The lanes of one worker of a level: every ``workers``-th lane, starting at ``worker``.

    It goes to another process without the sessions of its plan, which are read there again from
    ``source``. ``attempt`` is at least how often the run had been resumed when the level began.
    ``early`` says by what the level is stopped early. ``directory`` and ``origin_ns``
    are set when it begins.
    """

    plan: Plan
    source: SessionSource
    prompting: Prompting
    attempt: int
    run_id: str
    open: Callable[[Clock], Endpoint]
    workers: int = 1
    worker: int = 0
    early: EarlyRule | None = None
    directory: Path = Path()
    origin_ns: int = 0

    @property
    def lanes(self) -> range:
        return range(self.worker, self.plan.concurrency, self.workers)

    def prompts(self) -> PromptSources:
        plan = self.plan
        return self.prompting.level(plan.concurrency, self.attempt, plan.start)

    def recorder(self) -> Recorder:
        level = Measurement(self.plan.concurrency, self.plan.start)
        return Recorder(self.directory, level, origin_ns=self.origin_ns, worker=self.worker)

    def __getstate__(self) -> dict[str, Any]:
        plan = self.plan
        recipe = plan.scenario, plan.corpus_fingerprint, plan.concurrency, plan.start
        return self.__dict__ | {"plan": recipe}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Raise ``UsageError`` if the sessions have changed, or cannot be read."""
        plan = _plan_again(state["source"], *state["plan"])
        self.__dict__.update(state | {"plan": plan})


def _plan_again(
    source: SessionSource, scenario: Scenario, fingerprint: str, concurrency: int, start: int
) -> Plan:
    corpus, selection = source.read()
    if corpus.fingerprint != fingerprint:
        raise UsageError(
            "sessions-changed-at-start",
            f"the sessions under {source.traces} changed while the run was starting",
            "leave them alone and run again",
        )
    return Plan(scenario, fingerprint, GraphLibrary(selection, scenario), concurrency, start)


def framed(message: object) -> bytes:
    """Return a message between a level's parent and its workers: a pickle after its length. Both
    ends are the same program on one machine; nobody else has the socket.
    """
    body = pickle.dumps(message)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


async def next_message(reader: asyncio.StreamReader) -> Any:
    """Return the next message, None if the other end is gone."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
        return pickle.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return None


async def play(
    part: Part,
    clock: Clock,
    recorder: Recorder,
    steered: Callable[[Replay], AbstractContextManager[None]],
    show: Callable[[ProgressSnapshot], None],
    peers: Peers | None = None,
) -> ReplayResult:
    """Play a part to its end, ``steered`` while it goes; call ``show`` every second."""
    raise_open_files()

    def keep(*sample: int) -> None:
        recorder.append(INSTRUMENT, (part.worker, *sample))

    sampler = LagSampler(clock, keep)
    with prepared_ahead(part.plan, part.prompts()) as prompts:
        watch = EarlyWatch(recorder, part.early, part.plan, alone=part.workers == 1)
        recent = Recent(watch, live_itls_s, clock.now_ns)
        endpoint = part.open(clock)
        replay = Replay(
            part.plan,
            prompts,
            clock,
            endpoint,
            recent,
            run_id=part.run_id,
            lanes=part.lanes,
            peers=peers,
        )
        watch.replay = replay

        def look() -> None:
            tallies = watch.tallies(clock.now_ns())
            show(ProgressSnapshot(replay.progress(), recent.glimpse(), sampler.load(), tallies))
            if recorder.failure is not None:
                replay.stop()

        try:
            with steered(replay), quiet_collector():
                sampler.start()
                async with _every_second(look):
                    return await replay.run()
        finally:
            sampler.stop()
            await endpoint.close()


@contextmanager
def prepared_ahead(plan: Plan, prompts: PromptSources) -> Iterator[PromptSources]:
    """Give ``prompts`` that, when a lane begins a play, have its next one made ready by a thread.

    Building a large session's graph and laying out its prompts takes tens of milliseconds, in which
    no token would be stamped. What is made ready stays where plan and prompts keep it.
    """

    def prepare(lane: int, play_number: int) -> None:
        prompts(plan.play(lane, play_number), lane, play_number)

    def source(planned: PlannedPlay, lane: int, play_number: int) -> PromptSource:
        executor.submit(prepare, lane, play_number + 1).add_done_callback(_logged)
        return prompts(planned, lane, play_number)

    executor = ThreadPoolExecutor(1, "ahead")
    try:
        yield source
    finally:
        executor.shutdown(cancel_futures=True)


def _logged(prepared: Future[None]) -> None:
    """Log what failed ahead: the lane that needs it fails again, where it is seen."""
    if not prepared.cancelled() and (error := prepared.exception()) is not None:
        logging.getLogger(__name__).error("a play could not be prepared", exc_info=error)


@asynccontextmanager
async def _every_second(call: Callable[[], None]) -> AsyncIterator[None]:
    async def repeat() -> None:
        while True:
            call()
            await asyncio.sleep(_SHOW_EVERY_S)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Keep the garbage collector from walking all that is loaded while tokens are stamped.

    The young generations are still collected, so that memory stays bounded.
    """
    young, middle, old = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, middle, _OLDEST_GENERATION_OFF)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
        gc.unfreeze()

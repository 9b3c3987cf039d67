"""One process's part of a level: its lanes replayed and recorded, and an eye kept on itself.

A level that one process plays alone is one part. Not for: other processes (``workers.py``), or
what becomes of the records (``level.py``).
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from agentx_replay.experiment.ahead import prepared_ahead
from agentx_replay.experiment.keeping import kept_in_parts
from agentx_replay.experiment.live_itl import live_itls_s
from agentx_replay.experiment.open_files import raise_open_files
from agentx_replay.plan.plan import Plan
from agentx_replay.replay.driver import Progress, Replay, ReplayResult, Stage
from agentx_replay.replay.instrument import ClientLoad, LagSampler
from agentx_replay.replay.lane import PromptSources
from agentx_replay.replay.peers import Peers
from agentx_replay.replay.ports import Clock, Endpoint
from agentx_replay.replay.warmup import Warmed
from agentx_replay.results.layout import instrument_parts
from agentx_replay.results.recent import Glimpse, Recent, Snapshot, snapshot_of
from agentx_replay.results.recorder import ParquetRecorder
from agentx_replay.results.sample_parts import SampleParts
from agentx_replay.results.schema import INSTRUMENT, arrow_schema

_SHOW_EVERY_S = 1.0
_OLDEST_GENERATION_OFF = 1_000_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The lanes of one worker: every ``workers``-th lane, starting at ``worker``."""

    plan: Plan
    prompts: PromptSources
    run_id: str
    directory: Path
    origin_ns: int
    open: Callable[[Clock], Endpoint]
    worker: int = 0
    workers: int = 1

    @property
    def lanes(self) -> range:
        """Its lanes."""
        return range(self.worker, self.plan.concurrency, self.workers)


@dataclass(frozen=True, slots=True)
class Look:
    """How a part is going."""

    progress: Progress
    recent: Glimpse
    load: ClientLoad


def together(looks: Sequence[Look]) -> tuple[Progress, Snapshot, ClientLoad]:
    """Return how a level is going from how its parts are: the slowest stage, the busiest client."""
    stages = list(Stage)
    progresses = [look.progress for look in looks]
    left_s = [progress.left_s for progress in progresses if progress.left_s is not None]
    progress = Progress(
        stage=min((progress.stage for progress in progresses), key=stages.index),
        left_s=max(left_s, default=None),
        in_flight=sum(progress.in_flight for progress in progresses),
        live_plays=sum(progress.live_plays for progress in progresses),
        recycled_plays=sum(progress.recycled_plays for progress in progresses),
        warmed=_warmed_together([p.warmed for p in progresses if p.warmed is not None]),
    )
    load = ClientLoad(
        cpu_share=max(look.load.cpu_share for look in looks),
        loop_lag_p99_ns=max(look.load.loop_lag_p99_ns for look in looks),
    )
    return progress, snapshot_of([look.recent for look in looks]), load


def _warmed_together(parts: Sequence[Warmed]) -> Warmed | None:
    """Return how far a warm-up is; all its workers leave it at once."""
    if not parts:
        return None
    return Warmed(
        primers_done=sum(part.primers_done for part in parts),
        primers=sum(part.primers for part in parts),
        pressure_done=sum(part.pressure_done for part in parts),
        pressure=sum(part.pressure for part in parts),
    )


@dataclass(frozen=True, slots=True)
class Played:
    """How a part went."""

    result: ReplayResult


async def play(
    part: Part,
    clock: Clock,
    steered: Callable[[Replay], AbstractContextManager[None]],
    show: Callable[[Look], None],
    peers: Peers | None = None,
) -> Played:
    """Play a part to its end; ``steered`` is entered while it goes, ``show`` called every second.

    Raises ``UsageError`` where the disk fails; what was written stays.
    """
    raise_open_files()
    sampler = LagSampler(clock)
    parts = SampleParts(instrument_parts(part.directory), INSTRUMENT, part.worker)
    with (
        closing(
            ParquetRecorder(
                part.directory, origin_ns=part.origin_ns, worker=part.worker, start=part.plan.start
            )
        ) as recorder,
        prepared_ahead(part.plan, part.prompts) as prompts,
    ):
        recent = Recent(recorder, live_itls_s, clock.now_ns)
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

        def look() -> None:
            show(Look(replay.progress(), recent.glimpse(), sampler.load()))
            if recorder.failure is not None:
                replay.stop()

        try:
            async with kept_in_parts(parts, lambda: _samples(part, sampler.take())):
                with steered(replay), quiet_collector(), _sampling(sampler):
                    async with _every_second(look):
                        result = await replay.run()
        finally:
            await endpoint.close()
    return Played(result)


def _samples(part: Part, taken: NDArray[np.int64]) -> pa.Table:
    """Return samples of the client's load as rows of ``INSTRUMENT``."""
    at_ns, lag_ns, cpu_ns = taken.T
    level = np.full(len(taken), part.plan.concurrency, np.int32)
    worker = np.full(len(taken), part.worker, np.int32)
    start = np.full(len(taken), part.plan.start, np.int32)
    columns = [level, start, worker, at_ns - part.origin_ns, lag_ns, cpu_ns]
    return pa.Table.from_arrays(list(map(pa.array, columns)), schema=arrow_schema(INSTRUMENT))


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
def _sampling(sampler: LagSampler) -> Iterator[None]:
    sampler.start()
    try:
        yield
    finally:
        sampler.stop()


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

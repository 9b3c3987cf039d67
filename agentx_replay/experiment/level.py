"""One level of a sweep: replay a plan, record it, and turn the records into a point."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import uvloop

from agentx_replay.analysis.instrument import Samples
from agentx_replay.analysis.metrics import latency_series
from agentx_replay.analysis.point import (
    Point,
    PointFacts,
    facts_document,
    measure_point,
    point_document,
)
from agentx_replay.analysis.responses import COLUMNS, responses_of
from agentx_replay.analysis.validity import Conduct, Rules
from agentx_replay.analysis.window import Window
from agentx_replay.experiment.conformity import level_fidelity
from agentx_replay.experiment.interrupts import stopping_on_signals
from agentx_replay.experiment.server_metrics import recorded_metrics
from agentx_replay.experiment.settings import Screen, Target
from agentx_replay.plan.plan import Plan
from agentx_replay.replay.clock import real_clock
from agentx_replay.replay.driver import Replay, ReplayResult
from agentx_replay.replay.instrument import LagSampler, Sample
from agentx_replay.replay.lane import PromptSources
from agentx_replay.replay.ports import Clock
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock
from agentx_replay.results.compaction import compact, request_files
from agentx_replay.results.histograms import write_log
from agentx_replay.results.layout import latency_log
from agentx_replay.results.parquet import read_parquet
from agentx_replay.results.recent import Recent
from agentx_replay.results.recorder import ParquetRecorder
from agentx_replay.results.run_directory import PointStatus, RunDirectory
from agentx_replay.results.schema import REQUESTS

_T = TypeVar("_T")
_SHOW_EVERY_S = 1.0
_OLDEST_GENERATION_OFF = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Level:
    """What one level replays, and what is known of it before it runs."""

    plan: Plan
    prompts: PromptSources
    rules: Rules
    run_id: str
    gpus: int | None


@dataclass(frozen=True, slots=True)
class _Replayed:
    """What a level's replay leaves behind beside its records."""

    result: ReplayResult
    origin_ns: int
    origin_unix_s: float
    samples: tuple[Sample, ...]


def run_level(level: Level, target: Target, run: RunDirectory, screen: Screen) -> Point:
    """Replay a level and return its point, which is on disk by then.

    Raises ``UsageError`` where the disk fails; what was written stays.
    """
    concurrency = level.plan.concurrency
    screen.level_begins(concurrency)
    directory = run.start_point(concurrency, _document(level, None))
    replayed = _run(target, _replay(level, target, directory, screen))
    compact(directory)
    point = _point(level, replayed, run, directory)
    run.write_point(concurrency, point.status, _document(level, point))
    return point


def _run(target: Target, replay: Coroutine[Any, Any, _T]) -> _T:
    if target.virtual:
        return run_virtual(replay)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(replay)


async def _replay(level: Level, target: Target, directory: Path, screen: Screen) -> _Replayed:
    if target.virtual:
        return await _replay_virtually(level, target, directory)
    with real_clock(asyncio.get_running_loop()) as clock:
        return await _replay_live(level, target, directory, screen, clock)


async def _replay_virtually(level: Level, target: Target, directory: Path) -> _Replayed:
    clock = virtual_clock()
    origin_ns, origin_unix_s = clock.now_ns(), time.time()
    with closing(ParquetRecorder(directory, origin_ns=origin_ns)) as recorder:
        endpoint = target.open(clock)
        replay = Replay(level.plan, level.prompts, clock, endpoint, recorder, run_id=level.run_id)
        result = await replay.run()
    return _Replayed(result, origin_ns, origin_unix_s, ())


async def _replay_live(
    level: Level, target: Target, directory: Path, screen: Screen, clock: Clock
) -> _Replayed:
    origin_ns, origin_unix_s = clock.now_ns(), time.time()
    sampler = LagSampler(clock)
    with closing(ParquetRecorder(directory, origin_ns=origin_ns)) as recorder:
        recent = Recent(recorder, clock.now_ns)
        endpoint = target.open(clock)
        replay = Replay(level.plan, level.prompts, clock, endpoint, recent, run_id=level.run_id)
        try:
            with (
                stopping_on_signals(asyncio.get_running_loop(), replay.stop, screen.say),
                _quiet_collector(),
                _sampling(sampler),
            ):
                async with (
                    recorded_metrics(
                        target.metrics, clock, origin_ns, directory, level.plan.concurrency
                    ),
                    _watched(replay, recent, recorder, screen),
                ):
                    result = await replay.run()
        finally:
            await endpoint.close()
    return _Replayed(result, origin_ns, origin_unix_s, tuple(sampler.samples()))


@asynccontextmanager
async def _watched(
    replay: Replay, recent: Recent, recorder: ParquetRecorder, screen: Screen
) -> AsyncIterator[None]:
    """Show progress every second, and stop the replay once nothing more can be recorded."""

    async def watch() -> None:
        while True:
            screen.show(replay.progress(), recent.snapshot())
            if recorder.failure is not None:
                replay.stop()
                return
            await asyncio.sleep(_SHOW_EVERY_S)

    task = asyncio.create_task(watch())
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
def _quiet_collector() -> Iterator[None]:
    """Keep the garbage collector from walking all that is loaded while tokens are stamped."""
    young, middle, old = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, middle, _OLDEST_GENERATION_OFF)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
        gc.unfreeze()


def _point(level: Level, replayed: _Replayed, run: RunDirectory, directory: Path) -> Point:
    """Compute a point from its records, and write its histograms and samples."""
    result, origin_ns = replayed.result, replayed.origin_ns
    window = None
    if result.window is not None:
        window = Window(
            result.window.open_ns - origin_ns,
            result.window.close_ns - origin_ns,
            level.plan.scenario.window_s,
        )
    conduct = Conduct(interrupted=result.interrupted, failure=result.failure)
    facts = PointFacts(level.plan.concurrency, level.gpus, window, level.rules, conduct)
    rows = [(at_ns - origin_ns, lag_ns, cpu_ns) for at_ns, lag_ns, cpu_ns in replayed.samples]
    samples = None
    if rows:
        columns = np.array(rows, np.int64).T
        samples = Samples(np.zeros(len(rows), np.int64), *columns)
        concurrency = level.plan.concurrency
        run.write_instrument(concurrency, [(concurrency, 0, *row) for row in rows])
    responses = responses_of(read_parquet(request_files(directory), REQUESTS, COLUMNS))
    if window is not None:
        series = latency_series(responses, window)
        write_log(latency_log(directory), series, replayed.origin_unix_s)
    point = measure_point(responses, samples, facts, _status(result))
    return replace(point, fidelity=level_fidelity(level.plan, directory, window))


def _status(result: ReplayResult) -> PointStatus:
    if result.interrupted:
        return PointStatus.INTERRUPTED
    return PointStatus.COMPLETE if result.failure is None else PointStatus.FAILED


def _document(level: Level, point: Point | None) -> dict[str, Any]:
    """Return what ``point.json`` says of a level, before it runs (no point yet) and after."""
    plan = level.plan
    known = {"plan_fingerprint": plan.fingerprint, "run_id": level.run_id}
    if point is None:
        facts = PointFacts(plan.concurrency, level.gpus, None, level.rules, Conduct())
        return known | facts_document(facts)
    return known | point_document(point)

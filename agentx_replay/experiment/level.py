"""One level of a sweep: replay a plan, record it, and turn the records into a point."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from agentx_replay.analysis.facts import Conduct, Rules
from agentx_replay.analysis.instrument import loop_lag_series, samples_of
from agentx_replay.analysis.metrics import latency_series
from agentx_replay.analysis.point import (
    Point,
    PointFacts,
    facts_document,
    measure_point,
    point_document,
    told_by_server,
)
from agentx_replay.analysis.responses import records_of
from agentx_replay.analysis.window import Window
from agentx_replay.endpoint.kernel_stamps import Timestamps
from agentx_replay.experiment.conformity import level_fidelity
from agentx_replay.experiment.drafting import accept_length, with_drafting
from agentx_replay.experiment.interrupts import Interrupts
from agentx_replay.experiment.job import Job
from agentx_replay.experiment.part import Look, Part, play, together
from agentx_replay.experiment.prompting import Prompting
from agentx_replay.experiment.server_metrics import recorded_metrics
from agentx_replay.experiment.sessions import SessionSource
from agentx_replay.experiment.settings import Screen, Target
from agentx_replay.experiment.workers import play_on_workers
from agentx_replay.plan.plan import Plan
from agentx_replay.replay.clock import real_clock
from agentx_replay.replay.driver import Replay, ReplayResult
from agentx_replay.replay.ports import Clock
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock
from agentx_replay.results.compaction import compact
from agentx_replay.results.histograms import write_log
from agentx_replay.results.layout import (
    Measurement,
    instrument_file,
    instrument_parts,
    latency_log,
)
from agentx_replay.results.mark import new_mark
from agentx_replay.results.parquet import read_parquet
from agentx_replay.results.recorder import ParquetRecorder
from agentx_replay.results.requests import StoredRequests
from agentx_replay.results.run_directory import PointStatus, RunDirectory
from agentx_replay.results.sample_parts import compact_samples, sample_files
from agentx_replay.results.schema import INSTRUMENT

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Level:
    """What one level replays, and what is known of it before it runs.

    ``source`` is where the plan's sessions come from, for the ``workers`` (processes) that play
    it; ``attempt`` counts how often the run had been resumed when it began. The plan is of one
    of ``starts``. ``timestamps`` is who says when bytes arrive.
    """

    plan: Plan
    prompting: Prompting
    attempt: int
    source: SessionSource
    workers: int
    rules: Rules
    run_id: str
    gpus: int | None
    starts: int = 1
    timestamps: Timestamps = "process"
    mark: str = field(default_factory=new_mark)


@dataclass(frozen=True, slots=True)
class _Replayed:
    """What a level's replay leaves behind beside its records."""

    result: ReplayResult
    origin_ns: int
    origin_unix_s: float


def run_level(
    level: Level, target: Target, run: RunDirectory, screen: Screen, interrupts: Interrupts
) -> Point:
    """Replay a level and return its point, which is on disk by then.

    A signal stops the replay, and waits while the point is computed.

    Raises ``UsageError`` where the disk fails; what was written stays.
    """
    with interrupts.held():
        directory, replayed = _replayed(level, target, run, screen, interrupts)
        return _written(level, replayed, run, directory)


def _replayed(
    level: Level, target: Target, run: RunDirectory, screen: Screen, interrupts: Interrupts
) -> tuple[Path, _Replayed]:
    """Replay a level; return where its records are, and what is left beside them."""
    concurrency = level.plan.concurrency
    screen.level_begins(concurrency, level.plan.start, level.starts)
    directory = run.start_point(concurrency, _document(level, None), level.plan.start)
    try:
        return directory, _run(target, _replay(level, target, directory, screen, interrupts))
    finally:
        screen.level_ends()


def _written(level: Level, replayed: _Replayed, run: RunDirectory, directory: Path) -> Point:
    """Compute the point of a level that was replayed, and write it."""
    compact(directory)
    compact_samples(instrument_file(directory), instrument_parts(directory), INSTRUMENT)
    point = _point(level, replayed, directory)
    document = _document(level, point)
    run.write_point(level.plan.concurrency, point.status, document, level.plan.start)
    return point


def _run(target: Target, replay: Coroutine[Any, Any, _T]) -> _T:
    if target.virtual:
        return run_virtual(replay)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(replay)


async def _replay(
    level: Level, target: Target, directory: Path, screen: Screen, interrupts: Interrupts
) -> _Replayed:
    if target.virtual:
        return await _replay_virtually(level, target, directory, interrupts)
    with real_clock(asyncio.get_running_loop()) as clock:
        return await _replay_live(level, target, directory, screen, interrupts, clock)


async def _replay_virtually(
    level: Level, target: Target, directory: Path, interrupts: Interrupts
) -> _Replayed:
    clock = virtual_clock()
    origin_ns, origin_unix_s = clock.now_ns(), time.time()
    recording = ParquetRecorder(directory, origin_ns=origin_ns, start=level.plan.start)
    with closing(recording) as recorder:
        endpoint = target.open(clock)
        prompts = level.prompting.level(level.plan.concurrency, level.attempt, level.plan.start)
        replay = Replay(level.plan, prompts, clock, endpoint, recorder, run_id=level.run_id)
        with interrupts.stopping(asyncio.get_running_loop(), replay.stop):
            result = await replay.run()
    return _Replayed(result, origin_ns, origin_unix_s)


async def _replay_live(
    level: Level,
    target: Target,
    directory: Path,
    screen: Screen,
    interrupts: Interrupts,
    clock: Clock,
) -> _Replayed:
    origin_ns, origin_unix_s = clock.now_ns(), time.time()
    stopping = partial(interrupts.stopping, asyncio.get_running_loop())
    alone = level.workers == 1

    def show(looks: list[Look]) -> None:
        screen.show(*together(looks))

    of = Measurement(level.plan.concurrency, level.plan.start)
    async with recorded_metrics(target.metrics, clock, origin_ns, directory, of):
        if alone:
            part = _part(level, target, directory, origin_ns)
            one = await play(
                part, clock, lambda replay: stopping(replay.stop), lambda look: show([look])
            )
            result = one.result
        else:
            jobs = _jobs(level, target, directory, origin_ns)
            crew = await play_on_workers(jobs, clock, stopping, show)
            result = crew.result
    return _Replayed(result, origin_ns, origin_unix_s)


def _part(level: Level, target: Target, directory: Path, origin_ns: int) -> Part:
    """Return the whole level as one part."""
    return Part(
        plan=level.plan,
        prompts=level.prompting.level(level.plan.concurrency, level.attempt, level.plan.start),
        run_id=level.run_id,
        directory=directory,
        origin_ns=origin_ns,
        open=target.open,
    )


def _jobs(level: Level, target: Target, directory: Path, origin_ns: int) -> list[Job]:
    """Return what each of the level's workers is to play."""
    return [
        Job(
            source=level.source,
            corpus_fingerprint=level.plan.corpus_fingerprint,
            scenario=level.plan.scenario,
            prompting=level.prompting,
            attempt=level.attempt,
            start=level.plan.start,
            concurrency=level.plan.concurrency,
            run_id=level.run_id,
            directory=directory,
            origin_ns=origin_ns,
            open=target.open,
            worker=worker,
            workers=level.workers,
        )
        for worker in range(level.workers)
    ]


def _point(level: Level, replayed: _Replayed, directory: Path) -> Point:
    """Compute a point from its records, and write its histograms."""
    result, origin_ns = replayed.result, replayed.origin_ns
    window = None
    if result.window is not None:
        window = Window(
            result.window.open_ns - origin_ns,
            result.window.close_ns - origin_ns,
            level.plan.scenario.window_s,
        )
    failed = result.failure
    conduct = Conduct(
        interrupted=result.interrupted,
        failure=failed.text if failed else None,
        failure_code=failed.code if failed else None,
    )
    rules = with_drafting(level.rules, directory, window)
    facts = PointFacts(
        level.plan.concurrency,
        level.gpus,
        window,
        rules,
        conduct,
        level.plan.start,
        seed=level.plan.seed,
        timestamps=level.timestamps,
        accept_length=accept_length(directory, window),
    )
    whole, parts = instrument_file(directory), instrument_parts(directory)
    samples = samples_of(read_parquet(sample_files(whole, parts), INSTRUMENT))
    records = records_of(StoredRequests.of(directory).groups)
    if window is not None:
        lag = [] if samples is None else [loop_lag_series(samples, window)]
        series = chain(latency_series(records, window), lag)
        write_log(latency_log(directory), series, replayed.origin_unix_s)
    live_history = level.rules.live_history
    fidelity = level_fidelity(level.plan, directory, window, live_history=live_history)
    told = told_by_server(directory, window)
    return measure_point(records, samples, facts, _status(result), fidelity, *told)


def _status(result: ReplayResult) -> PointStatus:
    if result.interrupted:
        return PointStatus.INTERRUPTED
    return PointStatus.COMPLETE if result.failure is None else PointStatus.FAILED


def _document(level: Level, point: Point | None) -> dict[str, Any]:
    """Return what ``point.json`` says of a level, before it runs (no point yet) and after."""
    plan = level.plan
    known = {
        "plan_fingerprint": plan.fingerprint,
        "run_id": level.run_id,
        "attempt": level.attempt,
        "mark": level.mark,
    }
    if point is None:
        facts = PointFacts(
            plan.concurrency,
            level.gpus,
            None,
            level.rules,
            Conduct(),
            plan.start,
            seed=plan.seed,
            timestamps=level.timestamps,
        )
        return known | facts_document(facts)
    return known | point_document(point)

"""One level of a sweep: replay a plan, record it, and turn the records into a point."""

import asyncio
import time
from asyncio import get_running_loop
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import uvloop

from agentx_replay.analysis.client_lag import loop_lag_series, samples_of
from agentx_replay.analysis.early import STOPPED_EARLY
from agentx_replay.analysis.facts import Conduct, Rules
from agentx_replay.analysis.machines import MachineFacts
from agentx_replay.analysis.point import (
    Point,
    PointFacts,
    facts_document,
    level_metrics,
    measure_point,
    point_document,
)
from agentx_replay.analysis.responses import Window, records_of
from agentx_replay.analysis.server import Metrics, speculation
from agentx_replay.analysis.tokens import latency_series
from agentx_replay.experiment.conformity import level_fidelity
from agentx_replay.experiment.early_stop import EarlyWatch
from agentx_replay.experiment.interrupts import Interrupts
from agentx_replay.experiment.live_view import ProgressSnapshot, together
from agentx_replay.experiment.part import Part, play
from agentx_replay.experiment.server_metrics import recorded_metrics
from agentx_replay.experiment.settings import Screen, Target
from agentx_replay.experiment.workers import joint_result, play_on_workers
from agentx_replay.replay.clock import real_clock
from agentx_replay.replay.driver import Replay, ReplayResult
from agentx_replay.replay.ports import Clock
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock
from agentx_replay.results.histograms import write_log
from agentx_replay.results.layout import Measurement, latency_log
from agentx_replay.results.recorder import Recorder
from agentx_replay.results.run_directory import PointStatus, RunDirectory
from agentx_replay.results.schema import INSTRUMENT, LEVEL_TABLES, PLAYS, REQUESTS

_T = TypeVar("_T")
_Stopping = Callable[[Callable[[], None]], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class _Replayed:
    """What a level's replay leaves behind beside its records."""

    result: ReplayResult
    origin_ns: int
    origin_unix_s: float
    machines: tuple[MachineFacts, ...] = ()


def run_level(
    part: Part,
    facts: PointFacts,
    starts: int,
    target: Target,
    run: RunDirectory,
    screen: Screen,
    interrupts: Interrupts,
) -> Point:
    """Replay a level and return its point, which is on disk by then.

    ``part`` is the level on one process, ``facts`` what is known before it runs. A signal stops the
    replay, and waits while the point is computed. Raises ``UsageError`` if the disk fails; what was
    written stays.
    """
    measurement = Measurement(facts.concurrency, facts.start)
    known = {
        "plan_fingerprint": part.plan.fingerprint,
        "run_id": part.run_id,
        "attempt": part.attempt,
        **({"told": target.told} if target.told else {}),
    }
    with interrupts.held():
        screen.level_begins(*measurement, starts)
        directory = run.start_point(measurement, known | facts_document(facts))
        part = replace(part, directory=directory)
        try:
            replayed = _run(target, _replay(part, target, screen, interrupts))
        finally:
            screen.level_ends()
        for table in LEVEL_TABLES:
            table.compact(directory)
        point = _point(part, facts, replayed)
        run.write_point(measurement, point.status, known | point_document(point))
        return point


def _run(target: Target, replay: Coroutine[Any, Any, _T]) -> _T:
    if target.virtual:
        return run_virtual(replay)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(replay)


async def _replay(part: Part, target: Target, screen: Screen, interrupts: Interrupts) -> _Replayed:
    clocks = nullcontext(virtual_clock()) if target.virtual else real_clock(get_running_loop())
    with clocks as clock:
        part = replace(part, origin_ns=clock.now_ns())
        origin_unix_s = time.time()
        stopping = partial(interrupts.stopping, get_running_loop())
        machines: tuple[MachineFacts, ...] = ()
        with closing(part.recorder()) as recorder:
            if target.virtual:
                result = await _replay_virtually(part, clock, recorder, stopping)
            else:
                async with recorded_metrics(target.metrics, clock, recorder):
                    if target.machines is None:
                        result = await _replay_live(part, clock, recorder, stopping, screen)
                    else:
                        show = partial(_show, screen)
                        playing = target.machines.play(part, clock, stopping, show)
                        result, machines = await playing
    return _Replayed(result, part.origin_ns, origin_unix_s, machines)


async def _replay_virtually(
    part: Part, clock: Clock, recorder: Recorder, stopping: _Stopping
) -> ReplayResult:
    endpoint = part.open(clock)
    watch = EarlyWatch(recorder, part.early, part.plan)
    replay = Replay(part.plan, part.prompts(), clock, endpoint, watch, run_id=part.run_id)
    watch.replay = replay
    with stopping(replay.stop):
        return await replay.run()


def _show(screen: Screen, parts: list[ProgressSnapshot]) -> None:
    if parts:
        screen.show(*together(parts))


async def _replay_live(
    part: Part, clock: Clock, recorder: Recorder, stopping: _Stopping, screen: Screen
) -> ReplayResult:
    show = partial(_show, screen)
    if part.workers > 1:
        parts = [replace(part, worker=worker) for worker in range(part.workers)]
        return joint_result(*await play_on_workers(parts, clock, stopping, show))
    return await play(
        part,
        clock,
        recorder,
        lambda replay: stopping(replay.stop),
        lambda progress: show([progress]),
    )


def _point(part: Part, facts: PointFacts, replayed: _Replayed) -> Point:
    """Compute a point from its records, and write its histograms."""
    result, origin_ns, directory = replayed.result, replayed.origin_ns, part.directory
    window = None
    if result.window is not None:
        window = Window(
            result.window.open_ns - origin_ns,
            result.window.close_ns - origin_ns,
            part.plan.scenario.window_s,
        )
    failed = result.failure
    conduct = Conduct(
        interrupted=result.interrupted,
        failure=failed.text if failed else None,
        failure_code=failed.code if failed else None,
    )
    metrics = level_metrics(directory, window)
    accepted = accept_length(metrics, window)
    facts = replace(
        facts,
        window=window,
        rules=with_drafting(facts.rules, accepted),
        conduct=conduct,
        accept_length=accepted,
        machines=replayed.machines,
    )
    samples = samples_of(INSTRUMENT.read(directory))
    records = records_of(REQUESTS.at(directory).groups)
    if window is not None:
        lag = [] if samples is None else [loop_lag_series(samples, window)]
        series = chain(latency_series(records, window), lag)
        write_log(latency_log(directory), series, replayed.origin_unix_s)
    live_history = facts.rules.live_history
    fidelity = level_fidelity(part.plan, directory, window, live_history=live_history)
    plays = PLAYS.read(directory)
    return measure_point(records, samples, facts, _status(result), fidelity, metrics, plays)


def accept_length(metrics: Metrics, window: Window | None) -> float | None:
    """Return how many tokens a cycle of the server committed in the window, by its own metrics;
    None if it drafted nothing, does not tell, or no window opened.
    """
    found = None if window is None else speculation(metrics, window.length_s)
    return None if found is None or found.accept_length <= 1.0 else found.accept_length


def with_drafting(rules: Rules, accepted: float | None) -> Rules:
    """Return the rules with what the server drafted.

    Greedy output over random words loops, so that acceptance is not that of code: such a level is
    not comparable. No engine tells whether acceptance was synthetic, so it is not taken to be.
    """
    if accepted is None:
        return rules
    return replace(
        rules,
        speculative_decoding=f"the server commits {accepted:.2f} tokens a cycle, and "
        "does not tell whether acceptance is synthetic",
    )


def _status(result: ReplayResult) -> PointStatus:
    if result.interrupted:
        return PointStatus.INTERRUPTED
    if result.failure is None or result.failure.code == STOPPED_EARLY:  # as the search wanted it
        return PointStatus.COMPLETE
    return PointStatus.FAILED

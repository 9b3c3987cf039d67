"""Real worker processes: the same requests and bytes, ends that reach all, deaths that are told."""

import asyncio
import dataclasses
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvloop
from recorded_parts import IMPORTABLE, LANES, parts
from recording_endpoint import Orders, sent_bytes
from refusals import refuses

from agentx_replay.experiment.live_view import ProgressSnapshot
from agentx_replay.experiment.part import Part
from agentx_replay.experiment.workers import (
    died,
    joint_result,
    play_on_workers,
    workers_for,
)
from agentx_replay.reason import Reason
from agentx_replay.replay.clock import real_clock
from agentx_replay.replay.coordinator import HANG_AFTER_S, hung
from agentx_replay.replay.driver import ReplayResult
from agentx_replay.replay.window import INTERRUPTED, WindowResult
from agentx_replay.results.schema import INSTRUMENT, REQUESTS
from agentx_replay.shipped import shipped_directory

BUNDLED = shipped_directory("traces")


@pytest.fixture(autouse=True)
def _endpoint_can_be_imported_by_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", IMPORTABLE)


@dataclasses.dataclass(frozen=True)
class Played:
    """How a level went, and each of its workers (None: it died)."""

    result: ReplayResult
    workers: list[ReplayResult | None]


def run(
    of: list[Part],
    *,
    stop_when: Callable[[list[ProgressSnapshot]], bool] = lambda _: False,
    hang_after_s: float = HANG_AFTER_S,
) -> Played:
    """Play the parts, interrupted at the first progress that ``stop_when`` picks."""

    async def main() -> Played:
        stops: list[Callable[[], None]] = []

        @contextmanager
        def steered(stop: Callable[[], None]) -> Iterator[None]:
            stops.append(stop)
            yield

        def show(progress: list[ProgressSnapshot]) -> None:
            if stop_when(progress):
                stops[0]()

        with real_clock(asyncio.get_running_loop()) as clock:
            workers, stopped = await play_on_workers(
                of, clock, steered, show, hang_after_s=hang_after_s
            )
        return Played(joint_result(workers, stopped), workers)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def sent_by(level: Played, directory: Path) -> tuple[dict[str, str], set[str]]:
    """Every request's bytes, and which were warm-up."""
    assert level.result.failure is None
    rows = REQUESTS.read(directory, ("request_id", "phase")).to_pylist()
    sent = sent_bytes(directory)
    assert {row["request_id"] for row in rows} == set(sent)
    return sent, {row["request_id"] for row in rows if row["phase"] != "window"}


def test_two_processes_play_their_lanes_in_one_window_and_send_the_bytes_of_one(
    tmp_path: Path,
) -> None:
    alone, two = tmp_path / "1", tmp_path / "2"
    alone.mkdir()
    two.mkdir()
    one, one_warm_up = sent_by(run(parts(BUNDLED, 1, Orders(alone))), alone)
    assert len(one_warm_up) > 3 * LANES
    level = run(parts(BUNDLED, 2, Orders(two)))
    several, warm_up = sent_by(level, two)
    assert warm_up == one_warm_up
    # How far the window comes in a second is the machine's affair; what both sent is equal.
    common = one.keys() & several.keys()
    assert len(common) > len(warm_up)
    assert {name: several[name] for name in common} == {name: one[name] for name in common}

    opened = {result.window and result.window.open_ns for result in level.workers if result}
    assert level.result.window is not None
    assert opened == {level.result.window.open_ns}
    lanes: dict[int, set[int]] = {}
    for path in REQUESTS.files(two):  # on a slow machine a worker writes several
        mine = lanes.setdefault(int(path.name.split("-")[1]), set())
        mine.update(row["lane"] for table in REQUESTS.groups([path]) for row in table.to_pylist())
    assert lanes == {0: {0, 2, 4}, 1: {1, 3, 5}}
    assert set(INSTRUMENT.read(two)["worker"].to_pylist()) == {0, 1}
    assert set(REQUESTS.read(two, ("start",))["start"].to_pylist()) == {2}
    REQUESTS.compact(two)


def test_a_stop_reaches_every_worker(tmp_path: Path, small_traces: Path) -> None:
    of = parts(small_traces, 2, Orders(tmp_path), window_s=600.0)
    level = run(of, stop_when=lambda progress: sum(each.recent.ended for each in progress) > 10)
    assert level.result.interrupted
    assert level.result.failure is None
    assert all(result is not None and result.interrupted for result in level.workers)


def test_a_worker_that_dies_fails_the_level_and_what_it_had_written_stays(
    tmp_path: Path, small_traces: Path
) -> None:
    orders = Orders(tmp_path, deadly_lane=1, deadly_parts=2, answer_s=0.1)
    level = run(parts(small_traces, 2, orders, window_s=600.0))
    assert level.result.failure == died(1, -9)
    assert not level.result.interrupted
    assert [result is None for result in level.workers] == [False, True]
    assert level.result.window is not None
    REQUESTS.compact(tmp_path)
    lanes = set(REQUESTS.read(tmp_path)["lane"].to_pylist())
    assert lanes == set(range(LANES))


def test_a_worker_that_hangs_fails_the_level_and_what_it_had_written_stays(
    tmp_path: Path, small_traces: Path
) -> None:
    """It is stopped by a signal: alive, its pipe open, its loop still."""
    stops = signal.SIGSTOP
    orders = Orders(tmp_path, deadly_lane=1, deadly_parts=2, deadly_signal=stops, answer_s=0.1)
    level = run(parts(small_traces, 2, orders, window_s=600.0), hang_after_s=3.0)
    assert level.result.failure == hung(1, 3.0)
    assert not level.result.interrupted
    assert [result is None for result in level.workers] == [False, True]
    REQUESTS.compact(tmp_path)
    lanes = set(REQUESTS.read(tmp_path)["lane"].to_pylist())
    assert lanes == set(range(LANES))


def test_a_warm_up_that_fails_at_one_worker_fails_the_level(
    tmp_path: Path, small_traces: Path
) -> None:
    level = run(parts(small_traces, 2, Orders(tmp_path, odd_lanes_fail=True)))
    assert level.result.window is None
    assert level.result.failure is not None
    assert level.result.failure.code == "warm-up-failed"
    assert re.search(" r-c6-l[135]-p0-s0-t", level.result.failure.text)


def test_sessions_that_changed_meanwhile_are_refused(tmp_path: Path, small_traces: Path) -> None:
    of = [
        dataclasses.replace(part, plan=dataclasses.replace(part.plan, corpus_fingerprint="0" * 16))
        for part in parts(small_traces, 1, Orders(tmp_path))
    ]
    with refuses("sessions-changed-at-start"):
        run(of)


@pytest.mark.parametrize(
    ("concurrency", "cores", "asked", "kernel", "process"),
    [
        (1, 16, None, 1, 1),
        (64, 16, None, 1, 1),
        (65, 16, None, 1, 2),
        (128, 16, None, 1, 2),
        (129, 16, None, 2, 3),
        (512, 16, None, 4, 8),
        (4096, 16, None, 15, 15),  # one core is left
        (512, 2, None, 1, 1),
        (512, 1, None, 1, 1),
        (8, 2, 3, 3, 3),  # what was asked, also where it is more than there are cores
        (2, 16, 5, 2, 2),  # but never a worker without a lane
    ],
)
def test_how_many_workers_play_a_level(
    monkeypatch: pytest.MonkeyPatch,
    concurrency: int,
    cores: int,
    asked: int | None,
    kernel: int,
    process: int,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert workers_for(concurrency, asked, "kernel") == kernel
    assert workers_for(concurrency, asked, "process") == process


def test_a_death_is_told_by_its_signal_or_its_exit_code() -> None:
    signalled, ended = died(3, -11), died(0, 1)
    assert signalled.code == ended.code == "worker-died"
    assert re.findall(r"\d+", signalled.text) == ["3", "11"]
    assert re.findall(r"\d+", ended.text) == ["0", "1"]


def test_the_joint_window_lasts_from_the_common_opening_to_the_last_end() -> None:
    one = ReplayResult(5, WindowResult(100, 200, 230, 200, 1.5))
    other = ReplayResult(4, WindowResult(100, 201, 220, 200, 1.5))
    joint = WindowResult(100, 201, 230, 200, 1.5)
    assert joint_result([one, other], None) == ReplayResult(4, joint)
    stopped = dataclasses.replace(joint, stopped=INTERRUPTED)
    assert joint_result([one, other], INTERRUPTED) == ReplayResult(4, stopped, interrupted=True)
    why = Reason("worker-died", "why")
    failed = dataclasses.replace(joint, stopped=why)
    assert joint_result([one, other], why) == ReplayResult(4, failed, failure=why)
    assert joint_result([], why) == ReplayResult(0, None, failure=why)

"""A signal at any moment of a level: the point is written, and says how far it came."""

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from recording_endpoint import Orders, RecordingEndpoint
from screens import BlankScreen

from agentx_replay.experiment.interrupts import DRAINING, WHEN_WRITTEN, Interrupts
from agentx_replay.experiment.settings import Settings, Target
from agentx_replay.experiment.sweep import Sweep
from agentx_replay.replay.ports import Clock
from agentx_replay.results.run_directory import read_points
from agentx_replay.scenario import load_scenario
from agentx_replay.shipped import shipped_directory
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.inprocess import InProcessEndpoint

SCENARIO = load_scenario("quick").override(
    window_s=1.0, grace_s=2.0, warmup_requests=1, primer_lead_s=0.1
)


def signal_ourselves(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


class Screen(BlankScreen):
    """Sends a signal where a level begins, or where its replay is over."""

    def __init__(self, *, begins: bool = False, over: bool = False) -> None:
        self._begins = begins
        self._over = over
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def level_begins(self, concurrency: int, start: int, starts: int) -> None:
        if self._begins:
            signal_ourselves()

    def level_ends(self) -> None:
        if self._over:
            signal_ourselves()


def swept(
    tmp_path: Path, screen: Screen, target: Target | None = None
) -> tuple[list[tuple[int, str]], bool]:
    """Levels and states of the points on disk after a sweep of two levels, and whether it was
    interrupted.
    """
    notes = tmp_path / "notes"
    notes.mkdir()
    target = target or Target(
        open=partial(RecordingEndpoint, Orders(notes)), facts={"kind": "test"}
    )
    settings = Settings(
        traces=shipped_directory("traces"),
        scenario=SCENARIO,
        concurrency=(1, 2),
        out=tmp_path / "out",
        salt="salt",
        command=(),
        workers=1,
    )
    sweep = Sweep(settings, target)
    for _ in sweep.run(screen):
        pass
    stored = read_points(settings.out)
    return [(point.concurrency, str(point.status)) for point in stored], sweep.interrupted


def test_a_signal_after_the_replay_waits_for_the_point_and_ends_the_sweep(tmp_path: Path) -> None:
    screen = Screen(over=True)
    assert swept(tmp_path, screen) == ([(1, "complete")], True)
    assert screen.said == [WHEN_WRITTEN]


def test_a_signal_before_the_replay_stops_it_when_it_begins(tmp_path: Path) -> None:
    screen = Screen(begins=True)
    assert swept(tmp_path, screen) == ([(1, "interrupted")], True)
    assert screen.said[-1] == DRAINING


def test_without_a_signal_all_levels_are_measured(tmp_path: Path) -> None:
    assert swept(tmp_path, Screen()) == ([(1, "complete"), (2, "complete")], False)


@pytest.mark.parametrize("at_s", [0.0, 0.05, 0.5], ids=["start", "warm-up", "window"])
def test_a_signal_in_virtual_time_stops_the_replay_too(tmp_path: Path, at_s: float) -> None:
    def opened(clock: Clock) -> InProcessEndpoint:
        clock.call_at(round(at_s * 1e9), signal_ourselves)
        return InProcessEndpoint(clock, EngineModel())

    target, screen = Target(open=opened, facts={"kind": "test"}, virtual=True), Screen()
    assert swept(tmp_path, screen, target) == ([(1, "interrupted")], True)
    assert screen.said == [DRAINING]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_handled_a_signal_before_does_so_again(number: signal.Signals) -> None:
    came: list[int] = []
    note: Callable[..., None] = lambda number, _: came.append(number)  # noqa: E731
    before = signal.signal(number, note)
    try:
        interrupts = Interrupts(lambda _: None)
        with interrupts.held():
            signal_ourselves(number)
        assert (interrupts.came, came) == (True, [])
        signal_ourselves(number)
        assert came == [number]
    finally:
        signal.signal(number, before)


def test_a_signal_that_was_to_be_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        interrupts = Interrupts(lambda _: None)
        with interrupts.held():
            signal_ourselves(signal.SIGHUP)
        assert not interrupts.came
    finally:
        signal.signal(signal.SIGHUP, before)

"""A sweep with starts: all levels in turn, the same plan each time, and no text sent twice."""

import shutil
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from refusals import refuses
from screens import BlankScreen

from agentx_replay.errors import UsageError
from agentx_replay.experiment.settings import Settings, Target
from agentx_replay.experiment.sweep import Sweep
from agentx_replay.results.run_directory import StoredPoint, read_points, read_sweep
from agentx_replay.scenario import load_scenario
from agentx_replay.shipped import shipped_directory
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.inprocess import InProcessEndpoint

SCENARIO = load_scenario("quick").override(window_s=4.0, grace_s=2.0)
TARGET = Target(
    open=lambda clock: InProcessEndpoint(clock, EngineModel()),
    facts={"kind": "test"},
    virtual=True,
)


class Screen(BlankScreen):
    """Keeps what began; ends the process's part, as it were, where ``stop`` says so."""

    def __init__(self, stop: Callable[[int, int], bool] = lambda concurrency, start: False):
        self._stop = stop
        self.begun: list[tuple[int, int, int]] = []

    def level_begins(self, concurrency: int, start: int, starts: int) -> None:
        self.begun.append((concurrency, start, starts))
        if self._stop(concurrency, start):
            raise KeyboardInterrupt


def sweep(out: Path, screen: Screen, starts: int, *, resume: bool = False) -> None:
    settings = Settings(
        traces=shipped_directory("traces"),
        scenario=SCENARIO,
        concurrency=(2, 4),
        out=out,
        salt="pepper",
        command=(),
        workers=1,
        resume=resume,
        starts=starts,
    )
    for _ in Sweep(settings, TARGET).run(screen):
        pass


@pytest.fixture(scope="module")
def thrice(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Screen]:
    """A run of three starts, and the lines on its screen."""
    out, screen = tmp_path_factory.mktemp("repeated") / "out", Screen()
    sweep(out, screen, 3)
    return out, screen


@pytest.fixture(scope="module")
def repeated(thrice: tuple[Path, Screen]) -> Path:
    return thrice[0]


@pytest.fixture(scope="module")
def measured_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("once") / "out"
    sweep(out, Screen(), 1)
    return out


@pytest.fixture
def once(measured_once: Path, tmp_path: Path) -> Path:
    """A run of one start, to go on with."""
    return shutil.copytree(measured_once, tmp_path / "out")


def own_blocks(point: StoredPoint) -> NDArray[np.uint64]:
    """What tells the prompts of a point from others: the first block that no other play has."""
    return np.array(point.requests(("own_block",))["own_block"].drop_null(), np.uint64)


def test_all_levels_are_measured_once_and_then_all_again(thrice: tuple[Path, Screen]) -> None:
    assert thrice[1].begun == [(2, 1, 3), (4, 1, 3), (2, 2, 3), (4, 2, 3), (2, 3, 3), (4, 3, 3)]


def test_starts_have_the_next_seeds_and_are_numbered_in_every_file(repeated: Path) -> None:
    points = read_points(repeated)
    assert [point.directory.name for point in points] == [
        "c0002", "c0002-s2", "c0002-s3", "c0004", "c0004-s2", "c0004-s3",
    ]  # fmt: skip
    plans = read_sweep(repeated)["plans"]
    assert len(set(plans.values())) == 6
    for point in points:
        assert point.document["plan_fingerprint"] == plans[str(point.measurement)]
        assert point.document["facts"]["seed"] == 41 + point.start  # quick's own is 42
        assert point.document["start"] == point.document["facts"]["start"] == point.start
        for table in (point.requests(("start",)), point.plays()):
            assert set(table["start"].to_pylist()) == {point.start}


def test_starts_play_other_sessions_from_other_instants(repeated: Path) -> None:
    plays = [point.plays().to_pylist() for point in read_points(repeated) if point.concurrency == 4]
    for column in ("session_id", "t_star_s"):
        assert len({tuple(p[column] for p in each if p["play_number"] == 0) for each in plays}) == 3


def test_no_two_starts_send_the_same_text(repeated: Path) -> None:
    blocks = [own_blocks(point) for point in read_points(repeated)]
    assert all(len(each) for each in blocks)
    for one, other in combinations(blocks, 2):
        assert not np.isin(one, other).any()


def test_the_first_start_is_what_a_level_measured_once_is(
    repeated: Path, measured_once: Path
) -> None:
    points = read_points(measured_once)
    assert [point.directory.name for point in points] == ["c0002", "c0004"]
    first = [point for point in read_points(repeated) if point.start == 1]
    for point, again in zip(points, first, strict=True):
        assert point.document["run_id"] == again.document["run_id"] == "pepper"
        assert point.requests().equals(again.requests())


def test_a_resumed_sweep_goes_on_with_the_start_that_was_not_done(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        sweep(out, Screen(lambda concurrency, start: (concurrency, start) == (2, 2)), 3)
    assert [point.directory.name for point in read_points(out)] == ["c0002", "c0004"]
    screen = Screen()
    sweep(out, screen, 3, resume=True)
    assert screen.begun == [(2, 2, 3), (4, 2, 3), (2, 3, 3), (4, 3, 3)]
    assert [point.document["run_id"] for point in read_points(out)][:3] == [
        "pepper", "pepper-s2-a1", "pepper-s3-a1",
    ]  # fmt: skip


def test_a_level_whose_directory_was_moved_away_is_measured_with_other_text(
    once: Path, tmp_path: Path
) -> None:
    out, blocks = once, []
    for number in range(3):
        blocks.append(own_blocks(read_points(out)[0]))
        (out / "c0002").rename(tmp_path / f"moved-{number}")
        sweep(out, Screen(), 1, resume=True)
    assert [point.document["attempt"] for point in read_points(out)] == [3, 0]
    blocks.append(own_blocks(read_points(out)[0]))
    for one, other in combinations(blocks, 2):
        assert not np.isin(one, other).any()


def swap(run: Path, one: str, other: str) -> None:
    (run / one).rename(run / "aside")
    (run / other).rename(run / one)
    (run / "aside").rename(run / other)


@pytest.mark.parametrize("other", ["c0002-s2", "c0004"])
def test_levels_in_each_others_directories_are_not_gone_on_from(
    repeated: Path, tmp_path: Path, other: str
) -> None:
    out = shutil.copytree(repeated, tmp_path / "out")
    before = (out / "sweep.json").read_bytes()
    swap(out, "c0002", other)
    with pytest.raises(UsageError, match=rf"{other}/point\.json is of concurrency 2; move its"):
        sweep(out, Screen(), 3, resume=True)
    assert (out / "sweep.json").read_bytes() == before


def test_a_kept_level_with_the_records_of_another_is_refused_before_anything_is_written(
    once: Path,
) -> None:
    out = once
    before = (out / "sweep.json").read_bytes()
    shutil.rmtree(out / "c0002" / "requests.parquet")
    shutil.copytree(out / "c0004" / "requests.parquet", out / "c0002" / "requests.parquet")
    with refuses("record-of-other-level", "c0002/"):
        sweep(out, Screen(), 1, resume=True)
    assert (out / "sweep.json").read_bytes() == before


def test_a_finished_run_may_be_started_more_often(once: Path) -> None:
    screen = Screen()
    sweep(once, screen, 2, resume=True)
    assert screen.begun == [(2, 2, 2), (4, 2, 2)]
    assert read_sweep(once)["starts"] == 2

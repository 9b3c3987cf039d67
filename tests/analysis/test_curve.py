from pathlib import Path

import pytest
from made_runs import Level, make_run
from refusals import refuses

from agentx_replay.analysis.curve import curve_of
from agentx_replay.analysis.run import read_run
from agentx_replay.replay.ports import Status

LEVELS = (Level(12, 100.0, 4000.0), Level(16, 50.0, 8000.0), Level(20, 40.0, 9000.0))


def test_a_target_is_interpolated_between_two_levels_and_one_start_has_no_interval(
    tmp_path: Path,
) -> None:
    curve = curve_of(read_run(make_run(tmp_path / "r", LEVELS)), (75.0,))
    (value,) = curve.values
    assert value.at.throughput == pytest.approx(6000.0, rel=1e-5)
    assert value.at.between == (12, 16)
    assert (value.interval, value.no_interval) == (None, "1 start")
    assert curve.intervals == {}
    assert [point.concurrency for point in curve.frontier] == [20, 16, 12]


def test_without_a_gpu_count_throughput_is_the_systems(tmp_path: Path) -> None:
    curve = curve_of(read_run(make_run(tmp_path / "r", LEVELS, gpus=None)), (50.0,))
    assert curve.gpus is None
    assert curve.values[0].at.throughput == pytest.approx(64_000.0)


@pytest.mark.parametrize("target", [39.0, 101.0])
def test_nothing_is_extrapolated(tmp_path: Path, target: float) -> None:
    curve = curve_of(read_run(make_run(tmp_path / "r", LEVELS)), (target,))
    (value,) = curve.values
    assert value.at.throughput is None
    assert (value.interval, value.no_interval) == (None, "not reached")


def test_one_point_reaches_its_own_speed_alone(tmp_path: Path) -> None:
    curve = curve_of(read_run(make_run(tmp_path / "r", LEVELS[1:2])), (50.0, 49.0))
    assert curve.values[0].at.throughput == pytest.approx(8000.0)
    assert curve.values[1].at.throughput is None


def test_points_that_are_not_valid_are_on_no_curve(tmp_path: Path) -> None:
    failed = Level(20, 40.0, 9000.0, status=Status.FAILED)
    run = read_run(make_run(tmp_path / "r", [*LEVELS[:2], failed]))
    assert [level.evidence is None for level in run.levels] == [False, False, True]
    curve = curve_of(run, (45.0,))
    assert [point.concurrency for point in curve.points] == [12, 16]
    assert curve.values[0].at.throughput is None


def test_a_run_without_a_success_has_an_empty_curve(tmp_path: Path) -> None:
    level = Level(12, 50.0, 8000.0, status=Status.FAILED)
    curve = curve_of(read_run(make_run(tmp_path / "r", [level])), (50.0,))
    assert curve.points == ()
    assert curve.values[0].at.nearest is None


def test_levels_of_different_gpu_counts_are_no_one_curve(tmp_path: Path) -> None:
    make_run(tmp_path / "r", LEVELS[:1], gpus=8)
    make_run(tmp_path / "s", LEVELS[1:2], gpus=4)
    (tmp_path / "s" / "c0016").rename(tmp_path / "r" / "c0016")
    with refuses("gpu-counts-differ"):
        curve_of(read_run(tmp_path / "r"))

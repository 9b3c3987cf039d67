"""The curve: frontier, and throughput at a target, of one start and of several."""

from pathlib import Path

import pytest
from made_runs import Level, make_run
from refusals import refuses

from agentx_replay.analysis.curve import (
    CurvePoint,
    StartValue,
    TargetValue,
    curve_of,
    frontier,
    level_means,
    target_value,
    throughput_at,
)
from agentx_replay.analysis.run import read_run
from agentx_replay.replay.ports import Status

# A sweep: interactivity falls as concurrency rises.
A = CurvePoint(1, 100.0, 1000.0)
B = CurvePoint(4, 60.0, 3000.0)
C = CurvePoint(8, 20.0, 5000.0)


def test_a_level_is_the_geometric_mean_of_its_starts_and_never_the_best_of_them() -> None:
    one, other = level_means([[A, CurvePoint(8, 40.0, 100.0)], [CurvePoint(8, 90.0, 400.0)]])
    assert one == A
    assert (other.interactivity, other.throughput) == pytest.approx((60.0, 200.0))


def test_a_level_of_one_start_is_its_point_to_the_last_bit() -> None:
    once = [CurvePoint(k, 1 / (0.1 * k), 1 / (0.3 * k)) for k in range(1, 50)]
    assert level_means([once]) == once


DOMINATED = CurvePoint(16, 15.0, 4000.0)  # C is faster and gives more
FRONTIERS = {
    "what no point beats in both": ([A, DOMINATED, C, B], [C, B, A]),
    "of equals the lowest concurrency": ([CurvePoint(32, 20.0, 5000.0), C], [C]),
    "as fast, and more": ([C, CurvePoint(16, 20.0, 5100.0)], [CurvePoint(16, 20.0, 5100.0)]),
    "as much, and faster": ([C, CurvePoint(16, 25.0, 5000.0)], [CurvePoint(16, 25.0, 5000.0)]),
    "nothing": ([], []),
}


@pytest.mark.parametrize(("points", "best"), FRONTIERS.values(), ids=FRONTIERS)
def test_the_frontier_is_what_no_point_beats_in_both(
    points: list[CurvePoint], best: list[CurvePoint]
) -> None:
    assert frontier(points) == best


CASES = {
    # target: throughput, pair
    80.0: (2000.0, (1, 4)),  # half way from 1,000 to 3,000
    30.0: (4500.0, (4, 8)),  # three quarters from 3,000 to 5,000
    60.0: (3000.0, (1, 4)),  # a point itself
    100.0: (1000.0, (1, 4)),
    20.0: (5000.0, (4, 8)),
}


@pytest.mark.parametrize(("target", "expected"), CASES.items())
def test_throughput_at_a_target_is_interpolated_in_the_pair_that_brackets_it(
    target: float, expected: tuple[float, tuple[int, int]]
) -> None:
    found = throughput_at([C, A, B], target)
    assert found.throughput == pytest.approx(expected[0])
    assert found.between == expected[1]
    assert (found.also_between, found.frontier) == ((), None)


@pytest.mark.parametrize(
    ("points", "target", "nearest", "side"),
    [
        ([A, B, C], 100.1, A, "slower"),
        ([A, B, C], 19.9, C, "faster"),
        ([A], 99.0, A, "faster"),
        ([], 50.0, None, None),
    ],
)
def test_outside_the_range_is_not_reached_and_says_on_which_side(
    points: list[CurvePoint], target: float, nearest: CurvePoint | None, side: str | None
) -> None:
    found = throughput_at(points, target)
    assert (found.throughput, found.between) == (None, None)
    assert (found.nearest, found.every_level_is) == (nearest, side)


BACK = CurvePoint(16, 60.0, 8000.0)  # as fast as B, and beats it and C
SLOWER = CurvePoint(2, 25.0, 17_000.0)
ON_ANOTHER_BRANCH = CurvePoint(3, 29.0, 40_000.0)  # beats SLOWER, and is not passed at 30
PAST_ITS_PEAK = CurvePoint(16, 10.0, 4000.0)


@pytest.mark.parametrize(
    ("points", "target", "read_off", "also_between", "by_frontier"),
    [
        # 4 to 8: half way, 4,000. 8 to 16: half way from 5,000 to 8,000. 16 alone is faster.
        ([A, B, C, BACK], 40.0, (6500.0, (8, 16)), ((4, 8),), (8000.0, (16,))),
        # 1 to 2: 70 of 75 from 1,000 to 17,000. Frontier, 1 to 3: 70 of 71 from 1,000 to 40,000.
        ([A, SLOWER, ON_ANOTHER_BRANCH], 30.0, (15_933.333, (1, 2)), (), (39_450.704, (1, 3))),
        # 8 to 16: half way from 5,000 to 4,000, where 8 agents alone are faster and give more.
        ([A, B, C, PAST_ITS_PEAK], 15.0, (4500.0, (8, 16)), (), (5000.0, (8,))),
        # 8 to 16: half way from 5,000 to 4,800: the frontier's 5,000 is within 5 % of 4,900.
        ([B, C, CurvePoint(16, 10.0, 4800.0)], 15.0, (4900.0, (8, 16)), (), None),
    ],
)
def test_a_curve_that_turns_back_tells_what_else_it_says_at_the_target(
    points: list[CurvePoint],
    target: float,
    read_off: tuple[float, tuple[int, int]],
    also_between: tuple[tuple[int, int], ...],
    by_frontier: tuple[float, tuple[int, ...]] | None,
) -> None:
    for found in (throughput_at(points, target), target_value({1: points, 2: points}, target)):
        assert found.throughput == pytest.approx(read_off[0])
        assert (found.between, found.also_between) == (read_off[1], also_between)
        assert (found.frontier is None) == (by_frontier is None)
        if found.frontier is not None and by_frontier is not None:
            assert found.frontier.throughput == pytest.approx(by_frontier[0])
            assert found.frontier.between == by_frontier[1]


def test_a_pair_of_equal_interactivity_gives_the_higher_and_one_point_itself() -> None:
    found = throughput_at([B, CurvePoint(8, 60.0, 3500.0)], 60.0)
    assert (found.throughput, found.also_between) == (3500.0, ())
    assert throughput_at([A], 100.0).throughput == 1000.0


# --- several starts ------------------------------------------------------------------------------


def test_a_value_of_several_starts_is_their_geometric_mean_and_names_all_levels() -> None:
    other = [CurvePoint(1, 40.0, 4000.0), CurvePoint(2, 20.0, 5000.0)]
    found = target_value({1: [A, B, C], 2: other}, 30.0)
    # √(4,500 · 4,500): three quarters of the way from 3,000, half way from 4,000.
    assert found.throughput == pytest.approx(4500.0)
    assert found.between == (1, 2, 4, 8)
    assert found.interval is not None


def test_a_start_is_not_read_across_a_level_at_which_it_alone_is_not_valid() -> None:
    # √(1,000 · 3,000) half way between 1 and 8 would be of another curve than the first start's.
    whole, gap = [A, B, C], [A, C]
    found = target_value({1: whole, 2: gap}, 80.0)
    assert found.starts == (StartValue(1, 2000.0), StartValue(2, None))
    assert (found.throughput, found.interval) == (None, None)
    assert found.no_interval == "1 of 2 starts reach it"
    # A level at which no start is valid is on no curve, and every start is read across it.
    assert target_value({1: gap, 2: gap}, 60.0).throughput == pytest.approx(3000.0)


def test_a_target_that_some_starts_miss_is_read_off_the_mean_of_all() -> None:
    # At 8 agents 20 and 45 tok/s/user: a mean of 30, so 40 is reached by one start and by the mean
    # curve, one third of the way from there to 60: from √(5,000 · 7,200) = 6,000 to 3,000.
    other = [A, B, CurvePoint(8, 45.0, 7200.0)]
    found = target_value({1: [A, B, C], 2: other}, 40.0)
    assert found.throughput == pytest.approx(5000.0)
    assert found.between == (4, 8)
    assert [each.start for each in found.missed] == [2]
    assert (found.interval, found.no_interval) == (None, "1 of 2 starts reach it")
    assert found.values == []  # those that reach it are a choice by speed


def test_a_target_that_the_mean_of_all_misses_has_no_value() -> None:
    found = target_value({1: [A, B, C], 2: [A, B, CurvePoint(8, 45.0, 7200.0)]}, 25.0)
    assert found.throughput is None
    assert found.why_not_reached == "not reached: 1 of 2 starts reach it"


@pytest.mark.parametrize(
    ("curves", "side"),
    [
        ({1: [A, B], 2: [A, B]}, "slower"),
        ({1: [A, B], 2: [CurvePoint(1, 180.0, 500.0)]}, None),
    ],
)
def test_a_target_that_all_starts_miss_on_one_side_says_so_and_otherwise_not(
    curves: dict[int, list[CurvePoint]], side: str | None
) -> None:
    found = target_value(curves, 150.0)
    assert (found.throughput, found.every_level_is) == (None, side)
    assert found.missed == []


def test_no_start_has_no_value() -> None:
    assert target_value({}, 50.0) == TargetValue(50.0, None, no_interval="not reached")


# --- runs on disk --------------------------------------------------------------------------------

LEVELS = (Level(12, 100.0, 4000.0), Level(16, 50.0, 8000.0), Level(20, 40.0, 9000.0))


def test_a_target_is_interpolated_between_two_levels_and_one_start_has_no_interval(
    tmp_path: Path,
) -> None:
    curve = curve_of(read_run(make_run(tmp_path / "r", LEVELS)), (75.0, 39.0))
    value, beyond = curve.values
    assert value.throughput == pytest.approx(6000.0, rel=1e-5)
    assert value.between == (12, 16)
    assert (value.interval, value.no_interval) == (None, "1 start")
    assert (beyond.throughput, beyond.no_interval) == (None, "not reached")
    assert curve.intervals == {}
    assert [point.concurrency for point in curve.frontier] == [20, 16, 12]


def test_without_a_gpu_count_throughput_is_the_systems(tmp_path: Path) -> None:
    curve = curve_of(read_run(make_run(tmp_path / "r", LEVELS, gpus=None)), (50.0,))
    assert curve.gpus is None
    assert curve.values[0].throughput == pytest.approx(64_000.0)


def test_points_that_are_not_valid_are_on_no_curve(tmp_path: Path) -> None:
    failed = Level(20, 40.0, 9000.0, status=Status.FAILED)
    run = read_run(make_run(tmp_path / "r", [*LEVELS[:2], failed]))
    assert [point.on_curve is None for point in run.points] == [False, False, True]
    ((why, *_),) = run.left_out.values()
    assert why.startswith("20 of 20 requests")
    curve = curve_of(run, (45.0,))
    assert [point.concurrency for point in curve.points] == [12, 16]
    assert curve.values[0].throughput is None


def test_a_run_without_a_success_has_an_empty_curve(tmp_path: Path) -> None:
    level = Level(12, 50.0, 8000.0, status=Status.FAILED)
    curve = curve_of(read_run(make_run(tmp_path / "r", [level])), (50.0,))
    assert curve.points == ()
    assert curve.values[0].nearest is None


def test_levels_of_different_gpu_counts_are_no_one_curve(tmp_path: Path) -> None:
    make_run(tmp_path / "r", LEVELS[:1], gpus=8)
    make_run(tmp_path / "s", LEVELS[1:2], gpus=4)
    (tmp_path / "s" / "c0016").rename(tmp_path / "r" / "c0016")
    with refuses("gpu-counts-differ"):
        curve_of(read_run(tmp_path / "r"))

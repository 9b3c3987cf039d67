from typing import Literal

import pytest

from agentx_replay.analysis.frontier import (
    AtTarget,
    CurvePoint,
    frontier,
    level_means,
    mean_at,
    throughput_at,
)

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


def test_a_value_of_several_starts_names_all_levels_it_was_read_off() -> None:
    found = mean_at([throughput_at([A, B, C], 80.0), throughput_at([A, B, C], 30.0)])
    # √(2,000 · 4,500) = 3,000.
    assert found.throughput == pytest.approx(3000.0)
    assert found.between == (1, 4, 8)


def test_a_target_that_all_starts_miss_on_one_side_says_so_and_otherwise_not() -> None:
    slow, fast = throughput_at([A, B], 150.0), throughput_at([A, B], 50.0)
    assert mean_at([slow, slow]) == AtTarget(150.0, None, None, False, A, "slower")
    assert mean_at([slow, fast]).every_level_is is None
    assert mean_at([slow, throughput_at([A], 100.0)]).why_not_reached == (
        "not reached by every start"
    )


def test_the_frontier_is_what_no_point_beats_in_both() -> None:
    dominated = CurvePoint(16, 15.0, 4000.0)  # C is faster and gives more
    assert frontier([A, dominated, C, B]) == [C, B, A]


def test_of_equal_points_the_lowest_concurrency_stays() -> None:
    assert frontier([CurvePoint(32, 20.0, 5000.0), C]) == [C]


def test_equal_in_one_and_better_in_the_other_dominates() -> None:
    assert frontier([C, CurvePoint(16, 20.0, 5100.0)]) == [CurvePoint(16, 20.0, 5100.0)]
    assert frontier([C, CurvePoint(16, 25.0, 5000.0)]) == [CurvePoint(16, 25.0, 5000.0)]


def test_no_points_have_no_frontier() -> None:
    assert frontier([]) == []


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
    assert not found.several


@pytest.mark.parametrize(
    ("target", "nearest", "side"),
    [(100.1, A, "slower"), (150.0, A, "slower"), (19.9, C, "faster")],
)
def test_outside_the_range_is_not_reached_and_says_on_which_side(
    target: float, nearest: CurvePoint, side: Literal["faster", "slower"]
) -> None:
    found = throughput_at([A, B, C], target)
    assert found == AtTarget(target, None, None, False, nearest, side)


def test_of_several_pairs_the_highest_is_taken_and_flagged() -> None:
    back = CurvePoint(16, 60.0, 8000.0)  # the curve turns back
    found = throughput_at([A, B, C, back], 40.0)
    # 4 to 8: half way, 4,000. 8 to 16: half way from 5,000 to 8,000, 6,500.
    assert found.throughput == pytest.approx(6500.0)
    assert found.between == (8, 16)
    assert found.several


def test_a_pair_of_equal_interactivity_gives_the_higher() -> None:
    found = throughput_at([B, CurvePoint(8, 60.0, 3500.0)], 60.0)
    assert found.throughput == 3500.0
    assert not found.several


def test_one_point_is_reached_only_at_itself() -> None:
    assert throughput_at([A], 100.0).throughput == 1000.0
    assert throughput_at([A], 99.0) == AtTarget(99.0, None, None, False, A, "faster")


def test_no_point_reaches_nothing() -> None:
    assert throughput_at([], 50.0) == AtTarget(50.0, None, None, False, None)

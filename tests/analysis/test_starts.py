"""Starts of a level: one point for all, Student's t over them, Welch's t for ratios."""

from dataclasses import replace
from math import e, exp, log
from pathlib import Path

import numpy as np
import pytest
from made_runs import Level, make_run
from refusals import refuses

from agentx_replay.analysis.comparison import Contender, Ratio, compare
from agentx_replay.analysis.curve import Curve, curve_of
from agentx_replay.analysis.run import Run, read_run
from agentx_replay.analysis.starts import (
    Interval,
    half_width,
    interval_of,
    mean_of_starts,
    paired_interval,
    ratio_interval,
    spread,
    starts_needed,
    t_quantile,
)
from agentx_replay.replay.ports import Status


@pytest.mark.parametrize(
    ("degrees", "t"),
    [
        (1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (7, 2.365), (10, 2.228),
        (20, 2.086), (30, 2.042), (60, 2.000), (120, 1.980),
    ],
)  # fmt: skip
def test_t_is_that_of_the_published_table(degrees: int, t: float) -> None:
    # Abramowitz and Stegun, table 26.10, A = 0.95.
    assert round(t_quantile(degrees), 3) == t


def test_t_of_broken_degrees_lies_between_its_neighbours() -> None:
    # Of 2 degrees it has a closed form: t = (2p − 1)·√(2 / (4p(1 − p))), p = 0.975.
    assert t_quantile(2.0) == pytest.approx(0.95 * (2 / (4 * 0.975 * 0.025)) ** 0.5, abs=1e-9)
    values = [t_quantile(degrees) for degrees in np.linspace(1, 4, 31)]
    assert values == sorted(values, reverse=True)


def test_one_start_is_itself_and_has_no_interval() -> None:
    assert mean_of_starts([0.1 + 0.2]) == 0.1 + 0.2
    assert interval_of([50.0]) is None
    assert ratio_interval([50.0], [40.0, 41.0]) is None
    assert paired_interval([50.0], [40.0]) is None


def test_the_interval_of_starts_is_students_of_the_logarithm() -> None:
    # Logarithms 0, 1, 2: a mean of 1, a standard error of √(1/3), t of 2 degrees 4.3027.
    found = interval_of([1.0, e, e**2])
    assert found is not None
    assert (log(found.low), log(found.high)) == pytest.approx((1 - 2.4842, 1 + 2.4842), abs=1e-4)
    assert mean_of_starts([1.0, e, e**2]) == pytest.approx(e)


@pytest.mark.parametrize(
    ("first", "other", "middle", "half"),
    [
        # Equal spreads of three each: 4 degrees, t = 2.7764, a standard error of √(2/3).
        ((1.0, e, e**2), (e**3, e**4, e**5), -3.0, 2.7764 * (2 / 3) ** 0.5),
        # One side does not vary: the 2 degrees of the other, t = 4.3027.
        ((1.0, e, e**2), (e**5, e**5, e**5), -4.0, 4.3027 * (1 / 3) ** 0.5),
    ],
)
def test_the_interval_of_a_ratio_is_welchs(
    first: tuple[float, ...], other: tuple[float, ...], middle: float, half: float
) -> None:
    found = ratio_interval(first, other)
    assert found is not None
    ends = (log(found.low), log(found.high))
    assert ends == pytest.approx((middle - half, middle + half), abs=1e-3)


def test_starts_that_agree_leave_nothing_uncertain() -> None:
    found = ratio_interval([8.0, 8.0], [4.0, 4.0, 4.0])
    assert found is not None
    assert (found.low, found.high) == pytest.approx((2.0, 2.0))


def test_pairs_cancel_what_starts_have_in_common() -> None:
    # Ratios 1.1, 1.1, 1.1 of starts that differ by factors of 2.
    found = paired_interval([1.1, 2.2, 4.4], [1.0, 2.0, 4.0])
    assert found is not None
    assert (found.low, found.high) == pytest.approx((1.1, 1.1))
    unpaired = ratio_interval([1.1, 2.2, 4.4], [1.0, 2.0, 4.0])
    assert unpaired is not None
    assert not unpaired.excludes_one


def test_the_spread_is_the_deviation_of_the_logarithm() -> None:
    assert spread([1.0, e, e**2]) == pytest.approx(1.0)


def test_starts_needed_are_the_fewest_that_would_name_a_winner() -> None:
    # ln 1.05 = 0.04879. Nine a side: t of 16 degrees 2.120 · 0.05 · √(2/9) = 0.0500; ten: t of 18
    # degrees 2.101 · 0.05 · √(2/10) = 0.0470.
    assert starts_needed(1.05, (0.05, 0.05)) == 10
    assert starts_needed(1 / 1.05, (0.05, 0.05)) == 10
    assert starts_needed(2.0, (0.0, 0.0)) == 2
    assert starts_needed(1.0001, (0.1, 0.1)) is None


def test_the_half_width_of_a_ratio_shrinks_with_starts() -> None:
    # Three: 2.776 · 0.1 · √(2/3) = 0.2267, sinh 0.2286.
    # Five: 2.306 · 0.1 · √(2/5) = 0.1458, sinh 0.1464.
    assert half_width(0.1, 3) == pytest.approx(0.2286, abs=1e-4)
    assert half_width(0.1, 5) == pytest.approx(0.1464, abs=1e-4)


@pytest.mark.parametrize("starts", [2, 3, 5])
def test_an_interval_of_few_starts_holds_the_truth_in_95_of_100(starts: int) -> None:
    # Two thousand systems whose starts differ by 10 % (one standard deviation) around 100.
    drawn = 100.0 * np.exp(0.1 * np.random.default_rng(5).standard_normal((2000, starts)))
    found = [interval_of(list(row)) for row in drawn]
    held = [each is not None and each.low <= 100.0 <= each.high for each in found]
    assert np.mean(held) == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize(
    ("found", "apart"),
    [
        (Interval(1.01, 1.2), True),
        (Interval(0.8, 0.99), True),
        (Interval(0.99, 1.01), False),
        (Interval(1.0, 1.0), False),
        (None, False),
    ],
)
def test_two_runs_are_told_apart_by_an_interval_without_1(
    found: Interval | None, apart: bool
) -> None:
    assert Ratio("b", 1.1, found, None, None).told_apart == apart


# --- runs on disk --------------------------------------------------------------------------------

THREE = tuple(
    Level(16, 50.0, throughput, start=n)
    for n, throughput in enumerate((9_900.0, 10_000.0, 10_100.0), 1)
)
FASTER = Level(12, 100.0, 5_000.0)


def run_of(path: Path, *levels: Level) -> Run:
    return read_run(make_run(path, levels))


def curve(path: Path, *levels: Level, target: float = 50.0) -> Curve:
    return curve_of(run_of(path, *levels), (target,))


def test_a_level_of_several_starts_is_one_point_of_the_curve_and_has_an_interval(
    tmp_path: Path,
) -> None:
    found = curve(tmp_path / "r", FASTER, *THREE)
    assert [point.concurrency for point in found.points] == [12, 16]
    # The cube root of 9,900 · 10,000 · 10,100 is 9,999.67.
    assert found.points[1].throughput == pytest.approx(9_999.67, abs=0.1)
    assert [list(starts) for starts in found.starts.values()] == [[1], [1, 2, 3]]
    assert list(found.intervals) == [16]
    # Logarithms −0.01005, 0, 0.00995: a deviation of 0.0100, over √3 and times 4.3027 is 0.02484.
    throughput = found.intervals[16].throughput
    assert throughput.low == pytest.approx(9_999.67 * exp(-0.02484), rel=1e-4)
    assert throughput.high == pytest.approx(9_999.67 * exp(0.02484), rel=1e-4)


def test_each_start_is_interpolated_by_itself(tmp_path: Path) -> None:
    # Start 1 at 50: half way from (60, 4,000) to (40, 6,000), 5,000. Start 2: half way from
    # (70, 5,000) to (30, 11,000), 8,000. Their geometric mean is √(5,000 · 8,000) = 6,324.6; on the
    # mean curve there would be another value.
    levels = (
        Level(12, 60.0, 4000.0, start=1), Level(16, 40.0, 6000.0, start=1),
        Level(12, 70.0, 5000.0, start=2), Level(16, 30.0, 11_000.0, start=2),
    )  # fmt: skip
    (value,) = curve(tmp_path / "r", *levels).values
    assert value.values == pytest.approx([5000.0, 8000.0], rel=1e-4)
    assert value.throughput == pytest.approx(6324.6, rel=1e-4)
    assert value.between == (12, 16)
    assert value.interval is not None
    # ln 8/5 = 0.470; of two: 12.706 · 0.470/2.
    assert log(value.interval.high / value.interval.low) == pytest.approx(12.706 * 0.470, rel=1e-3)


def test_a_start_that_is_not_valid_is_not_in_the_mean(tmp_path: Path) -> None:
    failed = Level(16, 50.0, 10_100.0, status=Status.FAILED, start=3)
    found = curve(tmp_path / "r", *THREE[:2], failed)
    assert found.points[0].throughput == pytest.approx((9_900.0 * 10_000.0) ** 0.5, rel=1e-6)
    assert list(found.starts[16]) == [1, 2]


def contenders(path: Path, first: tuple[Level, ...], other: tuple[Level, ...]) -> list[Contender]:
    return [
        Contender(name, run_of(path / name, *levels), None, None)
        for name, levels in (("a", first), ("b", other))
    ]


def compared(path: Path, first: tuple[Level, ...], other: tuple[Level, ...]) -> Ratio:
    return compare(contenders(path, first, other), (50.0,)).targets[0].ratios[0]


def scaled(levels: tuple[Level, ...], factor: float) -> tuple[Level, ...]:
    return tuple(replace(each, throughput=each.throughput * factor) for each in levels)


def test_a_ratio_has_welchs_interval_and_a_winner_outside_it(tmp_path: Path) -> None:
    ratio = compared(tmp_path, scaled(THREE, 1.25), THREE)
    assert ratio.throughput == pytest.approx(1.25, rel=1e-4)
    # Two spreads of 0.0100: 2.776 · 0.0100 · √(2/3) = 0.02267.
    assert ratio.interval is not None
    assert ratio.interval.low == pytest.approx(1.25 * exp(-0.02267), rel=1e-4)
    assert ratio.told_apart
    assert ratio.spreads == pytest.approx((0.0100, 0.0100), abs=1e-5)
    assert ratio.starts_needed == 2


def test_a_ratio_within_it_says_how_many_starts_would_name_a_winner(tmp_path: Path) -> None:
    ratio = compared(tmp_path, scaled(THREE, 1.02), THREE)
    assert not ratio.told_apart
    # ln 1.02 = 0.0198. Three: 0.0227; four: t of 6 degrees 2.447 · 0.01 · √(2/4) = 0.0173.
    assert ratio.starts_needed == 4


def test_one_start_a_side_names_no_winner_however_far_apart(tmp_path: Path) -> None:
    ratio = compared(tmp_path, scaled(THREE[:1], 9.0), THREE[:1])
    assert ratio.throughput == pytest.approx(9.0, rel=1e-4)
    assert (ratio.interval, ratio.no_interval, ratio.told_apart) == (None, "1 start", False)
    assert (ratio.spreads, ratio.starts_needed) == ((None, None), None)


def test_runs_of_unequal_starts_are_compared_by_those_that_both_have(tmp_path: Path) -> None:
    both = contenders(tmp_path, scaled(THREE, 1.25), THREE[:2])
    for paired in (False, True):
        found = compare(both, (50.0,), paired=paired)
        assert found.starts_left_out == ((3,), ())
        assert found.contenders[0].run.left_out == {}  # a start that is not compared is not missing
        assert found.did_same_work
        assert [len(value.values) for value in found.targets[0].values] == [2, 2]
        assert found.targets[0].ratios[0].throughput == pytest.approx(1.25, rel=1e-4)


def test_runs_without_a_common_start_are_not_paired(tmp_path: Path) -> None:
    both = contenders(tmp_path, THREE[:1], THREE[1:])
    with refuses("starts-not-paired", "b", "a"):
        compare(both, (50.0,), paired=True)
    found = compare(both, (50.0,))
    assert (found.did_same_work, found.starts_left_out) == (False, ((), ()))


def test_equal_starts_are_paired_on_demand(tmp_path: Path) -> None:
    both = contenders(tmp_path, scaled(THREE, 1.005), THREE)
    (unpaired,), (paired,) = (
        compare(both, (50.0,), paired=how).targets[0].ratios for how in (False, True)
    )
    assert (unpaired.told_apart, paired.told_apart) == (False, True)


def test_a_level_whose_starts_played_other_plans_is_no_equal(tmp_path: Path) -> None:
    mixed = (THREE[0], Level(16, 50.0, 10_000.0, start=2, plan="another"))
    assert not compare(contenders(tmp_path, mixed, THREE[:2]), (50.0,)).did_same_work

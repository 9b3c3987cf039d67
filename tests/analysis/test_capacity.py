"""The capacity read off levels: crossings, starts, bounds, and what breaks first."""

from math import exp, log

import pytest

from agentx_replay.analysis.capacity import Capacity, Outcome, capacity_of
from agentx_replay.analysis.objective import objective_of
from agentx_replay.results.layout import Measurement

ITL_AND_TTFT = objective_of("itl:p90<=10ms,ttft:p95<=5s")


def level(
    concurrency: int,
    itl: float | None,
    ttft: float = 0.1,
    start: int = 1,
    trouble: str | None = None,
) -> Outcome:
    """A level at which ITL and TTFT are so many times their bounds; None: stopped early."""
    of = Measurement(concurrency, start)
    if itl is None:
        return Outcome(of, (None,) * 4, stopped_early="stopped early")
    return Outcome(of, (log(itl), log(ttft), log(0.01), log(0.01)), trouble=trouble)


def found(*levels: Outcome) -> Capacity:
    return capacity_of(levels, ITL_AND_TTFT)


def test_the_crossing_is_interpolated_in_the_logarithms() -> None:
    # From 0.5 to 2 times the bound the crossing is halfway: the geometric mean of 16 and 64.
    one = found(level(16, 0.5), level(64, 2.0))
    assert one.agents == pytest.approx(32.0)
    assert (one.interval, one.no_interval) == (None, "1 start")
    assert (one.at_least, one.below, one.monotone) == (16, 64, True)


def test_starts_give_a_geometric_mean_and_three_of_them_students_interval() -> None:
    # Crossings at 32, 32·e^0.2 and 32·e^0.4: the mean 32·e^0.2, t of two degrees 4.303·0.2/√3.
    starts = [
        (level(16, 0.5 * exp(-shift), start=n), level(64, 2 * exp(-shift), start=n))
        for n, shift in ((1, 0.0), (2, 0.2), (3, 0.4))
    ]
    two, three = found(*starts[0], *starts[1]), found(*starts[0], *starts[1], *starts[2])
    assert (two.interval, two.no_interval) == (None, "2 starts")
    assert two.agents == pytest.approx(32 * exp(0.1), rel=1e-6)
    assert three.agents == pytest.approx(32 * exp(0.2), rel=1e-6)
    assert three.interval is not None
    assert three.interval.high == pytest.approx(32 * exp(0.2 + 0.49686), rel=1e-4)


def test_what_all_starts_agree_on_lies_on_both_sides_of_every_crossing() -> None:
    # Start 2 keeps it at 10 again, above the crossing at 5 that counts: 10 is not proven.
    one = [level(4, 0.5), level(10, 0.8), level(16, 2.0)]
    again = [level(4, 0.8, start=2), level(6, 1.2, start=2), level(10, 0.9, start=2)]
    both = found(*one, *again, level(16, 2.0, start=2))
    assert (both.at_least, both.below) == (4, 16)


def test_the_worst_clause_counts_and_the_next_is_named() -> None:
    # TTFT from 0.9 to 1.8: crosses at 16·4^(ln(1/0.9)/ln 2) = 16·4^0.152 = 19.75.
    one = found(level(16, 0.5, 0.9), level(64, 2.0, 1.8))
    assert one.binding is not None
    (other,) = one.others
    assert (one.binding.clause.name, other.clause.name) == ("ttft:p95", "itl:p90")
    assert one.binding.reached_at == pytest.approx(19.75, abs=0.01)
    assert other.reached_at == pytest.approx(32.0)


def test_levels_one_apart_give_a_whole_number_of_agents() -> None:
    assert found(level(2, 0.5), level(3, 2.0)).agents == 2.0
    assert found(level(29, 0.5), level(30, 2.0)).agents == pytest.approx(29.5, abs=0.01)


def test_where_a_curve_crosses_more_than_once_the_lowest_counts_and_all_are_named() -> None:
    one = found(level(16, 0.5), level(24, 2.0), level(32, 0.5), level(64, 2.0))
    assert one.agents == pytest.approx((16 * 24) ** 0.5)
    assert (one.monotone, len(one.starts[0].crossings)) == (False, 3)


def test_a_range_that_does_not_bracket_gives_a_bound() -> None:
    high, low = found(level(8, 0.5), level(16, 0.9)), found(level(8, 1.5), level(16, 2.0))
    assert (high.agents, high.at_least, high.below) == (None, 16, None)
    assert (low.agents, low.at_least, low.below) == (None, None, 8)
    assert found().agents is None


def test_one_start_without_a_crossing_leaves_a_bound() -> None:
    one = found(level(16, 0.5), level(64, 2.0), level(16, 0.5, start=2), level(64, 0.9, start=2))
    assert (one.agents, one.at_least, one.below) == (None, 16, None)


def test_a_level_that_was_stopped_early_bounds_and_is_not_interpolated() -> None:
    one = found(level(16, 0.5), level(64, None))
    assert (one.agents, one.at_least, one.below) == (None, 16, 64)
    beyond = found(level(16, 0.5), level(64, 2.0), level(128, None))
    assert beyond.agents == pytest.approx(32.0)


def test_a_level_that_cannot_be_judged_says_nothing() -> None:
    one = found(level(16, 0.5), level(32, 2.0, trouble="no usage"), level(64, 2.0))
    assert one.agents == pytest.approx(32.0)
    assert one.trouble is not None
    assert one.trouble.measurement.concurrency == 32

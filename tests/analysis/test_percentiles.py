import numpy as np
import pytest

from agentx_replay.analysis.percentiles import Tally, distribution, percentiles, spread

MS = 1_000_000


def test_p90_of_900_gaps_of_20_ms_and_100_of_200_ms_is_38_ms_by_linear_interpolation() -> None:
    # Rank 0.9 · 999 = 899.1: value 899 is 20, value 900 is 200; 20 + 0.1 · 180 = 38.
    # The simplified rule sorted[int(n · 0.9)] takes value 900: 200.
    gaps = np.array([20.0] * 900 + [200.0] * 100)
    assert percentiles(gaps, (0.9,)) == [pytest.approx(38.0)]
    assert sorted(gaps)[int(len(gaps) * 0.9)] == 200.0


def test_a_weight_counts_as_so_many_equal_values() -> None:
    assert percentiles(np.array([200.0, 20.0]), (0.9,), np.array([100.0, 900.0])) == [
        pytest.approx(38.0)
    ]


@pytest.mark.parametrize(
    ("values", "weights", "share", "expected"),
    [
        ([5.0], [1.0], 0.9, 5.0),
        ([5.0], [0.25], 0.5, 5.0),
        ([1.0, 2.0], [1.0, 1.0], 0.5, 1.5),
        ([1.0, 2.0, 3.0], [1.0, 1.0, 2.0], 1.0, 3.0),
        # 1, 2.5 twice… the rank 0.5 · (4 − 1) = 1.5 lies between two equal values.
        ([1.0, 2.5, 9.0], [1.0, 2.0, 1.0], 0.5, 2.5),
        # Two and a half tokens a value: rank 0.5 · (5 − 1) = 2 is still the first value.
        ([1.0, 2.0], [2.5, 2.5], 0.5, 1.0),
    ],
)
def test_weighted_percentiles(
    values: list[float], weights: list[float], share: float, expected: float
) -> None:
    (found,) = percentiles(np.array(values), (share,), np.array(weights))
    assert found == pytest.approx(expected)


def test_a_distribution_is_in_seconds() -> None:
    found = distribution(np.array([10.0, 20.0, 30.0, 40.0, 50.0]) * MS)
    assert found is not None
    assert found.count == 5
    assert found.mean_s == pytest.approx(0.030)
    assert found.p50_s == pytest.approx(0.030)
    assert found.p90_s == pytest.approx(0.046)  # rank 3.6: 40 + 0.6 · 10
    assert found.p95_s == pytest.approx(0.048)  # rank 3.8
    assert found.p99_s == pytest.approx(0.0496)  # rank 3.96
    assert found.max_s == pytest.approx(0.050)


def test_nothing_has_no_distribution() -> None:
    assert distribution(np.empty(0)) is None
    assert distribution(np.empty(0), np.empty(0)) is None


def test_a_tally_has_the_distribution_of_all_it_was_told() -> None:
    tally = Tally()
    tally.add(np.array([30.0, 10.0, 30.0]) * MS)
    tally.add(np.array([20.0, 10.0]) * MS, np.array([2.0, 1.0]))
    values, weights = tally.seen()
    assert (values / MS).tolist() == [10, 20, 30]
    assert weights.tolist() == [2, 2, 2]
    found = distribution(*tally.seen())
    assert found is not None
    assert (found.count, found.max_s) == (6, 0.03)
    assert found.mean_s == pytest.approx(0.02)
    assert found.p50_s == pytest.approx(0.02)  # rank 2.5: between 20 and 20
    assert found.p90_s == pytest.approx(0.03)  # rank 4.5
    assert distribution(*Tally().seen()) is None


def test_a_tally_of_more_values_than_it_may_hold_rounds_them_to_17_bits() -> None:
    # Whole numbers from 2**30 on: 16 from 2**30 + 2**14·k on round to one of 2**13 apart.
    tally = Tally()
    for first in range(1 << 30, (1 << 30) + (1 << 21), 1 << 19):
        tally.add(np.arange(first, first + (1 << 19), dtype=float))
    values, weights = tally.seen()
    assert len(values) == 129
    assert (values % (1 << 14)).tolist() == [0.0] * 129
    assert weights.sum() == 1 << 21
    found = distribution(*tally.seen())
    assert found is not None
    assert found.p50_s == pytest.approx(1.0747904, rel=2**-17)  # (2**30 + 2**20) ns


def test_a_tally_of_fewer_values_is_exact_however_often_each_was_seen() -> None:
    tally = Tally()
    for _ in range(8):
        tally.add(np.arange(1 << 19, dtype=float))
    values, weights = tally.seen()
    assert len(values) == 1 << 19
    assert set(weights.tolist()) == {8.0}


def test_a_spread_ends_at_what_a_single_observation_makes() -> None:
    found = spread(np.linspace(0.0, 99.0, 100) * 1e9)
    assert found is not None
    assert found.shares[0] == 0.0
    assert found.shares[-1] == pytest.approx(0.99)
    assert found.values_s[-1] == pytest.approx(0.99 * 99)
    assert (np.diff(found.values_s) > 0).all()
    assert spread(np.empty(0)) is None

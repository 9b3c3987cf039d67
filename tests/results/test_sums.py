import numpy as np

from agentx_replay.results.sums import MERGE_VALUES, Sums, summed


def test_equal_values_are_counted_together_and_rise() -> None:
    values, weights = summed(np.array([3.0, 1.0, 3.0, 2.0]))
    assert (values.tolist(), weights.tolist()) == ([1, 2, 3], [1, 1, 2])


def test_a_weight_counts_as_so_many() -> None:
    values, weights = summed(np.array([3.0, 1.0, 3.0]), np.array([0.5, 4.0, 0.25]))
    assert (values.tolist(), weights.tolist()) == ([1, 3], [4, 0.75])


def test_nothing_is_no_value() -> None:
    for weights in (None, np.empty(0)):
        assert [part.tolist() for part in summed(np.empty(0), weights)] == [[], []]
    assert [part.tolist() for part in Sums().seen()] == [[], []]


def test_what_is_held_goes_by_different_values_not_by_how_many_were_counted() -> None:
    sums = Sums()
    for _ in range(40):
        sums.add(np.tile(np.arange(10_000.0), 10))
        assert sums.held_values <= 10_000 + MERGE_VALUES + 10_000
    values, weights = sums.seen()
    assert values.tolist() == list(range(10_000))
    assert set(weights.tolist()) == {400.0}


def test_values_that_wait_are_merged_once_they_are_as_many_as_those_merged() -> None:
    sums = Sums()
    for start in range(0, 8 * MERGE_VALUES, MERGE_VALUES // 2):
        sums.add(np.arange(start, start + MERGE_VALUES // 2, dtype=float))
        so_far = start + MERGE_VALUES // 2
        assert sums.held_values == so_far
    assert len(sums.seen()[0]) == 8 * MERGE_VALUES

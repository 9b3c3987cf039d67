import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from record_cases import SECOND, dispatch, recorded, response

from agentx_replay.analysis.bootstrap import (
    Interval,
    LevelSample,
    Replicates,
    draw,
    drawn_percentile,
    interval,
    level_sample,
    replicate,
    replicates_at,
    tail,
)
from agentx_replay.analysis.frontier import CurvePoint, throughput_at
from agentx_replay.analysis.metrics import summarise
from agentx_replay.analysis.window import Window

WINDOW = Window(0, 100 * SECOND, 900.0)
SHORT = Window(0, 22 * SECOND, 22.0)
INF, NAN = np.inf, np.nan


def names(count: int) -> tuple[str, ...]:
    return tuple(f"session {k}" for k in range(count))


# --- drawing -------------------------------------------------------------------------------------


def test_a_level_draws_as_many_clusters_as_it_has_with_replacement() -> None:
    (drawn,) = draw([names(12)], replicates=500)
    assert drawn.shape == (500, 12)
    assert (drawn.sum(axis=1) == 12).all()
    assert drawn.max() > 1
    # Each of 6,000 draws names a cluster with probability 1/12: 500 ± 5 · √(6,000 · 1/12 · 11/12).
    assert np.abs(drawn.sum(axis=0) - 500).max() < 5 * 21.4


def test_the_same_clusters_are_drawn_for_the_same_names_and_again_for_the_same_seed() -> None:
    one, other = draw([names(20), names(20)], replicates=50)
    assert (one == other).all()
    assert (draw([names(20)], replicates=50)[0] == one).all()
    assert (draw([names(20)], replicates=50, seed=1)[0] != one).any()


def test_a_smaller_level_takes_the_draws_that_name_its_clusters_and_fills_up_with_its_own() -> None:
    large, small = draw([names(32), names(12)], replicates=400)
    assert (small.sum(axis=1) == 12).all()
    shared = large[:, :12]
    enough = shared.sum(axis=1) >= 12
    assert 0 < enough.sum() < 400
    assert (small[enough] <= shared[enough]).all()
    assert (small[~enough] >= shared[~enough]).all()


def test_other_clusters_are_drawn_independently() -> None:
    one, other = draw([("a", "b", "c"), ("x", "y", "z")], replicates=4000)
    assert (other.sum(axis=1) == 3).all()
    # Correlation of two independent columns over 4,000 replicates: within 5/√4,000.
    assert abs(np.corrcoef(one[:, 0], other[:, 0])[0, 1]) < 0.08


def test_drawing_takes_no_more_memory_than_four_times_what_is_drawn() -> None:
    tracemalloc.start()
    try:
        (drawn,) = draw([names(500)], replicates=2000)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4 * drawn.nbytes


# --- percentiles of what was drawn ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("drawn", "share", "expected"),
    [
        ([1, 1], 0.5, 2.5),  # 1 2 3 4: rank 1.5
        ([2, 0], 0.5, 1.5),  # 1 1 2 2
        ([0, 2], 0.9, 4.0),  # 3 3 4 4: rank 2.7, both 4
        ([1, 2], 0.9, 4.0),  # 1 2 3 3 4 4: rank 4.5
        ([3, 1], 0.9, 3.3),  # 1 1 1 2 2 2 3 4: rank 6.3
        ([0, 0], 0.9, NAN),
    ],
)
def test_a_value_counts_as_often_as_its_cluster_was_drawn(
    drawn: list[int], share: float, expected: float
) -> None:
    values, cluster = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 0, 1, 1])
    found = drawn_percentile(values, cluster, np.array([drawn]), share)
    assert found.tolist() == pytest.approx([expected], nan_ok=True)


def test_the_percentile_is_that_of_the_values_written_out() -> None:
    rng = np.random.default_rng(3)
    values, cluster = np.sort(rng.lognormal(size=1000)), rng.integers(0, 9, 1000)
    (drawn,) = draw([names(9)], replicates=300)
    found = drawn_percentile(values, cluster, drawn, 0.9)
    for row, value in zip(drawn, found, strict=True):
        assert value == pytest.approx(np.quantile(np.repeat(values, row[cluster]), 0.9))


def test_no_value_is_no_percentile() -> None:
    assert np.isnan(
        drawn_percentile(np.empty(0), np.empty(0, int), np.ones((3, 2), int), 0.9)
    ).all()


# --- a level -------------------------------------------------------------------------------------


def lanes(first: dict[int, str], sent_by: tuple[int, ...], window: Window = WINDOW) -> LevelSample:
    """Lane k sends at k s; its 11 tokens come every 0.1·(k + 1) s from 10 s on, until 20 s + k."""
    pairs = [
        (
            dispatch(lane=k, max_tokens=11),
            response(
                send_ns=k * SECOND,
                arrival_ns=[10 * SECOND, (11 + k) * SECOND],
                end_ns=(20 + k) * SECOND,
                prompt_tokens=100 * (k + 1),
                arrival_tokens=[1, 10],
                completion_tokens=11,
            ),
        )
        for k in sent_by
    ]
    return level_sample(recorded(pairs).responses, window, 4, first)


def test_lanes_of_the_same_first_session_are_one_cluster() -> None:
    sample = lanes({0: "a", 1: "b", 2: "a", 3: "c"}, (0, 1, 2, 3))
    assert sample.clusters == ("a", "b", "c")
    assert sample.lanes.tolist() == [2, 1, 1]
    assert sample.tokens.tolist() == [111 + 311, 211, 411]
    assert sample.itl_ns.tolist() == pytest.approx([0.1e9, 0.2e9, 0.3e9, 0.4e9])
    assert sample.itl_cluster.tolist() == [0, 1, 0, 2]


def test_a_lane_that_sent_nothing_is_work_of_no_token() -> None:
    sample = lanes({0: "a", 1: "b", 3: "c"}, (0, 1, 3))
    assert sample.clusters == ("a", "b", "lane 2", "c")
    assert sample.tokens.tolist() == [111, 211, 0, 411]


def test_a_replicate_scales_throughput_to_the_lanes_of_the_level() -> None:
    sample = lanes({0: "a", 1: "b", 2: "a", 3: "c"}, (0, 1, 2, 3))
    found = replicate(sample, np.array([[1, 1, 1], [3, 0, 0], [0, 0, 3]]))
    assert found.throughput.tolist() == pytest.approx(
        [
            1044 / 23,  # all of it: 111 + 211 + 311 + 411 from 0 s to 23 s
            4 / 6 * 3 * 422 / 22,  # a three times: 6 lanes for 4, from 0 s to 22 s
            4 / 3 * 3 * 411 / 20,  # c three times: 3 lanes for 4, from 3 s to 23 s
        ]
    )
    # P90 of 0.1 0.2 0.3 0.4: rank 2.7; of three times 0.1 and 0.3: 0.3; of 0.4 alone.
    assert found.interactivity.tolist() == pytest.approx([1 / 0.37, 1 / 0.3, 1 / 0.4])


def test_in_a_short_window_a_replicate_counts_the_tokens_that_came_in_it() -> None:
    sample = lanes({}, (0, 1, 2, 3), replace(SHORT, close_ns=13 * SECOND))
    # Closed at 13 s: all 11 of lanes 0 to 2, which have ended by then, and of lane 3 3 / 4 of 11.
    assert sample.tokens.tolist() == pytest.approx([111, 211, 311, 400 + 8.25])
    found = replicate(sample, np.array([[1, 1, 1, 1], [0, 0, 0, 4]]))
    assert found.throughput.tolist() == pytest.approx([1041.25 / 13, 4 * 408.25 / 13])


@pytest.mark.parametrize("window", [WINDOW, SHORT])
def test_the_replicate_that_draws_every_cluster_once_is_the_point_itself(window: Window) -> None:
    pairs = [
        (
            dispatch(lane=k, max_tokens=3),
            response(arrival_ns=[SECOND, (2 + k) * SECOND], completion_tokens=3, end_ns=9 * SECOND),
        )
        for k in range(5)
    ]
    records = recorded(pairs)
    summary = summarise(records, window, 5)
    sample = level_sample(records.responses, window, 5, {})
    found = replicate(sample, np.ones((1, 5), np.int64))
    assert summary.rates.headline is not None
    assert found.interactivity[0] == pytest.approx(summary.interactivity)
    assert found.throughput[0] == pytest.approx(summary.rates.headline.total_tokens_per_s)


def test_a_replicate_of_silent_lanes_measures_nothing() -> None:
    found = replicate(lanes({}, (0,)), np.array([[0, 4, 0, 0]]))
    assert np.isnan(found.interactivity).all()
    assert np.isnan(found.throughput).all()


# --- at a target ---------------------------------------------------------------------------------


def level(concurrency: int, *pairs: tuple[float, float]) -> Replicates:
    speeds, throughputs = (np.array(each) for each in zip(*pairs, strict=True))
    return Replicates(concurrency, 12, speeds, throughputs)


CURVES = [
    ((100.0, 10.0), (60.0, 30.0), (20.0, 40.0)),  # between the last two
    ((100.0, 10.0), (50.0, 30.0), (20.0, 40.0)),  # a point itself
    ((100.0, 10.0), (40.0, 34.0), (90.0, 60.0)),  # passed twice: the highest
    ((50.0, 7.0), (50.0, 9.0), (20.0, 1.0)),  # two points at it
]


def test_every_replicate_is_interpolated_by_the_rule_of_the_curve() -> None:
    levels = [level(8 * 2**k, *(curve[k] for curve in CURVES)) for k in range(3)]
    points = [[CurvePoint(8 * 2**k, *pair) for k, pair in enumerate(curve)] for curve in CURVES]
    expected = [throughput_at(each, 50.0).throughput for each in points]
    assert replicates_at(levels, 50.0).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [
        ((40.0, 30.0), -INF),  # all too slow: less than was measured
        ((90.0, 60.0), INF),  # all faster: more than was measured
        ((NAN, 60.0), INF),
        ((NAN, 40.0), -INF),
        ((NAN, NAN), NAN),
    ],
)
def test_a_replicate_that_misses_the_target_says_on_which_side(
    speeds: tuple[float, float], expected: float
) -> None:
    levels = [level(8 + k, (speed, 1.0)) for k, speed in enumerate(speeds)]
    assert replicates_at(levels, 50.0).tolist() == pytest.approx([expected], nan_ok=True)


# --- intervals -----------------------------------------------------------------------------------


MANY = 10**9
"""Clusters so many that Student's t is the normal distribution."""


def values(finite: int, below: int = 0, above: int = 0, unknown: int = 0) -> list[float]:
    return [-INF] * below + [INF] * above + [NAN] * unknown + [float(k) for k in range(finite)]


@pytest.mark.parametrize(
    ("replicates", "low", "high"),
    [
        (values(1021), 25.0, 995.0),  # ranks 25.5 and 994.5 of 0 … 1,020, outwards
        (values(1001, below=20), 5.0, 975.0),  # 2.0 % below: still two bounds
        (values(991, below=30), None, 965.0),  # 2.9 % below: only "at most"
        (values(991, above=30), 25.0, None),  # 2.9 % above: only "at least"
        (values(991, unknown=30), None, None),  # who knows on which side
        (values(961, below=30, above=30), None, None),
    ],
)
def test_of_many_clusters_it_holds_the_middle_95_percent_and_is_open_where_values_are_missed(
    replicates: list[float], low: float | None, high: float | None
) -> None:
    assert interval(np.array(replicates), MANY) == Interval(low, high)


@pytest.mark.parametrize(
    ("clusters", "t", "expected"),
    [
        (10, 2.262, 0.00855),  # 2.262 · √(10/9) = 2.3844
        (32, 2.040, 0.01911),  # 2.040 · √(32/31) = 2.0726
        (MANY, 1.960, 0.02500),
    ],
)
def test_of_few_clusters_it_reaches_as_much_further_as_students_t(
    clusters: int, t: float, expected: float
) -> None:
    # t from tables; the share of the normal distribution beyond t · √(n/(n − 1)) likewise.
    assert tail(clusters) == pytest.approx(expected, abs=2e-5), t


def test_the_interval_of_10_clusters_is_wider_than_that_of_many() -> None:
    replicates = np.arange(1001.0)
    assert interval(replicates, 10) == Interval(8.0, 992.0)  # ranks 8.55 and 991.45

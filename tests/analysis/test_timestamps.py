"""How far late timestamps can move a level's P90 ITL and TTFT: never less than they did."""

import numpy as np
import pytest
from record_cases import MS, dispatch, recorded, response
from stalled_workers import drawn

from agentx_replay.analysis.lag import Samples
from agentx_replay.analysis.timestamps import (
    itl_shift,
    recorded_intervals,
    ttft_shift,
    widened_by_lag,
)


def shifts(*responses: dict[str, object]) -> tuple[float | None, float | None]:
    """How far the P90 ITL and the P90 TTFT of some responses may be off."""
    ok = recorded([(dispatch(), response(**each)) for each in responses]).responses
    intervals = recorded_intervals(ok)
    return itl_shift(ok, intervals), ttft_shift(ok, intervals)


def test_exact_timestamps_move_nothing() -> None:
    assert shifts({"arrival_ns": [50 * MS, 2_050 * MS], "completion_tokens": 101}) == (0, 0)


def test_an_uncertain_first_token_makes_the_itl_longer_and_the_ttft_shorter() -> None:
    # 100 gaps in 2 s: 20 ms. 40 ms earlier: 20.4 ms, +2 %. TTFT 50 ms, or 10: 80 % of it.
    came = {"arrival_ns": [50 * MS, 2_050 * MS], "completion_tokens": 101}
    itl, ttft = shifts(came | {"first_token_uncertainty_ns": 40 * MS})
    assert itl == pytest.approx(0.02)
    assert ttft == pytest.approx(0.8)


def test_an_uncertain_last_token_makes_the_itl_shorter_and_leaves_the_ttft() -> None:
    came = {"arrival_ns": [50 * MS, 2_050 * MS], "completion_tokens": 101}
    itl, ttft = shifts(came | {"last_token_uncertainty_ns": 60 * MS})
    assert itl == pytest.approx(0.03)
    assert ttft == 0


def test_the_larger_of_both_ends_counts_and_not_their_sum() -> None:
    came = {"arrival_ns": [50 * MS, 2_050 * MS], "completion_tokens": 101}
    ends = {"first_token_uncertainty_ns": 40 * MS, "last_token_uncertainty_ns": 60 * MS}
    assert shifts(came | ends)[0] == pytest.approx(0.03)


def test_a_body_that_waited_for_the_client_widens_the_ttft_alone() -> None:
    came = {"arrival_ns": [50 * MS, 2_050 * MS], "completion_tokens": 101}
    itl, ttft = shifts(came | {"send_uncertainty_ns": 5 * MS})
    assert itl == 0
    assert ttft == pytest.approx(0.1)


def test_a_few_wide_intervals_do_not_move_a_p90() -> None:
    # Of 21 responses the last two, the slowest, are above the 90th percentile, rank 18.
    usual = [
        {"arrival_ns": [50 * MS, (1_050 + k) * MS], "completion_tokens": 101} for k in range(19)
    ]
    slow = {"arrival_ns": [60 * MS, 9_060 * MS], "completion_tokens": 101}
    wide = slow | {"first_token_uncertainty_ns": 30 * MS, "last_token_uncertainty_ns": 900 * MS}
    itl, _ = shifts(*usual, wide, wide)
    assert itl == 0


def test_a_response_that_a_late_client_read_all_at_once_had_an_itl_of_up_to_its_interval() -> None:
    # ITL of 10, 20, …, 100 ms: P90 at rank 8.1, 91 ms. One more, of 0 to 100 ms (10 gaps in 1 s):
    # rank 9 of eleven is 90 ms where it was 0, and 100 where it was 100.
    usual = [
        {"arrival_ns": [(50 + 10 * k * j) * MS for j in range(11)], "completion_tokens": 11}
        for k in range(1, 11)
    ]
    at_once = {"arrival_ns": [2_000 * MS] * 11, "completion_tokens": 11}
    itl, _ = shifts(*usual, at_once | {"first_token_uncertainty_ns": 1_000 * MS})
    assert itl == pytest.approx(9 / 91)
    assert shifts(*usual, at_once)[0] == 0  # somebody else gathered it: no fault of the client


def test_without_responses_there_is_no_shift_to_tell() -> None:
    assert shifts({}) == (None, None)
    at_once = {"arrival_ns": [0, 0], "first_token_uncertainty_ns": 1}
    assert shifts(at_once) == (None, None)


def test_the_processs_own_timestamps_are_as_late_as_its_loop_may_have_been() -> None:
    # The only worker's timer of 60 ms fired at 130: what it stamped at 135 came after 50.
    pairs = [(dispatch(), response(arrival_ns=[135 * MS, 2_135 * MS], completion_tokens=101))]
    ok = recorded(pairs).responses
    at_ns = np.array([40, 50, 130, 140, 2_130, 2_140]) * MS
    lag_ns = np.array([0, 0, 70, 0, 0, 0]) * MS
    samples = Samples(np.zeros(6, np.int64), at_ns, lag_ns, np.zeros(6, np.int64))
    intervals = widened_by_lag(recorded_intervals(ok), ok, samples)
    assert intervals.first_token_ns.tolist() == [85 * MS]
    assert intervals.last_token_ns.tolist() == [0]


def test_the_bound_holds_over_200_drawn_stalls() -> None:
    falsified = 0
    quiet = 0.0005  # what a lag that is above the P99 of a quiet second moves
    for seed in range(200):
        case = drawn(seed, stops_a_worker=1 + seed % 4)
        ok = case.responses
        intervals = widened_by_lag(recorded_intervals(ok), ok, case.samples)
        itl_off, ttft_off = case.off()
        itl, ttft = itl_shift(ok, intervals), ttft_shift(ok, intervals)
        assert itl is not None
        assert ttft is not None
        assert itl_off <= itl + quiet, seed
        assert ttft_off <= ttft + quiet, seed
        falsified += max(itl_off, ttft_off) > 0.025
    assert falsified > 50, falsified


def test_no_quiet_run_is_refused() -> None:
    for seed in range(20):
        case = drawn(seed, stops_a_worker=0)
        ok = case.responses
        intervals = widened_by_lag(recorded_intervals(ok), ok, case.samples)
        assert (itl_shift(ok, intervals) or 0) < 0.001
        assert (ttft_shift(ok, intervals) or 0) < 0.005

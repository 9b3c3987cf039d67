"""What lanes alone say of throughput."""

import numpy as np
import pytest
from record_cases import SECOND, dispatch, recorded, response

from agentx_replay.analysis.responses import Window
from agentx_replay.analysis.workload import LaneTokens, lane_tokens, lanes_half_width

WINDOW = Window(0, 100 * SECOND, 100.0)


def lanes(first: dict[int, str], sent_by: tuple[int, ...]) -> LaneTokens:
    """Lane k sends a prompt of 100 (k + 1) tokens and is answered with 11."""
    pairs = [
        (
            dispatch(lane=k, session_id=first[k], max_tokens=11),
            response(
                send_ns=k * SECOND,
                arrival_ns=[10 * SECOND, 11 * SECOND],
                end_ns=20 * SECOND,
                prompt_tokens=100 * (k + 1),
                completion_tokens=11,
            ),
        )
        for k in sent_by
    ]
    return lane_tokens(recorded(pairs).responses, WINDOW, 4)


def test_lanes_of_the_same_first_session_are_one_cluster() -> None:
    found = lanes({0: "a", 1: "b", 2: "a", 3: "c"}, (0, 1, 2, 3))
    assert found.lanes.tolist() == [2, 1, 1]
    assert found.tokens.tolist() == [111 + 311, 211, 411]


def test_a_lane_that_sent_nothing_is_work_of_no_token() -> None:
    found = lanes({0: "a", 1: "b", 3: "c"}, (0, 1, 3))
    assert found.lanes.tolist() == [1, 1, 1, 1]
    assert found.tokens.tolist() == [111, 211, 0, 411]


def test_lanes_that_are_all_alike_leave_nothing_uncertain() -> None:
    assert lanes_half_width(LaneTokens(np.ones(12), np.full(12, 70.0))) == 0.0
    # A cluster of two lanes sends twice as much: drawn more often, it stands for more lanes.
    of_two = LaneTokens(np.array([2.0] * 4 + [1.0] * 8), np.array([20.0] * 4 + [10.0] * 8))
    assert lanes_half_width(of_two) == pytest.approx(0.0)


def test_lanes_that_differ_leave_as_much_uncertain_as_the_mean_of_as_many() -> None:
    # 100 lanes, half of 80 tokens and half of 120: a deviation of 20 % a lane, 2 % of their mean,
    # 1.96 times that at the ends. 2,000 replicates know it to a twentieth or so.
    tokens = np.array([80.0] * 50 + [120.0] * 50)
    assert lanes_half_width(LaneTokens(np.ones(100), tokens)) == pytest.approx(0.0392, rel=0.1)


def test_fewer_than_10_clusters_say_nothing() -> None:
    assert lanes_half_width(LaneTokens(np.ones(9), np.arange(1.0, 10.0))) is None
    assert lanes_half_width(LaneTokens(np.ones(10), np.zeros(10))) is None

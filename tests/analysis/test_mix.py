import numpy as np
import pytest
from record_cases import SECOND, dispatch, prompt, recorded, response

from agentx_replay.analysis.responses import Window, measured, sent_in
from agentx_replay.analysis.workload import largest_gap, mix_of, pooled, summary
from agentx_replay.replay.ports import Phase, Status

WINDOW = Window(0, 10 * SECOND, 10.0)


def test_a_mix_is_of_the_measured_requests_of_the_window() -> None:
    pairs = [
        (dispatch(turn=3, prompt=prompt(200, 150)), response(prompt_tokens=201)),
        (dispatch(turn=4), response(status=Status.FAILED)),
        (dispatch(turn=5, phase=Phase.CACHE_PRESSURE), response()),
        (dispatch(turn=6), response(send_ns=10 * SECOND, end_ns=11 * SECOND)),
    ]
    responses = sent_in(recorded(pairs).responses, WINDOW)
    mix = mix_of(responses.where(measured(responses)))
    assert mix.input_tokens.tolist() == [201]
    assert mix.output_tokens.tolist() == [10]
    assert mix.depth_turns.tolist() == [3]
    assert mix.reuse_share.tolist() == [0.75]
    assert pooled([mix, mix]).input_tokens.tolist() == [201, 201]


def test_an_empty_prompt_has_no_share_to_reuse() -> None:
    mix = mix_of(recorded([(dispatch(prompt=prompt(0)), response())]).responses)
    assert np.isnan(mix.reuse_share).tolist() == [True]


def test_a_summary_interpolates_and_leaves_out_what_was_not_told() -> None:
    found = summary(np.array([10.0, 20.0, np.nan, 30.0]))
    assert found is not None
    assert (found.mean, found.p50) == (20.0, 20.0)
    assert (found.p10, found.p90) == pytest.approx((12.0, 28.0))
    assert summary(np.array([np.nan])) is None


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 0.0),
        ([1, 2], [3, 4], 1.0),
        ([1, 2, 3, 4], [3, 4, 5, 6], 0.5),  # at 2: half of a, none of b
        ([1, 1, 1, 9], [1, 9, 9, 9], 0.5),
    ],
)
def test_the_gap_is_the_largest_difference_of_the_cumulative_shares(
    a: list[float], b: list[float], expected: float
) -> None:
    assert largest_gap(np.array(a, float), np.array(b, float)) == pytest.approx(expected)


def test_there_is_no_gap_to_nothing() -> None:
    assert largest_gap(np.array([1.0]), np.array([np.nan])) is None

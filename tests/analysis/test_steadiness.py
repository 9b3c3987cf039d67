"""Whether a window was long enough: halves, since when it was settled, and the weight of plays."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from record_cases import SECOND, dispatch, recorded, response, summarised

from agentx_replay.analysis.findings import window_length
from agentx_replay.analysis.metrics import PointSummary
from agentx_replay.analysis.responses import Window
from agentx_replay.analysis.workload import PlayWeights

WINDOW = Window(0, 80 * SECOND, 80.0)


def summary_of(itl_s: Callable[[int], float], tokens: Callable[[int], int]) -> PointSummary:
    """One lane sends a request every second; its second token comes ``itl_s`` after the first."""
    pairs = [
        (
            dispatch(lane=0, max_tokens=2),
            response(
                send_ns=s * SECOND,
                arrival_ns=[s * SECOND, s * SECOND + round(itl_s(s) * SECOND)],
                arrival_tokens=[1, 1],
                end_ns=(s + 1) * SECOND,
                prompt_tokens=tokens(s) - 2,
                completion_tokens=2,
            ),
        )
        for s in range(80)
    ]
    return summarised(recorded(pairs), WINDOW)


def test_an_even_level_is_settled_from_the_first_quarter_on() -> None:
    found = summary_of(lambda _: 0.02, lambda _: 400).halves
    assert found is not None
    assert found.p90_itl_s == pytest.approx((0.02, 0.02))
    # 40 requests of 400 tokens in 40 s.
    assert found.tokens_per_s == pytest.approx((400.0, 400.0))
    assert found.settled_s == 20.0


def test_a_level_that_slows_down_in_its_second_half_is_never_settled() -> None:
    found = summary_of(lambda s: 0.02 if s < 40 else 0.03, lambda _: 400)
    assert found.halves is not None
    assert found.halves.p90_itl_s == pytest.approx((0.02, 0.03))
    # From the opening to 60 s a third is slow, as at the end: only the half is off.
    assert found.halves.settled_s == 60.0
    later = summary_of(lambda s: 0.02 if s < 64 else 0.03, lambda _: 400).halves
    assert later is not None
    assert later.settled_s is None


def test_throughput_that_falls_is_not_settled_either() -> None:
    # To 20, 40, 60 and 80 s: 600, 500, 467 and 450 tokens/s; within 5 % from 60 s on.
    found = summary_of(lambda _: 0.02, lambda s: 600 if s < 20 else 400).halves
    assert found is not None
    assert found.tokens_per_s == pytest.approx((500.0, 400.0))
    assert found.settled_s == 60.0


def test_a_half_of_few_responses_says_nothing() -> None:
    pairs = [
        (dispatch(), response(send_ns=s * SECOND, arrival_ns=[s * SECOND, (s + 1) * SECOND]))
        for s in range(59)
    ]
    few = summarised(recorded(pairs), Window(0, 60 * SECOND, 60.0))
    assert few.halves is None


def test_plays_weigh_by_their_tokens() -> None:
    # Plays (lane, play number) of 100, 100 and 200 tokens, the last in two requests.
    sent = (((0, 0), 100), ((0, 1), 100), ((1, 0), 150), ((1, 0), 50))
    pairs = [
        (
            dispatch(lane=lane, play_number=play_number),
            response(prompt_tokens=tokens - 2, completion_tokens=2),
        )
        for (lane, play_number), tokens in sent
    ]
    found = summarised(recorded(pairs), WINDOW).play_weights
    # 400² / (100² + 100² + 200²) = 160,000 / 60,000.
    assert found is not None
    assert (found.plays, found.largest_share) == (3, 0.5)
    assert found.effective == pytest.approx(8 / 3)


def codes(summary: PointSummary, lanes: int, window_s: float = 900) -> list[str]:
    return [finding.code for finding in window_length(summary, lanes, window_s)]


def test_what_has_not_settled_is_a_warning() -> None:
    even = summary_of(lambda _: 0.02, lambda _: 400)
    slower = summary_of(lambda s: 0.02 if s < 64 else 0.03, lambda _: 400)
    assert "not-settled" not in codes(even, 8)
    (found,) = (each for each in window_length(slower, 8, 900) if each.code == "not-settled")
    assert "+50%" in found.text


def test_a_window_under_900_s_is_no_wonder_if_it_has_not_settled() -> None:
    slower = summary_of(lambda s: 0.02 if s < 64 else 0.03, lambda _: 400)
    carried = replace(slower, play_weights=PlayWeights(20, 1.2, 0.9))
    assert codes(carried, 16) == ["not-settled", "one-play-carries"]
    assert codes(carried, 16, 899) == []


@pytest.mark.parametrize(
    ("largest", "lanes", "warned"),
    [
        (0.21, 16, True),
        (0.20, 16, False),
        (0.24, 8, False),  # twice a lane's share is 25 %
        (0.26, 8, True),
        (1.0, 2, False),  # one of two is no wonder
    ],
)
def test_a_play_that_carries_a_level_is_a_warning(largest: float, lanes: int, warned: bool) -> None:
    summary = replace(
        summary_of(lambda _: 0.02, lambda _: 400),
        play_weights=PlayWeights(plays=20, effective=9.0, largest_share=largest),
    )
    assert ("one-play-carries" in codes(summary, lanes)) == warned

"""Margins, attainment, goodput and jobs of a level, from responses worked out by hand."""

from math import log

import pytest
from record_cases import SECOND, dispatch, recorded, response

from agentx_replay.analysis.goodput import (
    SentRequests,
    goodput,
    jobs_of,
    keeping,
    margins,
    sent_requests,
    value_of,
)
from agentx_replay.analysis.objective import objective_of
from agentx_replay.analysis.responses import Window
from agentx_replay.replay.ports import Dispatch, Response, Status

WINDOW = Window(0, 100 * SECOND, 100.0)
LONG = Window(0, 1000 * SECOND, 1000.0)


def of(
    ttft_s: float, itl_s: float, *, lane: int = 0, turn: int = 0, play: int = 0, **more: object
) -> tuple[Dispatch, Response]:
    """A response of 11 tokens after a prompt of 100."""
    first_ns = round(ttft_s * SECOND)
    arrivals = [first_ns + round(n * itl_s * SECOND) for n in range(11)]
    came = response(
        arrival_ns=arrivals, end_ns=arrivals[-1], completion_tokens=11,
        arrival_tokens=[1] * 11, cached_tokens=80, **more,
    )  # fmt: skip
    return dispatch(lane=lane, turn=turn, play_number=play, max_tokens=11), came


LEVEL = [
    of(1.0, 0.02),
    of(2.0, 0.02, turn=12),
    of(8.0, 0.02, turn=40),
    of(1.0, 0.05, lane=1, turn=200),
    of(1.0, 0.02, lane=1, status=Status.FAILED, prompt_tokens=None),
]
"""Lane 0: three fast streams, the third late to begin. Lane 1: a slow stream, and a failure."""


def level(window: Window = WINDOW) -> SentRequests:
    return sent_requests(recorded(LEVEL).responses, window)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("itl:p50<=33ms", 0.02),
        # Of 20, 20, 20 and 50 ms the rank 0.9 · 3 = 2.7 is 20 + 0.7 · 30.
        ("itl:p90<=33ms", 0.041),
        ("itl:mean<=33ms", 0.0275),
        ("ttft:mean<=5s", 3.0),
        ("e2e:mean<=5s", 3.275),
        # (end - first token) / 10 is the same here.
        ("full-itl:p50<=33ms", 0.02),
        ("failed<=1%", 0.2),
        ("hit>=90%", 0.8),
    ],
)
def test_a_clause_is_measured_over_what_was_answered(text: str, value: float) -> None:
    assert value_of(objective_of(text).clauses[0], level(), None) == pytest.approx(value)


def test_a_margin_is_the_logarithm_of_value_over_bound_turned_so_that_above_0_fails() -> None:
    found = margins(objective_of("itl:p50<=10ms,hit>=40%"), level(), None)
    # 20 ms of 10; 80 % where 40 are asked; 20 % failed of 1; none cut: as if a hundredth were.
    assert found == pytest.approx([log(2), log(0.5), log(20), log(0.01)])


def test_what_a_level_does_not_tell_has_no_margin() -> None:
    untold = [of(1.0, 0.02) for _ in range(3)]
    untold = [(sent, response(status=Status.OK)) for sent, _ in untold]
    found = margins(
        objective_of("itl<=1s,ttft:p99<=5s,hit>=40%,play<=9m"),
        sent_requests(recorded(untold).responses, WINDOW),
        None,
    )
    assert found[:4] == [None] * 4


def test_a_request_keeps_an_objective_if_it_keeps_every_clause() -> None:
    assert keeping(objective_of("ttft<=5s,itl<=33ms"), level()).tolist() == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert keeping(objective_of("hit>=80%"), level()).tolist() == [True] * 4 + [False]
    assert keeping(objective_of("hit>=81%"), level()).tolist() == [False] * 5


def test_one_token_has_no_itl_that_could_be_too_long() -> None:
    short = (dispatch(), response(arrival_ns=[SECOND], completion_tokens=1))
    sent = sent_requests(recorded([short]).responses, WINDOW)
    assert keeping(objective_of("itl<=1ms"), sent).tolist() == [True]
    assert keeping(objective_of("ttft<=1ms"), sent).tolist() == [False]


def test_goodput_counts_requests_depths_plays_and_tokens() -> None:
    found = goodput(objective_of("ttft<=5s,itl<=33ms"), level(LONG))
    assert (found.requests.kept, found.requests.sent) == (2, 5)
    assert [(each.kept, each.sent) for each in found.by_depth] == [(1, 2), (1, 1), (0, 1), (0, 1)]
    assert (found.plays.kept, found.plays.sent) == (0, 2)
    # Four answers of 111 tokens, of which 11 output, two of them kept.
    assert (found.token_share, found.output_share) == (0.5, 0.5)


def test_a_play_keeps_an_objective_if_all_its_requests_do() -> None:
    rows = [of(1.0, 0.02), of(1.0, 0.02, play=1), of(8.0, 0.02, play=1)]
    found = goodput(objective_of("ttft<=5s"), sent_requests(recorded(rows).responses, WINDOW))
    assert (found.plays.kept, found.plays.sent) == (1, 2)


def test_in_a_short_window_tokens_count_that_came_in_it() -> None:
    # The second one's prompt comes after the window.
    rows = [of(1.0, 0.02), of(101.0, 0.02)]
    sent = sent_requests(recorded(rows).responses, WINDOW)
    assert sent.tokens.tolist() == [111.0, 0.0]
    assert goodput(objective_of("ttft<=5s"), sent).token_share == 1.0


def test_jobs_are_plays_that_ended_and_the_time_they_spent_in_the_model() -> None:
    s = SECOND
    plays = [
        (30.0, -5 * s, 50 * s),  # begun at t*: finished, but no whole one
        (None, 50 * s, 90 * s),
        (None, 10 * s, 60 * s),
        (None, 90 * s, 120 * s),  # after the window
        (None, 95 * s, None),
    ]
    # Lane 0: 0 to 40 s and 20 to 60 s, which is 60 s; lane 1: 80 s to beyond the window, 20 s.
    rows = [
        (dispatch(lane=lane), response(send_ns=a * s, end_ns=b * s))
        for lane, a, b in ((0, 0, 40), (0, 20, 60), (1, 80, 130))
    ]
    found = jobs_of(plays, recorded(rows).responses, WINDOW)
    assert (found.finished, found.per_hour, found.whole_s) == (3, 108.0, (40.0, 50.0))
    assert found.model_share == pytest.approx(80 / 200)

"""Bounds on the P90 ITL by what happened between server and client, worked out by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from record_cases import MS, dispatch, recorded, response

from agentx_replay.analysis.findings import arrivals
from agentx_replay.analysis.itl_error import ItlError, itl_error
from agentx_replay.analysis.metrics import count
from agentx_replay.replay.ports import Response


def error_of(*came: Response, accept_length: float | None = None) -> ItlError:
    return itl_error(recorded((dispatch(), each) for each in came).responses, accept_length)


def codes(*came: Response) -> list[str]:
    responses = recorded((dispatch(), each) for each in came).responses
    of = itl_error(responses, None)
    found = arrivals(of, count(responses))
    return [finding.code for finding in found]


def read(*reads: tuple[int, int], **more: Any) -> Response:
    """A response whose reads came at so many ms and brought so many events, a token each."""
    events = [at_ms * MS for at_ms, events in reads for _ in range(events)]
    return response(arrival_ns=events, **{"completion_tokens": len(events)} | more)


def one_by_one(tokens: int, **more: Any) -> Response:
    return read(*((10 * k, 1) for k in range(tokens)), **more)


BUNCHED = [(0, 12), (120, 12), (300, 18), (420, 12), (500, 8)]


# --- gathered -------------------------------------------------------------------------------------


def test_a_response_that_somebody_gathered_may_be_off_by_the_gaps_at_its_ends() -> None:
    # 120 ms after the first arrival and 80 before the last, of 500.
    of = error_of(read(*BUNCHED, gathered_reads=5))
    assert (of.gathered, of.most_events) == (1, 18)
    assert of.gathered_error == pytest.approx(0.4)
    assert codes(read(*BUNCHED, gathered_reads=5)) == ["arrivals-gathered"]


def test_the_error_of_a_level_is_what_it_does_to_the_p90() -> None:
    # 19 responses of 10 ms a token, one of 500/50 = 10 ms that may be 14 or 6: rank 17.1 stays 10.
    others = [one_by_one(50) for _ in range(19)]
    of = error_of(*others, read(*BUNCHED, gathered_reads=5))
    assert of.gathered == 1
    assert of.gathered_error == pytest.approx(0.0)
    # Of 5, the P90 is at rank 3.6, 0.6 of the way from 10 to 14 ms.
    of = error_of(*others[:4], read(*BUNCHED, gathered_reads=5))
    assert of.gathered_error == pytest.approx(0.24)


def test_reads_of_several_events_by_a_late_client_are_not_gathered() -> None:
    of = error_of(read(*BUNCHED, gathered_reads=0))
    assert (of.gathered, of.gathered_error) == (0, 0.0)


def paused(tokens: int) -> list[tuple[int, int]]:
    """Reads of one event 10 ms apart and a pause of 200 ms, after which one brings two."""
    return [(10 * k + (190 if k >= 5 else 0), 2 if k == 5 else 1) for k in range(tokens)]


def test_where_the_client_cannot_tell_a_read_in_ten_is_its_own() -> None:
    assert error_of(read(*paused(10))).gathered == 0
    assert error_of(read(*paused(9))).gathered == 1
    assert error_of(read(*paused(10), gathered_reads=1)).gathered == 1


EIGHT = [(80 * k, 8) for k in range(6)]


@pytest.mark.parametrize(
    ("reads", "error"),
    [
        (EIGHT, 0.0),
        ([(0, 1), *((80 * k, 8) for k in range(1, 6)), (420, 2)], 0.0),  # the rest, at once
        # A timer of 80 ms: two events of 10 ms waited for 60 more.
        ([(0, 1), *((80 * k, 8) for k in range(1, 6)), (480, 2)], 60 / 480),
        # One of 45 ms: 9 events in 2 reads, so 10 ms an event; 5 waited, and up to 10 at the ends.
        ([(0, 4), (45, 4), (90, 5), (135, 4), (180, 5), (225, 4)], 15 / 225),
        # Irregular, or of more events, or of one gap: the gaps at both ends.
        ([(80 * k, 9) for k in range(6)], 160 / 400),
        ([(0, 8), (80, 8), (200, 8), (240, 8), (400, 8)], 240 / 400),
        ([(0, 8), (80, 8)], 160 / 80),
    ],
)
def test_regular_reads_are_off_by_what_their_last_events_may_have_waited(
    reads: list[tuple[int, int]], error: float
) -> None:
    of = error_of(read(*reads, gathered_reads=5))
    assert of.gathered_error == pytest.approx(error)
    assert of.gathered == (error > 0)


def test_a_timer_shows_in_the_uneven_reads_of_the_other_responses() -> None:
    even = read(*((45 * k, 5) for k in range(5)), gathered_reads=5)  # 9 ms an event
    assert error_of(even).gathered_error == pytest.approx(0.0)
    uneven = read((0, 4), (45, 4), (90, 5), (135, 4), (180, 5), (225, 5), gathered_reads=6)
    # 9 and 225/23 = 9.7826 ms, or up to 9 · 189/180 = 9.45 and 9.7826 · 235/225 = 10.2174: nine
    # tenths of the way from one to the other, 10.1407 in place of 9.7043.
    of = error_of(even, uneven)
    assert of.gathered == 2
    assert of.gathered_error == pytest.approx(0.04496, abs=1e-5)


@pytest.mark.parametrize(("accept_length", "gathered"), [(4.0, 0), (3.0, 1), (None, 1)])
def test_reads_of_as_many_tokens_as_the_engine_commits_are_the_engines(
    accept_length: float | None, gathered: int
) -> None:
    # 16 tokens in 4 reads after the first, at irregular times.
    reads = [(0, 1), (30, 3), (100, 5), (110, 4), (190, 4)]
    of = error_of(read(*reads, gathered_reads=4), accept_length=accept_length)
    assert of.gathered == gathered


@pytest.mark.parametrize(
    ("reads", "found"),
    [(52, ["arrivals-gathered"]), (252, ["some-arrivals-gathered"]), (502, [])],
)
def test_an_error_of_half_a_percent_is_a_warning(reads: int, found: list[str]) -> None:
    # 20 ms of 700, 2,700 and 5,200: 2.9 %, 0.74 % and 0.38 %.
    assert codes(read(*paused(reads), gathered_reads=1)) == found


# --- the first token ------------------------------------------------------------------------------


def first_read(events: int, at_ms: int, **more: Any) -> Response:
    """The first read after ``at_ms``, then 100 events 10 ms apart, one a read."""
    later = ((at_ms + 10 * k, 1) for k in range(1, 101))
    return read((at_ms, events), *later, **{"gathered_reads": 1} | more)


def test_the_first_token_may_have_waited_for_those_that_came_with_it() -> None:
    # Two others, 10 ms each, of 400 ms.
    of = error_of(first_read(3, 400))
    assert of.late_first == 1
    assert of.ttft_error == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("at_ms", "found"),
    [
        (700, ["first-tokens-gathered"]),
        (900, ["some-first-tokens-gathered"]),
        (4100, []),
    ],
)
def test_a_ttft_that_may_be_half_a_percent_too_long_is_a_warning(
    at_ms: int, found: list[str]
) -> None:
    # 20 ms of 700, 900 and 4,100: 2.9 %, 2.2 % and 0.49 %; 20 of 1,000 at the ends of the ITL.
    of = [each for each in codes(first_read(3, at_ms)) if "first" in each]
    assert of == found


def test_a_first_event_of_several_tokens_waited_for_nobody() -> None:
    drafts = response(
        arrival_ns=[(100 + 10 * k) * MS for k in range(50)],
        arrival_tokens=[4] * 50,
        completion_tokens=200,
        gathered_reads=0,
    )
    assert error_of(drafts).ttft_error == pytest.approx(0.0)


def test_first_reads_that_a_late_client_or_the_engine_made_are_not_gathered() -> None:
    assert error_of(first_read(3, 400, gathered_reads=0)).ttft_error == pytest.approx(0.0)
    steps = [(100 + 30 * k + k % 2, 3) for k in range(20)]
    told = error_of(read(*steps, gathered_reads=20), accept_length=3.2)
    assert told.ttft_error == pytest.approx(0.0)
    assert error_of(read(*steps, gathered_reads=20)).late_first == 1


# --- in one arrival -------------------------------------------------------------------------------


def test_over_one_response_in_a_hundred_in_one_arrival_is_not_valid() -> None:
    whole, single = read((0, 30)), read((0, 1))
    assert codes(*[one_by_one(50)] * 99, whole) == []
    assert codes(*[one_by_one(50)] * 98, whole) == ["responses-in-one-arrival"]
    assert codes(*[one_by_one(50)] * 9, single) == []
    assert error_of(whole, single).in_one_arrival == 1


def test_a_response_that_a_late_client_read_at_once_is_not_a_proxys() -> None:
    others = [one_by_one(50)] * 90
    late, bound = read((0, 30), gathered_reads=0), read((0, 30), late_events=30)
    assert codes(*others, late, late) == ["responses-read-late"]
    assert codes(*others, bound, bound) == ["responses-read-late"]
    assert codes(*others, read((0, 30), gathered_reads=1, late_events=30)) == [
        "responses-in-one-arrival"
    ]
    # A single event of several tokens is nobody's reading.
    single = read((0, 1), completion_tokens=8, gathered_reads=0)
    assert codes(*others, single) == ["responses-in-one-arrival"]
    # One of each of 100 is over the limit only together: both are named.
    both = [*[one_by_one(50)] * 98, late, read((0, 30), gathered_reads=1)]
    assert codes(*both) == ["responses-in-one-arrival", "responses-read-late"]


# --- tokens that no event shows -------------------------------------------------------------------


def shown(events: int, completion: int, pieces: int, **more: Any) -> Response:
    """Events 10 ms apart with texts of 5 bytes."""
    return one_by_one(
        events,
        completion_tokens=completion,
        event_text_bytes=np.full(events, 5, np.int32),
        text_pieces=pieces,
        **more,
    )


def test_half_of_the_output_hidden_leaves_the_itl_between_two_values() -> None:
    # 490 ms: over 49 tokens, or over 98 of 100 shared out two an event.
    of = error_of(shown(50, 100, 50))
    assert of.unshown == 1
    assert (of.least_s, of.most_s) == pytest.approx((0.005, 0.01))
    assert codes(shown(50, 100, 50)) == ["tokens-unshown"]


def test_texts_that_can_have_said_all_tokens_explain_them() -> None:
    # 50 pieces more than events, over 0.75: up to 66 tokens more.
    of = error_of(shown(50, 110, 100))
    assert of.unshown == 0
    assert of.unshown_range == pytest.approx(0.0)
    assert error_of(shown(50, 117, 100)).unshown == 1


def test_texts_that_can_have_said_all_tokens_do_not_prove_that_all_were_shown() -> None:
    # 50 pieces more than events are 50/0.92 tokens more at least: 104.35 of the 110 are proved. Of
    # a fiftieth in the first read, 107.8 came after it, or 102.26: 490 ms over either.
    of = error_of(shown(50, 110, 100))
    assert of.by_text == 1
    assert (of.p90_s, of.by_text_most_s) == pytest.approx((0.49 / 107.8, 0.49 / 102.26), rel=1e-4)
    assert codes(shown(50, 110, 100)) == ["tokens-told-by-text"]
    drafted = error_of(shown(50, 110, 100), accept_length=2.5)
    assert (drafted.by_text, drafted.by_text_most_s) == (0, drafted.p90_s)


@pytest.mark.parametrize(
    ("tokens", "warned"), [([1, 57, 1, 1], True), ([1, 29, 29, 1], False), ([1, 15, 1, 1], False)]
)
def test_a_response_that_had_most_of_its_tokens_in_one_read_hides_the_wait(
    tokens: list[int], warned: bool
) -> None:
    told = read(*((1000 * k, 1) for k in range(4)), arrival_tokens=tokens)
    told = replace(told, completion_tokens=sum(tokens))
    assert codes(told) == (["tokens-in-bursts"] if warned else [])


def test_drafts_that_the_engine_counts_explain_events_of_several_tokens() -> None:
    assert error_of(shown(50, 120, 50), accept_length=2.5).unshown == 0
    assert error_of(shown(50, 130, 50), accept_length=2.5).unshown == 1


def test_usage_of_each_event_explains_everything() -> None:
    told = one_by_one(3, completion_tokens=60, arrival_tokens=[40, 10, 10])
    assert error_of(told).unshown == 0


def test_more_events_than_tokens_leave_the_itl_between_two_values() -> None:
    # 40 tokens in 80 events: 790 ms over 79, or over 40 · 79/80.
    of = error_of(one_by_one(80, completion_tokens=40))
    assert (of.least_s, of.most_s) == pytest.approx((0.01, 0.02))
    with_reasoning = one_by_one(80, completion_tokens=40, reasoning_tokens=40, reasoning_pieces=40)
    assert error_of(with_reasoning).unshown == 0


def test_hidden_reasoning_is_doubtful_only_where_a_long_gap_may_have_made_it() -> None:
    steady = one_by_one(
        50, completion_tokens=100, reasoning_tokens=50, reasoning_pieces=0, text_pieces=50
    )
    of = error_of(steady)
    assert (of.unshown, of.hidden_reasoning) == (0, 1)
    assert codes(steady) == ["reasoning-hidden"]
    # A summary, then 500 ms of thinking: 980 ms over the 49 shown, or over 98 with those that
    # may have been made meanwhile.
    at_ms = [0, *range(500, 980, 10), 980]
    thinking = read(
        *((at, 1) for at in at_ms), completion_tokens=100, reasoning_tokens=50, reasoning_pieces=1
    )
    of = error_of(thinking)
    assert of.unshown == 1
    assert (of.least_s, of.most_s) == pytest.approx((0.01, 0.02))
    assert codes(thinking) == ["tokens-unshown", "reasoning-hidden"]

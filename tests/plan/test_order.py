"""Which requests of other streams a request waits for. Each request is (start, duration), in s."""

import pytest
from recordings import Sent, session

from agentx_replay.plan.order import ended_before
from agentx_replay.plan.times import timed
from agentx_replay.traces.model import RecordedRequest

Stream = list[tuple[float, float | None]]


def edges(*streams: Stream) -> list[list[list[tuple[int, int]]]]:
    """By stream and turn, the (stream, turn) of what is waited for."""
    recorded = [
        [
            timed(entry, entry.start_s)
            for entry in session(*(Sent(start, "a", length) for start, length in stream)).entries
            if isinstance(entry, RecordedRequest)
        ]
        for stream in streams
    ]
    return [
        [[(s.stream, s.turn) for s in steps] for steps in turns] for turns in ended_before(recorded)
    ]


def test_a_request_waits_for_the_latest_of_another_stream_that_had_ended() -> None:
    assert edges([(0, 1), (2, 1), (5, 9)], [(4, 2)]) == [[[], [], []], [[(0, 1)]]]


def test_requests_that_overlap_are_not_ordered() -> None:
    assert edges([(0, 100)], [(10, 1), (20, 1)]) == [[[]], [[], []]]


def test_order_within_a_stream_is_not_said_again() -> None:
    assert edges([(0, 1), (2, 1)]) == [[[], []]]


def test_a_request_that_starts_as_another_ends_waits_for_it() -> None:
    assert edges([(0, 4)], [(4, 1)]) == [[[]], [[(0, 0)]]]


def test_a_touch_is_judged_in_milliseconds() -> None:
    # 1 + 0.14 is 1.1400000000000001 in floating point; 1000 + 140 is 1140.
    assert edges([(1, 0.14)], [(1.14, 1)]) == [[[]], [[(0, 0)]]]


def test_requests_that_start_together_are_not_ordered() -> None:
    assert edges([(5, 0)], [(5, 1)]) == [[[]], [[]]]
    assert edges([(5, None)], [(5, None)]) == [[[]], [[]]]


def test_one_that_took_no_time_at_that_instant_is_passed_over_for_the_one_before() -> None:
    assert edges([(0, 1), (5, 0)], [(5, 1)]) == [[[], []], [[(0, 0)]]]


def test_the_latest_is_the_one_that_ended_last() -> None:
    assert edges([(0, 9), (1, 2)], [(10, 1)]) == [[[], []], [[(0, 0)]]]


def test_an_edge_that_follows_from_another_is_left_out() -> None:
    # The third waits for the second, which itself waited for the first.
    assert edges([(0, 1)], [(2, 1)], [(4, 1)]) == [[[]], [[(0, 0)]], [[(1, 0)]]]


def test_two_that_overlapped_are_both_waited_for() -> None:
    assert edges([(0, 3)], [(2, 1)], [(4, 1)]) == [[[]], [[]], [[(0, 0), (1, 0)]]]


@pytest.mark.parametrize("duration_s", [None, -3])
def test_a_missing_or_negative_duration_is_none(duration_s: float | None) -> None:
    assert edges([(2, duration_s)], [(3, 1)]) == [[[]], [[(0, 0)]]]

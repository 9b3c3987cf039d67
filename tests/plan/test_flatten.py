"""Which requests of one list belong to the same agent.

Each recording lists what was sent, in seconds; each expectation lists the streams by the seconds
at which their requests started. A prompt is a string, each character one block.
"""

import pytest
from recordings import Sent, session

from agentx_replay.plan.flatten import keep_overlapping, split_agents
from agentx_replay.plan.times import Timed, timed
from agentx_replay.traces.model import RecordedRequest


def listed(*sent: Sent) -> list[Timed]:
    entries = session(*sent).entries
    return [timed(entry, entry.start_s) for entry in entries if isinstance(entry, RecordedRequest)]


def split(*sent: Sent) -> list[list[float]]:
    streams = split_agents(listed(*sent), session(*sent).blocks)
    return [[item.start_s for item in stream] for stream in streams]


def test_a_prompt_that_grows_is_one_agent() -> None:
    assert split(Sent(0, "ab"), Sent(10, "abc"), Sent(20, "abc"), Sent(30, "abcde")) == [
        [0, 10, 20, 30]
    ]


def test_two_prompts_that_grow_in_turn_are_two_agents() -> None:
    assert split(
        Sent(0, "ab", 100), Sent(10, "ac"), Sent(20, "acd"), Sent(200, "abx"), Sent(210, "acde")
    ) == [[0, 200], [10, 20, 210]]


def test_a_request_goes_on_with_the_deepest_stream_it_contains() -> None:
    # The one at 10 starts while the one at 0 runs, so they are two; the one at 200 contains both.
    assert split(Sent(0, "ab", 100), Sent(10, "abd", 5), Sent(200, "abde")) == [[0], [10, 200]]


def test_a_request_that_starts_as_another_ends_goes_on_with_it() -> None:
    assert split(Sent(0, "ab", 10), Sent(10, "abc")) == [[0, 10]]


def test_a_request_that_starts_while_another_runs_does_not_go_on_with_it() -> None:
    assert split(Sent(0, "ab", 10), Sent(9.9, "abc"), Sent(30, "abz")) == [[0, 30], [9.9]]


def test_a_missing_duration_counts_as_none() -> None:
    assert split(Sent(0, "ab", None), Sent(0.1, "abc")) == [[0, 0.1]]


def test_another_model_is_another_agent_whatever_the_prompt() -> None:
    assert split(Sent(0, "ab"), Sent(10, "abc", model="other"), Sent(20, "abcd")) == [
        [0, 20],
        [10],
    ]


def test_an_edited_context_is_the_same_agent_where_the_old_one_is_never_used_again() -> None:
    assert split(Sent(0, "abcd"), Sent(10, "abX"), Sent(20, "abXY")) == [[0, 10, 20]]


def test_a_context_that_is_used_again_makes_the_fork_another_agent() -> None:
    assert split(Sent(0, "abcd"), Sent(10, "abX"), Sent(20, "abcde")) == [[0, 20], [10]]


@pytest.mark.parametrize(
    ("start_s", "prompt", "streams"),
    [
        # The tail "abcd" ends at 1. After more than 3600 s at least 2 of its 4 blocks must be kept.
        (3601, "aX", [[0, 3601]]),
        (3601.1, "aX", [[0], [3601.1]]),
        (99999, "abX", [[0, 99999]]),
    ],
)
def test_a_late_context_that_keeps_little_is_another_agent(
    start_s: float, prompt: str, streams: list[list[float]]
) -> None:
    assert split(Sent(0, "abcd"), Sent(start_s, prompt)) == streams


def test_of_two_edits_of_one_context_the_deepest_is_the_same_agent() -> None:
    assert split(Sent(0, "abcd"), Sent(10, "aX"), Sent(20, "abY")) == [[0, 20], [10]]


def test_of_two_edits_equally_deep_the_earliest_is_the_same_agent() -> None:
    # The second overlaps the first, so that it cannot follow it in turn.
    assert split(Sent(0, "abcd"), Sent(10, "abX", 50), Sent(20, "abY")) == [[0, 10], [20]]


def test_an_edit_left_over_is_judged_again_by_the_new_end_of_the_stream() -> None:
    # Both leave the tail "abcd", which is the deeper one; then "aY" follows "abX".
    assert split(Sent(0, "abcd"), Sent(10, "abX"), Sent(20, "aY")) == [[0, 10, 20]]


def test_an_edit_left_over_is_another_agent_where_the_new_end_was_gone_on_with() -> None:
    # "abX" follows "abcd" and grows to "abXY" before "aY" comes: the agent is that long by then.
    assert split(Sent(0, "abcd"), Sent(10, "abX"), Sent(15, "aY"), Sent(20, "abXY")) == [
        [0, 10, 20],
        [15],
    ]


def test_a_prompt_that_shares_nothing_is_another_agent_and_never_spliced() -> None:
    assert split(Sent(0, "ab"), Sent(10, "abc"), Sent(20, "xy"), Sent(30, "xyz")) == [
        [0, 10],
        [20, 30],
    ]


def test_a_first_call_that_shares_nothing_does_not_found_the_main_stream() -> None:
    # It names the session. Were it the main stream, the session would be another agent.
    assert split(Sent(0, "t"), Sent(1, "abcd"), Sent(3, "abX"), Sent(5, "abcde")) == [
        [0, 1, 5],
        [3],
    ]


def test_only_one_call_is_set_aside() -> None:
    assert split(Sent(0, "t"), Sent(1, "u"), Sent(3, "ab"), Sent(5, "abc")) == [[0, 1], [3, 5]]


def test_a_first_call_without_blocks_is_on_the_main_stream_and_sets_none_aside() -> None:
    assert split(Sent(0, ""), Sent(1, "t"), Sent(3, "ab"), Sent(5, "abc")) == [[0, 1], [3, 5]]


def test_a_request_without_blocks_stays_on_the_main_stream() -> None:
    assert split(Sent(0, "ab"), Sent(2, "xy"), Sent(4, ""), Sent(6, "abc"), Sent(8, "xyz")) == [
        [0, 4, 6],
        [2, 8],
    ]
    assert split(Sent(0, ""), Sent(2, "")) == [[0, 2]]


def test_requests_are_judged_in_order_of_time_whatever_their_order_in_the_file() -> None:
    assert split(Sent(20, "abc"), Sent(0, "a"), Sent(10, "ab")) == [[0, 10, 20]]


def test_no_requests_are_one_empty_stream() -> None:
    assert split() == [[]]


@pytest.mark.parametrize(
    ("streams", "kept"),
    [
        # Each request is (start, duration).
        ([[(0, 10), (20, 10)], [(12, 2)]], [[0, 12, 20]]),
        ([[(0, 10), (20, 10)], [(10, 10)]], [[0, 10, 20]]),
        ([[(0, 10), (20, 10)], [(9, 2)]], [[0, 20], [9]]),
        ([[(0, 1)], [(5, 10)], [(6, 1)], [(20, 1)]], [[0, 20], [5], [6]]),
        ([[(0, 1)], [(2, 0), (5, 10)], [(6, 1)]], [[0], [2, 5], [6]]),
    ],
    ids=["in a pause", "touching", "overlaps main", "overlaps another", "whole streams"],
)
def test_only_streams_that_overlap_another_in_time_are_kept_apart(
    streams: list[list[tuple[float, float]]], kept: list[list[float]]
) -> None:
    apart = [listed(*(Sent(start, "a", length) for start, length in s)) for s in streams]
    assert [[item.start_s for item in s] for s in keep_overlapping(apart)] == kept

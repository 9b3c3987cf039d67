"""Which requests of one list belong to the same agent.

Each recording lists what was sent, in seconds; each expectation lists the conversations by the
seconds at which their requests started. A prompt is a string, each character one block.
"""

import pytest
from recordings import Sent, session

from agentx_replay.plan.flatten import keep_overlapping, split_agents
from agentx_replay.plan.times import Timed, timed
from agentx_replay.traces.model import RecordedRequest


def listed(*sent: Sent) -> list[Timed]:
    entries = session(*sent).entries
    return [timed(entry, entry.start_s) for entry in entries if isinstance(entry, RecordedRequest)]


S = Sent
CASES = {
    "no requests are one empty conversation": ([], [[]]),
    "a prompt that grows is one agent": (
        [S(0, "ab"), S(10, "abc"), S(20, "abc"), S(30, "abcde")],
        [[0, 10, 20, 30]],
    ),
    "two prompts that grow in turn are two agents": (
        [S(0, "ab", 100), S(10, "ac"), S(20, "acd"), S(200, "abx"), S(210, "acde")],
        [[0, 200], [10, 20, 210]],
    ),
    # The one at 10 starts while the one at 0 runs, so they are two; the one at 200 contains both.
    "a request goes on with the deepest conversation it contains": (
        [S(0, "ab", 100), S(10, "abd", 5), S(200, "abde")],
        [[0], [10, 200]],
    ),
    "it goes on with one that ends as it starts": ([S(0, "ab", 10), S(10, "abc")], [[0, 10]]),
    "it does not go on with one that still runs": (
        [S(0, "ab", 10), S(9.9, "abc"), S(30, "abz")],
        [[0, 30], [9.9]],
    ),
    "a missing duration counts as none": ([S(0, "ab", None), S(0.1, "abc")], [[0, 0.1]]),
    "another model is another agent whatever the prompt": (
        [S(0, "ab"), S(10, "abc", model="other"), S(20, "abcd")],
        [[0, 20], [10]],
    ),
    "an edited context is the same agent if the old one is never used again": (
        [S(0, "abcd"), S(10, "abX"), S(20, "abXY")],
        [[0, 10, 20]],
    ),
    "a context that is used again makes the fork another agent": (
        [S(0, "abcd"), S(10, "abX"), S(20, "abcde")],
        [[0, 20], [10]],
    ),
    # The tail "abcd" ends at 1. After more than 3600 s at least 2 of its 4 blocks must be kept.
    "an hour later it may keep little": ([S(0, "abcd"), S(3601, "aX")], [[0, 3601]]),
    "later than that it may not": ([S(0, "abcd"), S(3601.1, "aX")], [[0], [3601.1]]),
    "however late it may keep half": ([S(0, "abcd"), S(99999, "abX")], [[0, 99999]]),
    "of two edits of one context the deepest is the same agent": (
        [S(0, "abcd"), S(10, "aX"), S(20, "abY")],
        [[0, 20], [10]],
    ),
    # The second overlaps the first, so that it cannot follow it in turn.
    "of two edits equally deep the earliest is the same agent": (
        [S(0, "abcd"), S(10, "abX", 50), S(20, "abY")],
        [[0, 10], [20]],
    ),
    # Both leave the tail "abcd", which is the deeper one; then "aY" follows "abX".
    "an edit left over is judged again by the new end of the stream": (
        [S(0, "abcd"), S(10, "abX"), S(20, "aY")],
        [[0, 10, 20]],
    ),
    # "abX" follows "abcd" and grows to "abXY" before "aY" comes: the agent is that long by then.
    "an edit left over is another agent if the new end was gone on with": (
        [S(0, "abcd"), S(10, "abX"), S(15, "aY"), S(20, "abXY")],
        [[0, 10, 20], [15]],
    ),
    "a prompt that shares nothing is another agent and never spliced": (
        [S(0, "ab"), S(10, "abc"), S(20, "xy"), S(30, "xyz")],
        [[0, 10], [20, 30]],
    ),
    # It names the session. Were it the main conversation, the session would be another agent.
    "a first call that shares nothing does not found the main conversation": (
        [S(0, "t"), S(1, "abcd"), S(3, "abX"), S(5, "abcde")],
        [[0, 1, 5], [3]],
    ),
    "only one call is set aside": (
        [S(0, "t"), S(1, "u"), S(3, "ab"), S(5, "abc")],
        [[0, 1], [3, 5]],
    ),
    "a first call without blocks is on the main conversation and sets none aside": (
        [S(0, ""), S(1, "t"), S(3, "ab"), S(5, "abc")],
        [[0, 1], [3, 5]],
    ),
    "a request without blocks stays on the main conversation": (
        [S(0, "ab"), S(2, "xy"), S(4, ""), S(6, "abc"), S(8, "xyz")],
        [[0, 4, 6], [2, 8]],
    ),
    "so do all of them": ([S(0, ""), S(2, "")], [[0, 2]]),
    "requests are judged in order of time whatever their order in the file": (
        [S(20, "abc"), S(0, "a"), S(10, "ab")],
        [[0, 10, 20]],
    ),
}


@pytest.mark.parametrize(("sent", "conversations"), CASES.values(), ids=CASES)
def test_requests_of_one_list_are_split_by_agent(
    sent: list[Sent], conversations: list[list[float]]
) -> None:
    found = split_agents(listed(*sent), session(*sent).blocks)
    assert [[item.start_s for item in conversation] for conversation in found] == conversations


@pytest.mark.parametrize(
    ("conversations", "kept"),
    [
        # Each request is (start, duration).
        ([[(0, 10), (20, 10)], [(12, 2)]], [[0, 12, 20]]),
        ([[(0, 10), (20, 10)], [(10, 10)]], [[0, 10, 20]]),
        ([[(0, 10), (20, 10)], [(9, 2)]], [[0, 20], [9]]),
        ([[(0, 1)], [(5, 10)], [(6, 1)], [(20, 1)]], [[0, 20], [5], [6]]),
        ([[(0, 1)], [(2, 0), (5, 10)], [(6, 1)]], [[0], [2, 5], [6]]),
    ],
    ids=["in a pause", "touching", "overlaps main", "overlaps another", "whole conversations"],
)
def test_only_conversations_that_overlap_another_in_time_are_kept_apart(
    conversations: list[list[tuple[float, float]]], kept: list[list[float]]
) -> None:
    apart = [listed(*(Sent(start, "a", length) for start, length in s)) for s in conversations]
    assert [[item.start_s for item in s] for s in keep_overlapping(apart)] == kept

"""Which requests of other conversations a request waits for. Each request is (start, duration), in
s.
"""

import pytest
from recordings import Sent, session

from agentx_replay.plan.order import ended_before
from agentx_replay.plan.times import timed
from agentx_replay.traces.model import RecordedRequest

Recorded = list[tuple[float, float | None]]

CASES: dict[str, tuple[list[Recorded], list[list[list[tuple[int, int]]]]]] = {
    "the latest of another conversation that had ended": (
        [[(0, 1), (2, 1), (5, 9)], [(4, 2)]],
        [[[], [], []], [[(0, 1)]]],
    ),
    "requests that overlap are not ordered": ([[(0, 100)], [(10, 1), (20, 1)]], [[[]], [[], []]]),
    "order within a conversation is not said again": ([[(0, 1), (2, 1)]], [[[], []]]),
    "one that ends as it starts": ([[(0, 4)], [(4, 1)]], [[[]], [[(0, 0)]]]),
    # 1 + 0.14 is 1.1400000000000001 in floating point; 1000 + 140 is 1140.
    "a touch is judged in milliseconds": ([[(1, 0.14)], [(1.14, 1)]], [[[]], [[(0, 0)]]]),
    "those that start together are not ordered": ([[(5, 0)], [(5, 1)]], [[[]], [[]]]),
    "nor without durations": ([[(5, None)], [(5, None)]], [[[]], [[]]]),
    "one that took no time at that instant is passed over for the one before": (
        [[(0, 1), (5, 0)], [(5, 1)]],
        [[[], []], [[(0, 0)]]],
    ),
    "the latest is the one that ended last": (
        [[(0, 9), (1, 2)], [(10, 1)]],
        [[[], []], [[(0, 0)]]],
    ),
    # The third waits for the second, which itself waited for the first.
    "an edge that follows from another is left out": (
        [[(0, 1)], [(2, 1)], [(4, 1)]],
        [[[]], [[(0, 0)]], [[(1, 0)]]],
    ),
    "two that overlapped are both waited for": (
        [[(0, 3)], [(2, 1)], [(4, 1)]],
        [[[]], [[]], [[(0, 0), (1, 0)]]],
    ),
    "a missing duration is none": ([[(2, None)], [(3, 1)]], [[[]], [[(0, 0)]]]),
    "so is a negative one": ([[(2, -3)], [(3, 1)]], [[[]], [[(0, 0)]]]),
}


@pytest.mark.parametrize(("conversations", "edges"), CASES.values(), ids=CASES)
def test_a_request_waits_for_what_had_ended_in_other_conversations(
    conversations: list[Recorded], edges: list[list[list[tuple[int, int]]]]
) -> None:
    recorded = [
        [
            timed(entry, entry.start_s)
            for entry in session(
                *(Sent(start, "a", length) for start, length in conversation)
            ).entries
            if isinstance(entry, RecordedRequest)
        ]
        for conversation in conversations
    ]
    found = [[[*others] for others in turns] for turns in ended_before(recorded)]
    assert found == edges

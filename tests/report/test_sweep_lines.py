"""What is said of a corpus before the first request."""

from stream_graphs import graph, step
from virtual_replay import SCENARIO, plan_of

from agentx_replay.report.sweep_lines import family_lines, wrapping


def test_near_duplicates_are_named_by_family_the_first_four() -> None:
    lines = family_lines([("a", "b"), ("c", "d", "e", "f", "g", "h")])
    assert [line.rpartition(": ")[2].split() for line in lines] == [
        ["a,", "b"], ["c,", "d,", "e,", "f", "and", "2", "more"],
    ]  # fmt: skip


def test_sessions_that_repeat_across_lanes_are_told() -> None:
    graphs = [graph([step(0, 0)], session_id=name) for name in "ab"]
    assert wrapping(plan_of(graphs, 2, SCENARIO)) is None
    assert wrapping(plan_of(graphs, 3, SCENARIO)) == "2 sessions over 3 lanes"

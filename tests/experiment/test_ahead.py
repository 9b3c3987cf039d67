"""A lane's next play is ready before the lane needs it."""

import threading

import pytest
from stream_graphs import graph, turn
from virtual_replay import SCENARIO, NoText, plan_of

from agentx_replay.experiment.part import prepared_ahead
from agentx_replay.plan.plan import PlannedPlay

GRAPHS = [graph([turn(0, 0)], session_id=name) for name in "abc"]


@pytest.mark.parametrize("fails", [False, True])
def test_beginning_a_play_has_the_lanes_next_one_made_ready_by_another_thread(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    plan = plan_of(GRAPHS, 2, SCENARIO)
    made: list[tuple[int, int, str, bool]] = []
    next_is_made = threading.Event()

    def prompts(planned: PlannedPlay, lane: int, play_number: int) -> NoText:
        here = threading.current_thread() is threading.main_thread()
        made.append((lane, play_number, planned.session.id, here))
        if play_number:
            next_is_made.set()
            if fails:
                raise ValueError("no layout")
        return NoText()

    with prepared_ahead(plan, prompts) as source:
        source(plan.play(1, 0), 1, 0)
        assert next_is_made.wait(10)
    # Two lanes over three sessions: lane 1 plays b, then number 1 + 1·2 = 3, which is a again.
    assert sorted(made) == [(1, 0, "b", True), (1, 1, "a", False)]
    assert ("no layout" in caplog.text) == fails

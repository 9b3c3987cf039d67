"""The measured window in virtual time: what is sent when, caps, recycling, drain."""

import dataclasses
import re

from stream_graphs import graph, turn
from virtual_replay import SCENARIO, Outcome, S, replay

from agentx_replay.plan.graph import Spawn, TurnId
from agentx_replay.replay.peers import too_many_failed
from agentx_replay.replay.ports import Phase, Status
from agentx_replay.scenario import Scenario

LONG = graph([turn(0, 0), turn(1, 500, gap_s=500.0)], session_id="long")


def test_the_first_request_fires_at_the_barrier_and_gaps_follow_live_ends() -> None:
    session = graph([turn(0, 5), turn(1, 10, gap_s=4.0), turn(2, 30, gap_s=19.0)])
    run = replay([session], seconds=lambda d: 2.0)
    # 0–2, then 2+4 = 6–8, then 8+19 = 27–29; then the tree has drained and the lane recycles.
    assert run.log.sent()[:4] == [
        (0.0, 0, 0, 0, 0),
        (6.0, 0, 0, 0, 1),
        (27.0, 0, 0, 0, 2),
        (29.0, 0, 1, 0, 0),
    ]


def test_lanes_resume_at_their_offsets_from_t_star_with_one_common_shift() -> None:
    scenario = dataclasses.replace(SCENARIO, start_fraction=(0.5, 0.5))
    # t* = 50 of 0 … 100 in both: the first waits 10 s after it, the second 35; shifted by 10.
    # The window opens at 1 s, when the primers have returned.
    one = graph([turn(0, 0), turn(1, 60), turn(2, 100, gap_s=90.0)], session_id="one")
    two = graph([turn(0, 0), turn(1, 85), turn(2, 100, gap_s=90.0)], session_id="two")
    run = replay([one, two], lanes=2, scenario=scenario)
    assert run.log.sent()[:2] == [(1.0, 0, 0, 0, 1), (26.0, 1, 0, 0, 1)]


def test_a_drained_tree_is_followed_at_once_by_the_lanes_next_session_from_request_0() -> None:
    a = graph([turn(0, 0)], session_id="a")
    b = graph([turn(0, 0), turn(1, 2, gap_s=1.0)], session_id="b")
    c = graph([turn(0, 0)], session_id="c")
    run = replay([a, b, c], lanes=2, scenario=dataclasses.replace(SCENARIO, window_s=3.0))
    sent = [(d.lane, d.session_id, round(r.send_ns / S)) for d, r in run.log.requests]
    # Lane 0: a (q = 0), then q = 0 + 1·2 = 2, c. Lane 1: b, whose requests take 0–1 and 2–3.
    assert [row for row in sent if row[0] == 0][:2] == [(0, "a", 0), (0, "c", 1)]
    assert [row for row in sent if row[0] == 1] == [(1, "b", 0), (1, "b", 2)]


def test_which_session_comes_next_does_not_depend_on_speed() -> None:
    graphs = [graph([turn(0, 0)], session_id=name) for name in "abcd"]

    def sessions_by_lane(fast_lane: int) -> list[list[str]]:
        run = replay(graphs, lanes=2, seconds=lambda d: 1.0 if d.lane == fast_lane else 3.0)
        return [
            [d.session_id for d, _ in run.log.requests if d.lane == lane][:20] for lane in (0, 1)
        ]

    assert sessions_by_lane(0) == sessions_by_lane(1)


def test_n_trees_are_alive_at_all_times() -> None:
    graphs = [graph([turn(0, 0), turn(1, 3, gap_s=1.0 + i)], session_id=f"{i}") for i in range(3)]
    run = replay(graphs, lanes=2)
    assert run.result.window is not None
    for second in range(1, 100):
        at_ns = second * S
        alive = [
            play.lane
            for play in run.log.plays
            if play.start_ns <= at_ns and (play.end_ns is None or at_ns < play.end_ns)
        ]
        assert sorted(alive) == [0, 1]


def test_a_slot_is_held_until_background_children_have_drained() -> None:
    background = (Spawn(TurnId(0, 0), at_issue=True, offset_s=0.0), [turn(1, 0)])
    run = replay(
        [graph([turn(0, 0)], background)], seconds=lambda d: 9.0 if d.conversation else 1.0
    )
    assert run.log.sent()[:3] == [(0.0, 0, 0, 0, 0), (0.0, 0, 0, 1, 0), (9.0, 0, 1, 0, 0)]


def test_the_system_cap_skips_idle_time_for_all_lanes_by_one_shift() -> None:
    a = graph([turn(0, 0), turn(1, 60, gap_s=50.0)], session_id="a")
    b = graph([turn(0, 0), turn(1, 70, gap_s=57.0)], session_id="b")
    run = replay([a, b], lanes=2, scenario=dataclasses.replace(SCENARIO, system_idle_cap_s=10.0))
    # Idle from 1 s: a was due at 51 and fires at 11, 40 s skipped; b was due at 58, now at 18.
    assert run.log.sent()[2:4] == [(11.0, 0, 0, 0, 1), (12.0, 0, 1, 0, 0)]
    assert (18.0, 1, 0, 0, 1) in run.log.sent()


def test_the_system_cap_does_not_bite_while_anything_is_in_flight() -> None:
    a = graph([turn(0, 0), turn(1, 60, gap_s=50.0)], session_id="a")
    b = graph([turn(0, 0)], session_id="b")
    run = replay(
        [a, b],
        lanes=2,
        scenario=dataclasses.replace(SCENARIO, system_idle_cap_s=10.0),
        seconds=lambda d: 1.0 if d.lane == 0 else 60.0,
    )
    assert (51.0, 0, 0, 0, 1) in run.log.sent()
    assert run.result.window is not None
    assert run.result.window.system_skipped_s == 0.0


def test_the_session_idle_cap_counts_wall_time_and_moves_one_tree_alone() -> None:
    a = graph([turn(0, 0), turn(1, 90, gap_s=80.0)], session_id="a")
    busy = graph([turn(0, 0), *(turn(i, i * 2, gap_s=1.0) for i in range(1, 60))], session_id="b")
    run = replay(
        [a, busy], lanes=2, scenario=dataclasses.replace(SCENARIO, session_idle_cap_s=30.0)
    )
    # a is idle from 1 s; at 31 s its timer, due at 81, fires. The other lane goes on as it was.
    assert (31.0, 0, 0, 0, 1) in run.log.sent()
    assert (32.0, 1, 0, 0, 16) in run.log.sent()
    assert [p.session_skipped_s for p in run.log.plays if (p.lane, p.play_number) == (0, 0)] == [
        50.0
    ]


def test_a_system_shift_does_not_restart_the_trees_count() -> None:
    scenario = dataclasses.replace(SCENARIO, system_idle_cap_s=10.0, session_idle_cap_s=15.0)
    a = graph([turn(0, 0), turn(1, 900, gap_s=900.0)], session_id="a")
    b = graph([turn(0, 0), turn(1, 90, gap_s=80.0), turn(2, 900, gap_s=900.0)], session_id="b")
    run = replay([a, b], lanes=2, scenario=scenario)
    # Both idle at 1; system shift: b fires at 11, ends 12. a, idle since 1, fires at 1 + 15 = 16.
    assert run.log.sent()[2:4] == [(11.0, 1, 0, 0, 1), (16.0, 0, 0, 0, 1)]


AFTER_A_WARM_UP = dataclasses.replace(SCENARIO, warmup_requests=1, session_idle_cap_s=8.0)


def first_in_the_window(scenario: Scenario) -> list[tuple[float, int]]:
    """(second since the opening, lane) of the first requests of four lanes, of which the first is
    due as the window opens and the others minutes later. Lane k's warm-up ends at second k + 1.
    """
    sessions = [
        graph([turn(0, 0), turn(1, due_s, gap_s=due_s), turn(2, 900, gap_s=500.0)], session_id=name)
        for name, due_s in (("a", 100), ("b", 400), ("c", 500), ("d", 600))
    ]
    run = replay(
        sessions,
        lanes=4,
        scenario=scenario,
        seconds=lambda d: d.lane + 1.0 if d.phase is Phase.CACHE_PRESSURE else 60.0,
    )
    assert run.result.window is not None
    assert run.result.window.open_ns == 4 * S
    return [(round(at_s - 4.0, 3), lane) for at_s, lane, *_ in run.log.sent()[:4]]


def test_officially_the_cap_of_all_trees_counts_from_the_opening() -> None:
    assert first_in_the_window(AFTER_A_WARM_UP) == [(0.0, 0), (8.0, 1), (8.0, 2), (8.0, 3)]


def test_the_cap_of_each_tree_counts_from_its_own_last_end_where_the_scenario_says_so() -> None:
    scenario = dataclasses.replace(AFTER_A_WARM_UP, session_idle_from="last_end")
    # Idle as the window opens, and a lane's fraction of 8 s: lane 1 for 2 s + 4.944, lane 2 for
    # 1 s + 1.889, lane 3 for 0 s + 6.833. The rest of the cap follows.
    assert first_in_the_window(scenario) == [(0.0, 0), (1.056, 1), (1.167, 3), (5.111, 2)]


def test_one_capped_gap_fires_one_timer_not_its_siblings() -> None:
    graphs = [
        graph([turn(0, 0), turn(1, 500, gap_s=100.0 + 40 * i)], session_id=f"{i}") for i in range(3)
    ]
    run = replay(graphs, lanes=3, scenario=dataclasses.replace(SCENARIO, system_idle_cap_s=10.0))
    # Due at 101, 141, 181 → 11, then (idle again at 12, next due 51) … the others keep their 40 s.
    second = [row for row in run.log.sent() if row[4] == 1]
    assert second[0] == (11.0, 0, 0, 0, 1)
    assert second[1][0] > 12.0


def test_nothing_starts_after_the_window_and_what_is_in_flight_drains() -> None:
    session = graph([turn(0, 0), turn(1, 9, gap_s=1.0)])
    run = replay(
        [session], scenario=dataclasses.replace(SCENARIO, window_s=7.0), seconds=lambda d: 4.0
    )
    # 0–4, 5–9: the second ends in the drain, and no third starts.
    assert run.log.sent() == [(0.0, 0, 0, 0, 0), (5.0, 0, 0, 0, 1)]
    assert run.result.window is not None
    assert run.result.window.close_ns == 7 * S
    assert run.result.window.drained_ns == 9 * S


def test_what_outlives_the_grace_is_cut_and_recorded_as_cut() -> None:
    scenario = dataclasses.replace(SCENARIO, window_s=5.0, grace_s=3.0)
    run = replay([LONG], scenario=scenario, seconds=lambda d: 1000.0)
    assert [(r.status, r.end_ns) for _, r in run.log.requests] == [(Status.CUT, 8 * S)]
    assert run.result.window is not None
    assert run.result.window.drained_ns == 8 * S


def test_a_failed_request_is_recorded_and_its_conversation_goes_on_after_the_gap() -> None:
    session = graph([turn(0, 0), turn(1, 9, gap_s=3.0)])
    run = replay(
        [session],
        scenario=dataclasses.replace(SCENARIO, window_s=4.5),
        status=lambda d: Status.FAILED if d.turn == 0 else Status.OK,
    )
    assert [(d.turn, r.status) for d, r in run.log.requests] == [
        (0, Status.FAILED),
        (1, Status.OK),
    ]


def test_an_overflow_ends_the_conversation_and_the_lane_takes_the_next_session() -> None:
    session = graph([turn(0, 0), turn(1, 9, gap_s=3.0)])
    run = replay(
        [session],
        scenario=dataclasses.replace(SCENARIO, window_s=1.5),
        status=lambda d: Status.OVERFLOW,
    )
    assert run.log.sent() == [(0.0, 0, 0, 0, 0), (1.0, 0, 1, 0, 0)]
    assert run.endpoint.ended_conversations[0] == "t-c1-l0-p0-s0"


def test_the_run_stops_when_more_than_a_tenth_failed_of_twenty() -> None:
    session = graph([turn(i, i) for i in range(50)])
    run = replay([session], status=lambda d: Status.FAILED if d.turn < 3 else Status.OK)
    # 3 failures: of 20 ended that is 15 %.
    assert len(run.log.requests) == 20
    assert run.result.failure is not None
    assert run.result.failure.code == "too-many-failed"
    assert re.findall(r"\d+%?", run.result.failure.text) == ["3", "20", "10%"]


def test_the_share_that_stops_a_run() -> None:
    assert not too_many_failed(19, 19, 1)  # fewer than 20 have ended
    assert not too_many_failed(2, 20, 1)  # exactly a tenth
    assert too_many_failed(3, 20, 1)
    assert not too_many_failed(20, 63, 64)  # max(N, 20) is N here
    assert too_many_failed(20, 64, 64)


def test_stopping_in_the_window_drains_and_says_interrupted() -> None:
    run = replay([LONG], seconds=lambda d: 4.0, stop_at_s=2.0)
    assert run.result.interrupted
    assert run.result.failure is None
    assert run.result.window is not None
    assert run.result.window.close_ns == 2 * S
    assert [(r.status, r.end_ns) for _, r in run.log.requests] == [(Status.OK, 4 * S)]


def test_the_same_plan_gives_the_same_requests_twice() -> None:
    graphs = [graph([turn(0, 0), turn(1, 3, gap_s=i)], session_id=f"{i}") for i in range(5)]
    assert replay(graphs, lanes=3).log.sent() == replay(graphs, lanes=3).log.sent()


def test_a_request_names_the_conversation_that_spawned_its_own() -> None:
    """Conversation 2 is spawned by the child that is conversation 1, conversation 3 by nobody: by
    the main conversation.
    """
    by_main = (Spawn(TurnId(0, 0), at_issue=True, offset_s=0.0), [turn(1, 0)])
    by_child = (Spawn(TurnId(1, 0), at_issue=True, offset_s=0.0), [turn(2, 0)])
    with_play = (Spawn(None, at_issue=True, offset_s=0.0), [turn(3, 0)])
    run = replay([graph([turn(0, 0)], by_main, by_child, with_play)])
    first = [d for d, _ in run.log.requests if d.play_number == 0]
    play = first[0].play_id
    assert {d.conversation: d.parent_conversation_id for d in first} == {
        0: None,
        1: f"{play}-s0",
        2: f"{play}-s1",
        3: f"{play}-s0",
    }


# --- connecting ahead ---------------------------------------------------------------------------


def prepared(run: Outcome) -> list[tuple[float, int, str, float]]:
    """(second told, lane, conversation, second it is due) of each call, in order."""
    return [
        (at / S, lane, conversation, due / S)
        for at, lane, conversation, due in run.endpoint.prepared
    ]


def test_the_endpoint_is_told_of_each_conversation_500_ms_before_its_timer() -> None:
    child = (Spawn(TurnId(0, 0), at_issue=True, offset_s=4.0), [turn(4, 5)])
    session = graph([turn(0, 2), turn(2, 30, gap_s=7.0)], child)
    run = replay([session], scenario=dataclasses.replace(SCENARIO, window_s=20.0))
    # 0–1, the child at 4, and at 1 + 7 = 8 the second; its tree has drained at 9: the next play's
    # first request goes at once and was not seen coming. Its child follows at 13, and 9 + 1 + 7.
    assert prepared(run) == [
        (3.5, 0, "t-c1-l0-p0-s1", 4.0),
        (7.5, 0, "t-c1-l0-p0-s0", 8.0),
        (12.5, 0, "t-c1-l0-p1-s1", 13.0),
        (16.5, 0, "t-c1-l0-p1-s0", 17.0),
    ]


def test_a_timer_less_than_500_ms_away_is_told_at_once() -> None:
    session = graph([turn(0, 0), turn(1, 2, gap_s=0.03)])
    run = replay([session], scenario=dataclasses.replace(SCENARIO, window_s=1.5))
    assert prepared(run) == [(1.0, 0, "t-c1-l0-p0-s0", 1.03)]


def test_an_idle_cap_brings_the_telling_forward_with_the_timer() -> None:
    session = graph([turn(0, 0), turn(1, 60, gap_s=50.0)])
    rules = dataclasses.replace(SCENARIO, system_idle_cap_s=10.0, window_s=15.0)
    run = replay([session], scenario=rules)
    # Idle from 1 s: what was due at 51 is due at 11.
    assert prepared(run) == [(10.5, 0, "t-c1-l0-p0-s0", 11.0)]
    assert (11.0, 0, 0, 0, 1) in run.log.sent()


def test_a_timer_that_a_cap_fires_at_once_is_sent_without_being_told() -> None:
    session = graph([turn(0, 0), turn(1, 90, gap_s=80.0)])
    rules = dataclasses.replace(SCENARIO, session_idle_cap_s=30.0, window_s=31.5)
    run = replay([session], scenario=rules)
    # Idle from 1 s, due at 81: it fires when the tree has been idle for 30 s, which is 31.
    assert (31.0, 0, 0, 0, 1) in run.log.sent()
    assert prepared(run) == []


def test_no_connection_is_made_for_what_the_window_will_not_send() -> None:
    session = graph([turn(0, 0), turn(1, 60, gap_s=49.0)])
    run = replay([session], scenario=dataclasses.replace(SCENARIO, window_s=50.0))
    assert prepared(run) == []
    run = replay([session], scenario=dataclasses.replace(SCENARIO, window_s=50.5))
    assert prepared(run) == [(49.5, 0, "t-c1-l0-p0-s0", 50.0)]

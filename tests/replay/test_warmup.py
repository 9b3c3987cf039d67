"""Primers, cache pressure and the barrier in virtual time."""

import dataclasses
import re

import pytest
from stream_graphs import graph, turn
from virtual_replay import SCENARIO, S, replay

from agentx_replay.plan.graph import Join, Spawn, TurnId
from agentx_replay.replay.ports import Status
from agentx_replay.replay.warmup import Warmed, primer_offset_ns

FROM_THE_MIDDLE = dataclasses.replace(SCENARIO, start_fraction=(0.5, 0.5))


def test_primers_are_spread_so_that_all_t_stars_coincide() -> None:
    # Greatest lead 10 s: it fires first, one with lead 4 s fires 6 s later.
    offsets_ns = [primer_offset_ns(lead_s, 10.0) for lead_s in (4.0, 10.0, 0.5)]
    assert offsets_ns == [6 * S, 0, 9_500_000_000]


def test_every_conversation_with_history_and_a_future_is_primed_once_with_one_token() -> None:
    child = (Spawn(TurnId(0, 0), at_issue=False, offset_s=0.0), [turn(2, 45), turn(3, 70)])
    over = (Spawn(TurnId(0, 0), at_issue=False, offset_s=0.0), [turn(4, 20)])
    run = replay([graph([turn(0, 0), turn(1, 100)], child, over)], scenario=FROM_THE_MIDDLE)
    # t* = 50: main's primer has lead min(50, 10), the child's 5.
    assert run.log.sent("primer") == [(0.0, 0, 0, 0, 0), (5.0, 0, 0, 1, 0)]
    assert [d.max_tokens for d, _ in run.log.requests if d.phase == "primer"] == [1, 1]


def test_the_window_opens_when_all_have_returned_and_asks_for_the_recorded_tokens() -> None:
    run = replay([graph([turn(0, 0), turn(1, 100, output_tokens=7)])], scenario=FROM_THE_MIDDLE)
    assert run.result.window is not None
    assert run.result.window.open_ns == 1 * S
    window = [d for d, _ in run.log.requests if d.phase == "window"]
    assert window[0].max_tokens == 7


def test_cache_pressure_removes_gaps_counts_per_lane_and_holds_the_next_for_the_window() -> None:
    scenario = dataclasses.replace(SCENARIO, warmup_requests=3)
    session = graph([turn(i, 10.0 * i, gap_s=9.0) for i in range(9)])
    run = replay([session, session], lanes=2, scenario=scenario)
    assert run.log.sent("cache_pressure") == [
        (t, lane, 0, 0, int(t)) for t in (0.0, 1.0, 2.0) for lane in (0, 1)
    ]
    # The fourth fires when the window opens; later ones after their gaps again.
    window = [row for row in run.log.sent() if row[1] == 0]
    assert window[:2] == [(3.0, 0, 0, 0, 3), (13.0, 0, 0, 0, 4)]


def test_a_look_tells_what_has_returned_of_all() -> None:
    scenario = dataclasses.replace(FROM_THE_MIDDLE, warmup_requests=3)
    session = graph([turn(i, 10.0 * i, gap_s=9.0) for i in range(9)])
    run = replay([session, session], lanes=2, scenario=scenario, look_at_s=[0.5, 2.5, 4.5])
    # Both lanes' primers return at 1 s, their cache-pressure requests at 2, 3 and 4 s.
    assert [look.warmed for look in run.looks] == [Warmed(0, 2, 0, 6), Warmed(2, 2, 2, 6), None]


def test_cache_pressure_counts_children_and_recycled_plays_alike() -> None:
    scenario = dataclasses.replace(SCENARIO, warmup_requests=5)
    child = (Spawn(TurnId(0, 0), at_issue=True, offset_s=30.0), [turn(2, 30)])
    session = graph([turn(0, 0), turn(1, 50, gap_s=20.0, joins=[Join(1, 0.0)])], child)
    run = replay([session], scenario=scenario)
    # Play 0: main 0 and its child at once (its offset is a gap too), main 1 after the join;
    # then the tree has drained and the next play's first two fill the lane's five.
    assert run.log.sent("cache_pressure") == [
        (0.0, 0, 0, 0, 0),
        (0.0, 0, 0, 1, 0),
        (1.0, 0, 0, 0, 1),
        (2.0, 0, 1, 0, 0),
        (2.0, 0, 1, 1, 0),
    ]


def test_cache_pressure_keeps_the_order_across_conversations() -> None:
    scenario = dataclasses.replace(SCENARIO, warmup_requests=4)
    child = (Spawn(TurnId(0, 0), at_issue=True, offset_s=0.0), [turn(2, 1)])
    session = graph([turn(0, 0), turn(1, 50, after=[TurnId(1, 0)]), turn(3, 60)], child)
    run = replay([session], scenario=scenario, seconds=lambda d: 6.0 if d.conversation else 1.0)
    assert run.log.sent("cache_pressure") == [
        (0.0, 0, 0, 0, 0),
        (0.0, 0, 0, 1, 0),
        (6.0, 0, 0, 0, 1),
        (7.0, 0, 0, 0, 2),
    ]


def test_a_play_begun_in_the_warm_up_resumes_from_its_own_start() -> None:
    scenario = dataclasses.replace(SCENARIO, warmup_requests=3)
    a = graph([turn(0, 0), turn(1, 1)], session_id="a")
    b = graph([turn(0, 100), turn(1, 130, gap_s=29.0)], session_id="b")
    run = replay([a, b], lanes=1, scenario=scenario)
    # Two of a, the first of b; the second of b starts 30 s after b's start, and is the earliest.
    assert run.log.sent()[0] == (3.0, 0, 1, 0, 1)


def test_a_warm_up_of_failed_requests_alone_aborts_the_run_before_the_window() -> None:
    run = replay(
        [graph([turn(0, 0), turn(1, 100)])],
        scenario=FROM_THE_MIDDLE,
        status=lambda d: Status.FAILED,
    )
    assert run.result.window is None
    assert run.result.failure is not None
    assert run.result.failure.code == "warm-up-failed"
    assert " t-c1-l0-p0-s0-t0-primer of session s " in run.result.failure.text
    assert run.log.sent() == []


def test_failed_warm_ups_are_results_and_nothing_reaches_the_loops_error_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = graph([turn(0, 0), turn(1, 100)])
    run = replay(
        [session, session], lanes=2, scenario=FROM_THE_MIDDLE, status=lambda _: Status.FAILED
    )
    assert run.result.failure is not None
    assert [d.lane for d, _ in run.log.requests] == [0, 1]
    assert caplog.records == []


@pytest.mark.parametrize(("failed", "goes_on"), [(0, True), (1, True), (2, True), (3, False)])
def test_over_a_tenth_of_the_requests_must_fail_to_end_a_warm_up(
    failed: int, goes_on: bool
) -> None:
    # One primer a lane: 24 requests, of which 2.4 may fail once as many as lanes have ended.
    sessions = [graph([turn(0, 0), turn(1, 100)])] * 24
    run = replay(
        sessions,
        lanes=24,
        scenario=dataclasses.replace(FROM_THE_MIDDLE, window_s=1.0),
        status=lambda d: Status.FAILED if d.lane < failed and d.phase == "primer" else Status.OK,
    )
    assert (run.result.window is not None) is goes_on
    assert (run.result.failure is None) is goes_on


def test_a_warm_up_that_hangs_aborts_the_run_and_records_what_was_cut() -> None:
    scenario = dataclasses.replace(FROM_THE_MIDDLE, warmup_timeout_s=60.0)
    run = replay([graph([turn(0, 0), turn(1, 100)])], scenario=scenario, seconds=lambda d: 1e6)
    assert run.result.failure is not None
    assert run.result.failure.code == "warm-up-timed-out"
    assert re.findall(r"\d+ \w+", run.result.failure.text) == ["1 request", "60 s"]
    assert [(r.status, r.end_ns) for _, r in run.log.requests] == [(Status.CUT, 60 * S)]


def test_stopping_in_the_warm_up_ends_at_once() -> None:
    run = replay(
        [graph([turn(0, 0), turn(1, 100)])],
        scenario=FROM_THE_MIDDLE,
        seconds=lambda d: 500.0,
        stop_at_s=3.0,
    )
    assert run.result.interrupted
    assert run.result.failure is None
    assert [(r.status, r.end_ns) for _, r in run.log.requests] == [(Status.CUT, 3 * S)]


def test_unfinished_plays_are_recorded_without_an_end() -> None:
    run = replay([graph([turn(0, 0), turn(1, 900, gap_s=899.0)])])
    assert [(p.play_number, p.end_ns, p.requests_sent) for p in run.log.plays] == [(0, None, 1)]

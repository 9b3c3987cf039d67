"""Several workers of one level on one virtual clock: they do what a single one does, exactly.

Each worker is a ``Replay`` of its own with its own lanes; all they share is the page and the
server. Metrics are functions of the records, so equal records are equal metrics.
"""

import asyncio
import dataclasses
from collections.abc import Callable

from stream_graphs import graph, turn
from virtual_replay import SCENARIO, S
from virtual_workers import SHORT, from_each_start, shared_replay

from agentx_replay.replay.coordinator import RELEASE_AHEAD_NS, Coordinator, hung
from agentx_replay.replay.decision import Decider, Rules
from agentx_replay.replay.page import page_bytes, rows_of
from agentx_replay.replay.peers import Member
from agentx_replay.replay.ports import Status
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock
from agentx_replay.replay.window import INTERRUPTED


def test_primers_count_from_the_longest_lead_of_all_lanes() -> None:
    scenario = dataclasses.replace(SHORT, start_fraction=(0.5, 0.5))
    near = graph([turn(0, 47), turn(1, 53)], session_id="near")  # t* = 50, lead 3
    far = graph([turn(0, 0), turn(1, 100)], session_id="far")  # t* = 50, lead 10, the most there is
    run = shared_replay([near, far], lanes=2, workers=2, scenario=scenario)
    assert [(row[0] / S, row[2]) for row in from_each_start(run.log)["primer"]] == [(0, 1), (7, 0)]


def test_the_window_opens_for_all_when_the_slowest_has_warmed_up() -> None:
    scenario = dataclasses.replace(SHORT, warmup_requests=1)
    run = shared_replay(
        [graph([turn(i, i) for i in range(200)])] * 2,
        lanes=2,
        workers=2,
        scenario=scenario,
        seconds=lambda d: 9.0 if d.lane else 1.0,
    )
    opened = {r.window.open_ns for r in run.results if r.window is not None}
    assert len(opened) == 1
    # Ready at once and seen at the next look (5 ms), released for 20 ms later; the same after no
    # primers; 9 s of warm-up; the same again. A worker acts on what it sees at its next look.
    assert 9 * S < opened.pop() < 9.2 * S


def test_one_common_shift_moves_the_timers_of_every_worker() -> None:
    a = graph([turn(0, 0), turn(1, 60, gap_s=50.0)], session_id="a")
    b = graph([turn(0, 0), turn(1, 70, gap_s=57.0)], session_id="b")
    scenario = dataclasses.replace(SHORT, system_idle_cap_s=10.0)
    run = shared_replay([a, b], lanes=2, workers=2, scenario=scenario)
    sent = from_each_start(run.log)["window"]
    # Idle from 1 s: a was due at 51 and fires at 11, 40 s skipped; b was due at 58, now at 18.
    assert (11 * S, 12 * S, 0, 0, 0, 1) in sent
    assert (18 * S, 19 * S, 1, 0, 0, 1) in sent


def test_a_request_in_flight_at_one_worker_keeps_the_cap_from_all() -> None:
    a = graph([turn(0, 0), turn(1, 60, gap_s=50.0)], session_id="a")
    b = graph([turn(0, 0)], session_id="b")
    run = shared_replay(
        [a, b],
        lanes=2,
        workers=2,
        scenario=dataclasses.replace(SCENARIO, window_s=60.0, system_idle_cap_s=10.0),
        seconds=lambda d: 1.0 if d.lane == 0 else 60.0,
    )
    assert (51 * S, 52 * S, 0, 0, 0, 1) in from_each_start(run.log)["window"]


def test_the_failures_of_all_workers_together_stop_the_level() -> None:
    session = graph([turn(i, i) for i in range(50)])
    run = shared_replay(
        [session, session],
        lanes=2,
        workers=2,
        status=lambda d: Status.FAILED if d.lane and d.turn < 3 else Status.OK,
    )
    # Each second both end one. 3 failures: of 20 that is 15 %.
    assert run.reason is not None
    assert run.reason.code == "too-many-failed"
    assert len(run.log.requests) == 22  # the two under way drain


def watched(beats: Callable[[float], int], for_s: float) -> list[tuple[float, int]]:
    """Watch two workers for so many seconds, of which the first has beaten as often as ``beats``
    says of a second and the other always does; return when which was found hanging after 2 s.
    """

    async def main() -> list[tuple[float, int]]:
        clock = virtual_clock()
        page = bytearray(page_bytes(2))
        found: list[tuple[float, int]] = []
        coordinator = Coordinator(
            page,
            range(2),
            clock,
            Decider(Rules(S, 2, RELEASE_AHEAD_NS), clock),
            on_hung=lambda number: found.append((clock.now_ns() / S, number)),
            hang_after_s=2.0,
        )
        _, (one, other) = rows_of(page, 2)

        def play() -> None:
            clock.call_at(clock.now_ns() + 2_000_000, play)
            one.beats = beats(clock.now_ns() / S)
            other.beats += 1

        play()
        coordinator.start()
        await asyncio.sleep(for_s)
        assert coordinator.stopped == (hung(0, 2.0) if found else None)
        return found

    return run_virtual(main())


def test_a_worker_hangs_when_its_loop_has_not_come_round_for_so_long() -> None:
    def stops_at_1_s(second: float) -> int:
        return round(min(second, 1.0) * 500) + 1

    # Its last beat is seen by the look at 1.0 s at the latest; 400 looks later it is 3.0.
    ((at_s, number),) = watched(stops_at_1_s, 9.0)
    assert number == 0
    assert 2.99 < at_s <= 3.01


def test_a_worker_that_has_not_begun_or_is_done_does_not_hang() -> None:
    def from_3_to_4_s(second: float) -> int:
        return round(second * 500) if 3.0 < second < 4.0 else 0

    assert watched(from_3_to_4_s, 9.0) == []


def test_a_worker_that_was_told_to_stop_beats_on_while_it_drains_and_rests_when_it_leaves() -> None:
    async def main() -> None:
        clock = virtual_clock()
        page = bytearray(page_bytes(1))
        stops: list[int] = []
        member, (coordinator, (row,)) = Member(page, 0, 1, clock), rows_of(page, 1)
        member.attend(lambda: stops.append(clock.now_ns()), lambda: None)
        coordinator.stopped = 1
        await asyncio.sleep(1.0)
        assert row.beats == 201  # the first look, and one every 5 ms
        assert stops == [5_000_000]
        member.leave()
        assert row.beats == 0

    run_virtual(main())


def test_a_worker_that_is_slow_does_not_hang() -> None:
    assert watched(lambda second: 1 + int(second / 1.9), 12.0) == []


def test_a_stop_reaches_every_worker_in_the_window() -> None:
    session = graph([turn(i, i, gap_s=0.0) for i in range(50)])
    run = shared_replay([session, session], lanes=2, workers=2, stop_at_s=5.5)
    assert run.reason == INTERRUPTED
    assert all(result.interrupted and result.window for result in run.results)
    assert max(r.send_ns for _, r in run.log.requests) < 5.6 * S


def test_a_stop_ends_a_warm_up_at_once_also_for_who_waits_at_the_barrier() -> None:
    scenario = dataclasses.replace(SHORT, warmup_requests=1)
    run = shared_replay(
        [graph([turn(0, 0), turn(1, 500, gap_s=500.0)])] * 2,
        lanes=2,
        workers=2,
        scenario=scenario,
        seconds=lambda d: 400.0 if d.lane else 1.0,
        stop_at_s=3.0,
    )
    assert [(result.window, result.interrupted) for result in run.results] == [(None, True)] * 2
    assert max(r.end_ns for _, r in run.log.requests) < 3.1 * S

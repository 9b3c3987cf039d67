"""Timers by due time, and what moves them together."""

import asyncio

from agentx_replay.replay.timers import Alarm, TimerGroup, TimerQueue
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock


def timers() -> tuple[TimerQueue[str], TimerGroup[str], TimerGroup[str]]:
    return TimerQueue(), TimerGroup(), TimerGroup()


def taken(queue: TimerQueue[str], now_ns: int) -> list[tuple[int, str]]:
    out = []
    while (due := queue.pop_due(now_ns)) is not None:
        out.append(due)
    return out


def test_timers_come_by_due_time_and_ties_in_the_order_filed() -> None:
    queue, group, _ = timers()
    for due_ns, name in [(30, "c"), (10, "a"), (10, "b")]:
        queue.add(group, due_ns, name)
    assert queue.next_due_ns() == 10
    assert taken(queue, 20) == [(10, "a"), (10, "b")]
    assert taken(queue, 30) == [(30, "c")]
    assert queue.next_due_ns() is None


def test_a_common_shift_moves_all_and_later_timers_count_from_shifted_time() -> None:
    queue, group, _ = timers()
    queue.add(group, 100, "a")
    queue.skip(60)
    assert queue.next_due_ns() == 40
    assert queue.group_time_ns(group, 40) == 100
    queue.add(group, queue.group_time_ns(group, 40) + 5, "b")
    assert taken(queue, 45) == [(40, "a"), (45, "b")]


def test_a_groups_shift_moves_its_own_timers_alone() -> None:
    queue, one, other = timers()
    queue.add(one, 100, "one")
    queue.add(one, 130, "one later")
    queue.add(other, 100, "other")
    queue.skip_group(one, 90)
    assert queue.group_next_due_ns(one) == 10
    assert queue.group_next_due_ns(other) == 100
    assert taken(queue, 200) == [(10, "one"), (40, "one later"), (100, "other")]


def test_shifts_of_both_kinds_add_up() -> None:
    queue, group, _ = timers()
    queue.add(group, 100, "a")
    queue.skip_group(group, 30)
    queue.skip(20)
    assert queue.next_due_ns() == 50
    assert queue.group_next_due_ns(group) == 50
    assert taken(queue, 49) == []
    assert taken(queue, 50) == [(50, "a")]
    assert queue.group_next_due_ns(group) is None


def foreseen(queue: TimerQueue[str], until_ns: int) -> list[tuple[int, str]]:
    out = []
    while (soon := queue.foresee(until_ns)) is not None:
        out.append(soon)
    return out


def test_a_timer_is_foreseen_once_and_stays_pending() -> None:
    queue, group, _ = timers()
    queue.add(group, 100, "a")
    queue.add(group, 150, "b")
    queue.add(group, 300, "c")
    assert queue.next_unforeseen_ns() == 100
    assert foreseen(queue, 150) == [(100, "a"), (150, "b")]
    assert foreseen(queue, 299) == []
    assert queue.next_unforeseen_ns() == 300
    assert taken(queue, 300) == [(100, "a"), (150, "b"), (300, "c")]


def test_a_timer_that_was_taken_is_not_foreseen_any_more() -> None:
    queue, group, _ = timers()
    queue.add(group, 100, "a")
    assert taken(queue, 100) == [(100, "a")]
    assert queue.next_unforeseen_ns() is None
    assert foreseen(queue, 100) == []


def test_shifts_move_what_is_foreseen_and_no_timer_is_told_twice_for_them() -> None:
    queue, group, other = timers()
    queue.add(group, 100, "a")
    queue.add(group, 400, "b")
    queue.add(other, 500, "c")
    assert foreseen(queue, 100) == [(100, "a")]
    queue.skip_group(group, 50)  # a at 50, b at 350
    queue.skip(40)  # a at 10, b at 310, c at 460
    assert foreseen(queue, 309) == []
    assert foreseen(queue, 460) == [(310, "b"), (460, "c")]
    assert taken(queue, 460) == [(10, "a"), (310, "b"), (460, "c")]


def rung_at(*asked_ns: int | str | None) -> list[int]:
    """When an alarm rings that is asked for these instants, cancelled, or waited for 1 s."""

    async def main() -> list[int]:
        clock = virtual_clock()
        rings: list[int] = []
        alarm = Alarm(clock, lambda: rings.append(clock.now_ns()))
        for asked in asked_ns:
            if asked == "cancel":
                alarm.cancel()
            elif asked == "wait":
                await asyncio.sleep(1.0)
            elif not isinstance(asked, str):
                alarm.by(asked)
        await asyncio.sleep(2.0)
        return rings

    return run_virtual(main())


def test_an_alarm_rings_once_at_the_earliest_instant_asked_for() -> None:
    assert rung_at(300, 200, None, 250) == [200]
    assert rung_at(None) == []
    assert rung_at(100, "cancel", 400, "wait", 2_000_000_000) == [400, 2_000_000_000]

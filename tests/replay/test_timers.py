"""Timers by due time, and what moves them together."""

from agentx_replay.replay.timers import TimerGroup, TimerQueue


def taken(queue: TimerQueue[str], now_ns: int) -> list[tuple[int, str]]:
    out = []
    while (due := queue.pop_due(now_ns)) is not None:
        out.append(due)
    return out


def test_timers_come_by_due_time_and_ties_in_the_order_filed() -> None:
    queue: TimerQueue[str] = TimerQueue()
    group: TimerGroup[str] = TimerGroup()
    for due_ns, name in [(30, "c"), (10, "a"), (10, "b")]:
        queue.add(group, due_ns, name)
    assert queue.next_due_ns() == 10
    assert taken(queue, 20) == [(10, "a"), (10, "b")]
    assert taken(queue, 30) == [(30, "c")]
    assert queue.next_due_ns() is None


def test_a_common_shift_moves_all_and_later_timers_count_from_shifted_time() -> None:
    queue: TimerQueue[str] = TimerQueue()
    group: TimerGroup[str] = TimerGroup()
    queue.add(group, 100, "a")
    queue.skip(60)
    assert queue.next_due_ns() == 40
    assert queue.group_time_ns(group, 40) == 100
    queue.add(group, queue.group_time_ns(group, 40) + 5, "b")
    assert taken(queue, 45) == [(40, "a"), (45, "b")]


def test_a_groups_shift_moves_its_own_timers_alone() -> None:
    queue: TimerQueue[str] = TimerQueue()
    one: TimerGroup[str] = TimerGroup()
    other: TimerGroup[str] = TimerGroup()
    queue.add(one, 100, "one")
    queue.add(one, 130, "one later")
    queue.add(other, 100, "other")
    queue.skip_group(one, 90)
    assert queue.group_next_due_ns(one) == 10
    assert queue.group_next_due_ns(other) == 100
    assert taken(queue, 200) == [(10, "one"), (40, "one later"), (100, "other")]


def test_shifts_of_both_kinds_add_up() -> None:
    queue: TimerQueue[str] = TimerQueue()
    group: TimerGroup[str] = TimerGroup()
    queue.add(group, 100, "a")
    queue.skip_group(group, 30)
    queue.skip(20)
    assert queue.next_due_ns() == 50
    assert queue.group_next_due_ns(group) == 50
    assert taken(queue, 49) == []
    assert taken(queue, 50) == [(50, "a")]
    assert queue.group_next_due_ns(group) is None

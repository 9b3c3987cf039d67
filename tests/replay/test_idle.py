"""By how much an idle cap moves pending timers. Instants in seconds for the reader."""

import pytest

from agentx_replay.replay.idle import WorkerState, idle_since_ns, session_shift_ns, system_shift_ns


def worker(
    next_due_ns: int | None, idle_since_ns: int = 100, idle_until_ns: int | None = None
) -> WorkerState:
    return WorkerState(idle_since_ns, idle_until_ns, next_due_ns, skipped_ns=0, ended=0, failed=0)


@pytest.mark.parametrize(
    ("workers", "cap", "shift"),
    [
        ([worker(110)], 10, 0),  # exactly at the cap: nothing to skip
        ([worker(111)], 10, 1),
        ([worker(500)], 10, 390),
        ([worker(500), worker(130)], 10, 20),  # the earliest of all workers decides
        ([worker(500), worker(None, 50, 100)], 10, 0),  # busy when the other became idle
        ([worker(500), worker(None, 50, 101)], 10, 390),  # all were idle for an instant
        ([worker(None)], 10, 0),
        ([worker(None), worker(300)], 10, 190),
        ([worker(300, 90), worker(400, 150)], 10, 140),  # idle since the last became so
        ([worker(0, 0), worker(300, 0)], 10, 0),  # due at instant 0 is due, not absent
    ],
)
def test_the_system_cap_shifts_all_by_what_the_earliest_exceeds_it(
    workers: list[WorkerState], cap: int, shift: int
) -> None:
    assert system_shift_ns(workers, cap) == shift


@pytest.mark.parametrize(
    ("next_due", "idle_since", "cap", "now", "shift"),
    [
        (1000, 0, 300, 299, 0),  # not idle for long enough
        (1000, 0, 300, 300, 700),  # the next fires now
        (300, 0, 300, 300, 0),
        (None, 0, 300, 900, 0),
    ],
)
def test_the_session_idle_cap_brings_the_next_timer_to_now(
    next_due: int | None, idle_since: int, cap: int, now: int, shift: int
) -> None:
    assert session_shift_ns(next_due, idle_since, cap, now) == shift


@pytest.mark.parametrize(
    ("last_end", "lane", "since"),
    [
        (1000, 0, 1000),  # ended as the window opened, at 1000: idle for nothing yet
        (950, 0, 950),
        (901, 0, 901),
        (900, 0, 1000),  # one whole cap of 100 before: it is left out
        (640, 0, 940),
        (1000, 1, 939),  # lane 1 counts from 0.618 of a cap earlier
        (1000, 2, 977),  # lane 2 from 0.236 (twice 0.618, less the whole)
        (950, 1, 989),  # 50 + 61 = 111 before: less a cap, 11
    ],
)
def test_a_trees_own_idle_time_is_less_than_a_cap_as_the_window_opens(
    last_end: int, lane: int, since: int
) -> None:
    assert idle_since_ns(last_end, 1000, 100, lane) == since


def test_without_a_cap_no_tree_is_idle_as_the_window_opens() -> None:
    assert idle_since_ns(640, 1000, 0, 3) == 1000

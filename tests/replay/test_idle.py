"""By how much an idle cap moves pending timers. Instants in seconds for the reader."""

import pytest

from agentx_replay.replay.idle import WorkerState, system_shift_ns, tree_shift_ns


def worker(in_flight: int, next_due_ns: int | None, idle_since_ns: int = 100) -> WorkerState:
    return WorkerState(in_flight, next_due_ns, idle_since_ns, skipped_ns=0, ended=0, failed=0)


@pytest.mark.parametrize(
    ("workers", "cap", "shift"),
    [
        ([worker(0, 110)], 10, 0),  # exactly at the cap: nothing to skip
        ([worker(0, 111)], 10, 1),
        ([worker(0, 500)], 10, 390),
        ([worker(0, 500), worker(0, 130)], 10, 20),  # the earliest of all workers decides
        ([worker(0, 500), worker(1, None)], 10, 0),  # one request anywhere: not idle
        ([worker(0, None)], 10, 0),
        ([worker(0, None), worker(0, 300)], 10, 190),
        ([worker(0, 300, 90), worker(0, 400, 150)], 10, 140),  # idle since the last became so
        ([worker(0, 0, 0), worker(0, 300, 0)], 10, 0),  # due at instant 0 is due, not absent
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
def test_the_tree_cap_brings_the_next_timer_to_now(
    next_due: int | None, idle_since: int, cap: int, now: int, shift: int
) -> None:
    assert tree_shift_ns(next_due, idle_since, cap, now) == shift

"""Ticks between which a loop has polled, and the wall clock beside the monotonic one."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from agentx_replay.endpoint import poll_times
from agentx_replay.endpoint.poll_times import PollTimes

MS = 1_000_000


class Machine(asyncio.SelectorEventLoop):
    """A loop whose timers and turns are made by hand, and the two clocks, in ns."""

    def __init__(self) -> None:
        super().__init__()
        self.monotonic, self.ahead = 1_000 * MS, 5_000 * MS
        self.due, self.soon = None, []  # type: ignore

    def call_later(self, delay, call, *more, **other):  # type: ignore
        self.due, self.delay_ms = call, round(delay * 1e3)
        return asyncio.TimerHandle(0.0, call, more, self)

    def call_soon(self, call, *more, **other):  # type: ignore
        self.soon.append(call)

    def turn(self, after_ms: float, *, timer: bool = True) -> None:
        self.monotonic += round(after_ms * MS)
        if timer:
            self.due()  # type: ignore
        calls, self.soon = self.soon, []
        for call in calls:
            call()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    loop = Machine()
    monkeypatch.setattr(time, "monotonic_ns", lambda: loop.monotonic)
    monkeypatch.setattr(time, "time_ns", lambda: loop.monotonic + loop.ahead)
    yield loop
    loop.soon = []
    loop.close()


def begun(machine: Machine, responses: int = 1, *, sparse: bool = True) -> PollTimes:
    polls = PollTimes(machine, sparse=sparse)
    for _ in range(responses):
        polls.begin()
    for _ in range(responses):
        polls.begun()
    return polls


def ticks_ms(polls: PollTimes) -> list[float]:
    return [at_ns / MS for at_ns in polls.ticks_ns(0)]


def test_a_tick_is_what_a_turn_of_the_loop_records_once(machine: Machine) -> None:
    """However many ask, and the timer beside them. The last is now."""
    polls = begun(machine)
    machine.turn(2)
    for _ in range(3):
        polls.ask()
    machine.turn(2)
    polls.ask()
    machine.turn(0.5, timer=False)
    machine.monotonic += MS
    assert ticks_ms(polls) == [1002, 1004, 1004.5, 1005.5]
    assert (polls.ticks_ns(1004 * MS) / MS).tolist() == [1004, 1004.5, 1005.5]
    assert (polls.ticks_ns(1002 * MS, 1004 * MS) / MS).tolist() == [1002, 1005.5]


@pytest.mark.parametrize(
    ("responses", "sparse", "awaited", "period_ms"),
    [
        (1, True, 0, 2),
        (128, True, 0, 2),
        (129, True, 0, 50),
        (129, True, 1, 2),
        (129, False, 0, 2),
    ],
)
def test_timers_are_sparse_where_many_responses_stream_and_none_is_awaited(
    machine: Machine, responses: int, sparse: bool, awaited: int, period_ms: int
) -> None:
    polls = begun(machine, responses - awaited, sparse=sparse)
    for _ in range(awaited):
        polls.begin()
    machine.turn(2)
    assert machine.delay_ms == period_ms


def test_a_request_makes_sparse_timers_dense(machine: Machine) -> None:
    polls = begun(machine, 200)
    machine.turn(2)
    assert machine.delay_ms == 50
    polls.begin()
    assert machine.delay_ms == 2


def test_timers_go_on_while_anything_is_in_flight(machine: Machine) -> None:
    polls = begun(machine)
    polls.end()
    machine.due, due = None, machine.due
    due()  # type: ignore
    assert machine.due is None
    polls.begin()
    assert machine.due is not None


def test_what_timers_were_late_adds_up(machine: Machine) -> None:
    """Each is due after 2 ms and may come 2 later. One that is due now counts as it is."""
    polls = begun(machine)
    for after_ms in (1, 20, 2):
        machine.turn(after_ms)
    late_ns = polls.late_ns
    machine.monotonic += 10 * MS
    assert (polls.late_by_ns() - late_ns, late_ns) == (10 * MS - 4 * MS, 20 * MS - 4 * MS)


@pytest.mark.parametrize("step_ms", [3.0, -3.0])
def test_a_step_of_the_wall_clock_makes_what_was_in_flight_late_and_uncertain(
    machine: Machine, step_ms: float
) -> None:
    """The smaller offset gives the later time: late is right, early never."""
    polls = begun(machine)
    machine.turn(2)
    machine.ahead += round(step_ms * MS)
    machine.turn(2)
    machine.turn(2)
    offset_ns = (5_000 + min(step_ms, 0)) * MS
    assert polls.offset_since(1_003 * MS) == polls.offset_since(1_004 * MS) == (offset_ns, 3 * MS)
    assert polls.offset_since(1_005 * MS) == ((5_000 + step_ms) * MS, 0)


def test_a_step_that_no_tick_has_seen_yet_is_seen(machine: Machine) -> None:
    polls = begun(machine)
    machine.ahead += 3 * MS
    assert polls.offset_since(1_000 * MS) == (5_000 * MS, 3 * MS)


def test_a_step_below_the_bound_is_none(machine: Machine) -> None:
    polls = begun(machine)
    machine.ahead += 90_000
    machine.turn(2)
    assert polls.offset_since(0) == (5_000 * MS, 0)


def test_old_ticks_go(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_times, "_MOST_TICKS", 4)
    polls = begun(machine)
    for _ in range(5):
        machine.turn(2)
    assert ticks_ms(polls)[:-1] == [1006, 1008, 1010]


async def test_a_loop_polls_its_sockets_between_two_ticks() -> None:
    """What is sent after a tick is read before the tick after the next, or in its turn."""
    loop = asyncio.get_running_loop()
    polls = PollTimes(loop, sparse=False)
    polls.begin()
    while len(polls.ticks_ns(0)) < 6:
        polls.ask()
        await asyncio.sleep(0.0005)
    polls.end()
    assert (polls.ticks_ns(0)[1:] > polls.ticks_ns(0)[:-1]).all()


def test_the_offset_of_the_clocks_is_taken_within_20_us() -> None:
    offset_ns = poll_times.clock_offset_ns(samples=1000)
    assert offset_ns is not None
    assert abs(time.time_ns() - time.monotonic_ns() - offset_ns) < 1_000 * MS


def test_a_clock_that_is_looked_at_too_slowly_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(0, 10**9, 30_000))
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(times))
    assert poll_times.clock_offset_ns() is None

"""When sockets are polled, and the wall clock beside the monotonic one."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from agentx_replay.endpoint import socket_polls
from agentx_replay.endpoint.socket_polls import SocketPolls

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


def begun(machine: Machine, responses: int = 1, *, gathers: bool = True) -> SocketPolls:
    polls = SocketPolls(machine, gathers=gathers)
    for _ in range(responses):
        polls.begin()
    for _ in range(responses):
        polls.begun()
    return polls


def ticks_ms(polls: SocketPolls) -> list[float]:
    return [at_ns / MS for at_ns in polls.ticks_ns(0)]


def test_a_timer_makes_a_tick_and_the_last_is_now(machine: Machine) -> None:
    polls = begun(machine)
    for after_ms in (2, 2, 0.5):
        machine.turn(after_ms)
    machine.monotonic += MS
    assert ticks_ms(polls) == [1002, 1004, 1005.5]
    assert (polls.ticks_ns(1004 * MS) / MS).tolist() == [1004, 1005.5]
    assert (polls.ticks_ns(1002 * MS, 1004 * MS) / MS).tolist() == [1002, 1005.5]


@pytest.mark.parametrize(
    ("responses", "gathers", "awaited", "period_ms"),
    [
        (1, True, 0, 2),
        (64, True, 0, 2),
        (65, True, 0, 50),
        (65, True, 1, 2),
        (65, False, 0, 2),
    ],
)
def test_timers_are_sparse_where_many_responses_stream_and_none_is_awaited(
    machine: Machine, responses: int, gathers: bool, awaited: int, period_ms: int
) -> None:
    polls = begun(machine, responses - awaited, gathers=gathers)
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
    monkeypatch.setattr(socket_polls, "_MOST_TICKS", 4)
    polls = begun(machine)
    for _ in range(5):
        machine.turn(2)
    assert ticks_ms(polls)[:-1] == [1006, 1008, 1010]


# --- sockets --------------------------------------------------------------------------------------


class Files:
    """Socket pairs whose near ends are polled; ``read`` has a place for each read of one."""

    def __init__(self, polls: SocketPolls, count: int) -> None:
        self.pairs = [socket.socketpair() for _ in range(count)]
        self.read: list[int] = []
        self.polls = polls
        for place, (near, _) in enumerate(self.pairs):
            polls.add(near.fileno(), partial(self._read, place))

    def _read(self, place: int) -> None:
        self.read.append(place)
        self.pairs[place][0].recv(100)

    def write(self, *places: int) -> None:
        for place in places:
            self.pairs[place][1].send(b"x")

    def close(self) -> None:
        for near, far in self.pairs:
            self.polls.remove(near.fileno())
            near.close()
            far.close()


@pytest.fixture
def files(machine: Machine) -> Iterator[Callable[..., Files]]:
    made = []

    def make(responses: int, *, gathers: bool = True) -> Files:
        made.append(Files(begun(machine, responses, gathers=gathers), 3))
        return made[-1]

    yield make
    for each in made:
        each.close()


def woken(machine: Machine) -> None:
    """Have the loop look at its files once, without waiting."""
    for key, _ in machine._selector.select(0):  # type: ignore[attr-defined]
        if key.data[0] is not None and key.fileobj is not machine._ssock:  # type: ignore[attr-defined]
            key.data[0]._run()


@pytest.mark.parametrize(("responses", "gathers"), [(64, True), (65, False)])
def test_the_loop_wakes_for_each_read_where_few_stream_or_the_process_stamps(
    machine: Machine, files: Callable[..., Files], responses: int, gathers: bool
) -> None:
    ours = files(responses, gathers=gathers)
    for place in (0, 1):
        ours.write(place)
        woken(machine)
    assert ours.read == [0, 1]


def test_many_are_read_by_the_millisecond_until_nothing_comes(
    machine: Machine, files: Callable[..., Files]
) -> None:
    """The first read wakes the loop; the timer makes the polls then; the loop wakes again after one
    that found nothing."""
    ours = files(65)
    ours.write(0)
    woken(machine)
    assert (ours.read, machine.delay_ms) == ([0], 1)
    ours.write(0, 1)
    woken(machine)
    assert ours.read == [0]
    machine.turn(1)
    assert sorted(ours.read) == [0, 0, 1]
    machine.turn(1)
    ours.write(2)
    woken(machine)
    assert sorted(ours.read) == [0, 0, 1, 2]


def test_a_timer_that_finds_the_first_bytes_polls_again_in_a_millisecond(
    machine: Machine, files: Callable[..., Files]
) -> None:
    """And not after the 50 ms that it was set to while nothing came."""
    ours = files(65)
    machine.turn(2)
    assert machine.delay_ms == 50
    ours.write(0)
    machine.turn(50)
    assert (ours.read, machine.delay_ms) == ([0], 1)


def test_a_tick_is_recorded_before_a_poll_and_at_most_once_a_millisecond(
    machine: Machine, files: Callable[..., Files]
) -> None:
    ours = files(1)
    for after_ms in (1, 0.5, 0.5):
        machine.monotonic += round(after_ms * MS)
        ours.write(0)
        woken(machine)
    assert ticks_ms(ours.polls)[:-1] == [1001, 1002]


def test_a_file_that_an_earlier_read_of_the_same_poll_has_closed_is_not_read(
    machine: Machine, files: Callable[..., Files]
) -> None:
    ours = files(1)
    for near, _ in ours.pairs[:2]:
        ours.polls.remove(near.fileno())
    (one, _), (other, _) = ours.pairs[:2]
    ours.polls.add(one.fileno(), partial(ours.polls.remove, other.fileno()))
    ours.polls.add(other.fileno(), partial(ours.polls.remove, one.fileno()))
    ours.write(0, 1)
    woken(machine)
    assert ours.polls.sockets == 2


def test_the_offset_of_the_clocks_is_taken_within_20_us() -> None:
    offset_ns = socket_polls.clock_offset_ns(samples=1000)
    assert offset_ns is not None
    assert abs(time.time_ns() - time.monotonic_ns() - offset_ns) < 1_000 * MS


def test_a_clock_that_is_looked_at_too_slowly_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(0, 10**9, 30_000))
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(times))
    assert socket_polls.clock_offset_ns() is None

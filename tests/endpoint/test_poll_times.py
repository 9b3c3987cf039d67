"""Ticks between which a loop has polled, and the wall clock beside the monotonic one."""

import asyncio
import time

import pytest
from client_cases import LOOPS

from agentx_replay.endpoint import poll_times
from agentx_replay.endpoint.poll_times import PollInterval, PollTimes

MS = 1_000_000


class Clocks:
    """The two clocks, set by hand, in ns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monotonic, self.ahead = 1_000 * MS, 5_000 * MS
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.monotonic)
        monkeypatch.setattr(time, "time_ns", lambda: self.monotonic + self.ahead)


class Timers(asyncio.SelectorEventLoop):
    """A loop whose timers are called by hand."""

    def call_later(self, delay, call, *more, **other):  # type: ignore
        self.next, self.delay_s = call, delay
        return asyncio.TimerHandle(0.0, call, more, self)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def ticking(clocks: Clocks, *after_ms: float) -> tuple[PollTimes, list[PollInterval]]:
    """Begin, and tick after each of these; return every interval that there was."""
    loop = Timers()
    polls = PollTimes(loop)
    polls.begin()
    intervals = [polls.interval]
    for ms in after_ms:
        clocks.monotonic += round(ms * MS)
        loop.next()
        intervals.append(polls.interval)
    loop.close()
    return polls, intervals


def test_what_is_read_after_a_tick_came_after_the_tick_before_it(clocks: Clocks) -> None:
    _, intervals = ticking(clocks, 1, 1, 20)
    assert [each.floor_ns // MS for each in intervals] == [1000, 1000, 1001, 1002]
    assert [each.end_ns and each.end_ns // MS for each in intervals] == [1001, 1002, 1022, None]
    assert [each.prompt for each in intervals] == [True, True, False, False]


def test_late_ticks_add_up(clocks: Clocks) -> None:
    """Each is due after 2 ms and may come 2 later. One that is due now counts as it is."""
    polls, _ = ticking(clocks, 1, 20, 2)
    late_ns = polls.late_ns
    clocks.monotonic += 10 * MS
    assert (polls.late_by_ns() - late_ns, late_ns) == (
        10 * MS - 4 * MS,
        20 * MS - 4 * MS,
    )


@pytest.mark.parametrize("step_ms", [3.0, -3.0])
def test_a_step_of_the_wall_clock_makes_the_times_about_it_late_and_uncertain(
    clocks: Clocks, step_ms: float
) -> None:
    """The smaller offset gives the later time. What was read in the interval in which the clock was
    set, or in the next, may have been stamped on either side of it.
    """
    loop = Timers()
    polls = PollTimes(loop)
    polls.begin()
    before = polls.interval
    clocks.monotonic += MS
    loop.next()
    during = polls.interval
    clocks.ahead += round(step_ms * MS)
    clocks.monotonic += MS
    loop.next()
    after = polls.interval
    clocks.monotonic += MS
    loop.next()
    late_offset_ms = 5_000 + min(step_ms, 0)
    seen = [(each.offset_ns / MS, each.step_ns / MS) for each in (before, during, after)]
    assert seen == [(5_000, 0), (late_offset_ms, 3), (late_offset_ms, 3)]
    assert (polls.interval.offset_ns / MS, polls.interval.step_ns) == (5_000 + step_ms, 0)
    loop.close()


def test_what_ends_a_long_wait_is_bounded_as_closely_as_what_follows_it(clocks: Clocks) -> None:
    polls, intervals = ticking(clocks, *[2] * 100)
    assert intervals[99].prompt
    assert polls.interval.floor_ns == clocks.monotonic - 2 * MS


def test_a_step_below_the_bound_is_none(clocks: Clocks) -> None:
    loop = Timers()
    polls = PollTimes(loop)
    polls.begin()
    clocks.ahead += 90_000
    loop.next()
    assert (polls.interval.offset_ns, polls.interval.step_ns) == (5_000 * MS, 0)
    loop.close()


@pytest.mark.parametrize("loops", LOOPS.values(), ids=LOOPS)
def test_ticks_go_on_while_anybody_needs_them(loops: type[asyncio.AbstractEventLoop]) -> None:
    async def test() -> None:
        polls = PollTimes(asyncio.get_running_loop())
        polls.begin()
        first = polls.interval
        while polls.interval is first:
            await asyncio.sleep(0.001)
        polls.end()
        while polls.interval.end_ns is None:
            await asyncio.sleep(0.001)
        last = polls.interval
        await asyncio.sleep(0.01)
        assert polls.interval is last
        polls.begin()
        assert polls.interval is not last
        polls.end()

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(test())


def test_the_offset_of_the_clocks_is_taken_within_20_us() -> None:
    offset_ns = poll_times.clock_offset_ns(samples=1000)
    assert offset_ns is not None
    assert abs(time.time_ns() - time.monotonic_ns() - offset_ns) < 1_000 * MS


def test_a_clock_that_is_looked_at_too_slowly_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(0, 10**9, 30_000))
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(times))
    assert poll_times.clock_offset_ns() is None

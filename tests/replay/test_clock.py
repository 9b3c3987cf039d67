"""Real clocks: timers that are exact enough, and never early."""

import asyncio
import time
from contextlib import nullcontext

import pytest
import uvloop

from agentx_replay.replay.clock import LoopClock, real_clock
from agentx_replay.replay.ports import Clock
from agentx_replay.replay.timerfd import TimerFdClock, kernel_has_timerfd

MS = 1_000_000


async def fired(clock: Clock, delays_ns: list[int]) -> list[tuple[int, int]]:
    """(due, fired) of timers set at once, in the order they fired."""
    start_ns = clock.now_ns()
    log: list[tuple[int, int]] = []
    done = asyncio.get_running_loop().create_future()

    def fire(due_ns: int) -> None:
        log.append((due_ns, clock.now_ns()))
        if len(log) == len(delays_ns):
            done.set_result(None)

    for delay_ns in delays_ns:
        due_ns = start_ns + delay_ns
        clock.call_at(due_ns, lambda due_ns=due_ns: fire(due_ns))  # type: ignore[misc]
    await done
    return log


DELAYS_NS = [5 * MS, 0, 1_300_000, 700_000, -MS, 2_000_001]


def check(log: list[tuple[int, int]]) -> None:
    assert [due_ns for due_ns, _ in log] == sorted(due_ns for due_ns, _ in log)
    assert all(fired_ns >= due_ns for due_ns, fired_ns in log)


@pytest.mark.skipif(not kernel_has_timerfd(), reason="needs Linux")
@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_kernel_timers_fire_in_order_and_never_early(factory: object) -> None:
    async def main() -> list[tuple[int, int]]:
        with real_clock(asyncio.get_running_loop()) as clock:
            assert isinstance(clock, TimerFdClock)
            return await fired(clock, DELAYS_NS)

    with asyncio.Runner(loop_factory=factory) as runner:  # type: ignore[arg-type]
        check(runner.run(main()))


def test_a_loops_own_timers_are_armed_again_when_early() -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        for due_ns, fired_ns in await fired(clock, DELAYS_NS):
            assert fired_ns >= due_ns

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("of_kernel", [True, False])
def test_a_call_taken_back_is_not_made_and_others_are(of_kernel: bool) -> None:
    """Also by one that is due with it, or after it was made."""
    if of_kernel and not kernel_has_timerfd():
        pytest.skip("needs Linux")

    async def main() -> list[str]:
        log: list[str] = []
        loop = asyncio.get_running_loop()
        with real_clock(loop) if of_kernel else nullcontext(LoopClock(loop)) as clock:
            now_ns = clock.now_ns()
            done = loop.create_future()

            def first() -> None:
                log.append("first")
                second.cancel()

            clock.call_at(now_ns - 2 * MS, first)
            second = clock.call_at(now_ns - MS, lambda: log.append("second"))
            clock.call_at(now_ns + MS, lambda: log.append("taken back")).cancel()
            later = clock.call_at(now_ns + 2 * MS, lambda: log.append("later"))
            clock.call_at(now_ns + 5 * MS, lambda: done.set_result(None))
            await done
            later.cancel()
        return log

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == ["first", "later"]


def test_now_is_the_monotonic_clock() -> None:
    async def main() -> None:
        with real_clock(asyncio.get_running_loop()) as clock:
            before_ns = time.monotonic_ns()
            assert before_ns <= clock.now_ns() <= time.monotonic_ns()

    asyncio.run(main())

"""What the client records of its own lateness."""

from functools import partial

import pytest

from agentx_replay.replay.instrument import ClientLoad, LagSampler
from agentx_replay.replay.ports import TimerHandle
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock

MS = 1_000_000


class LateClock:
    """A clock whose third call comes late, by 7 ms."""

    def __init__(self, late_ns: int = 7 * MS) -> None:
        self._clock = virtual_clock()
        self._late_ns = late_ns
        self._calls = 0
        self.now_ns = self._clock.now_ns

    def call_at(self, when_ns: int, call: object) -> TimerHandle:
        self._calls += 1
        late_ns = self._late_ns if self._calls == 3 else 0
        assert callable(call)
        return self._clock.call_at(when_ns + late_ns, call)


def test_a_late_timer_is_recorded_with_its_lateness_and_the_next_counts_from_it() -> None:
    async def main() -> list[list[int]]:
        clock = LateClock()
        cpu = iter(range(0, 9_000, 1_000))
        sampler = LagSampler(clock, lambda: next(cpu))
        sampler.start()
        done = virtual_clock().loop.create_future()
        virtual_clock().call_at(48 * MS, lambda: done.set_result(None))
        await done
        sampler.stop()
        rows: list[list[int]] = sampler.take().tolist()
        return rows

    assert run_virtual(main()) == [
        [10 * MS, 0, 1_000],
        [20 * MS, 0, 2_000],
        [37 * MS, 7 * MS, 3_000],
        [47 * MS, 0, 4_000],
    ]


def test_each_sample_is_taken_once_and_goes_on_from_the_last_taken() -> None:
    async def main() -> tuple[list[list[int]], list[list[int]], list[list[int]], ClientLoad]:
        clock = virtual_clock()
        sampler = LagSampler(clock, lambda: clock.now_ns() // 4)  # a quarter of a core
        sampler.start()
        taken: list[list[list[int]]] = []
        for until_ms in (25, 45):
            done = clock.loop.create_future()
            clock.call_at(until_ms * MS, partial(done.set_result, None))
            await done
            taken.append(sampler.take().tolist())
        sampler.stop()
        return taken[0], taken[1], sampler.take().tolist(), sampler.load()

    first, second, rest, load = run_virtual(main())
    assert first == [[10 * MS, 0, 2_500_000], [20 * MS, 0, 5_000_000]]
    assert second == [[30 * MS, 0, 7_500_000], [40 * MS, 0, 10_000_000]]
    assert rest == []
    assert load == ClientLoad(0.25, 0.0)  # the load is of all four


def test_the_load_is_cpu_over_time_and_the_p99_of_the_lag_of_the_last_ten_seconds() -> None:
    async def main() -> tuple[ClientLoad, ClientLoad]:
        cpu_ns = iter(range(0, 10**12, 4 * MS))  # 4 ms of CPU every 10 ms
        clock = LateClock()
        sampler = LagSampler(clock, lambda: next(cpu_ns))
        before = sampler.load()
        sampler.start()
        done = virtual_clock().loop.create_future()
        virtual_clock().call_at(48 * MS, lambda: done.set_result(None))
        await done
        sampler.stop()
        return before, sampler.load()

    before, load = run_virtual(main())
    assert before == ClientLoad(0.0, 0.0)
    # Samples at 10, 20, 37 and 47 ms: 12 ms of CPU in 37. Lags 0, 0, 0, 7 ms: the 99th percentile
    # lies at rank 2.97, 97 % of the way from 0 to 7.
    assert load.cpu_share == pytest.approx(12 / 37)
    assert load.loop_lag_p99_ns == pytest.approx(0.97 * 7 * MS)


def test_stamps_are_whole_microseconds_that_do_not_drift_over_many_samples() -> None:
    async def main() -> list[int]:
        clock = virtual_clock()
        sampler = LagSampler(clock, lambda: clock.now_ns() // 3)  # a third of a core
        sampler.start()
        done = clock.loop.create_future()
        clock.call_at(10_005 * MS, lambda: done.set_result(None))
        await done
        sampler.stop()
        last: list[int] = sampler.take()[-1].tolist()
        return last

    # A thousand samples: 10 s, of which 3,333,333 µs of CPU.
    assert run_virtual(main()) == [10_000 * MS, 0, 3_333_333_000]


def test_a_process_that_was_stopped_for_hours_is_late_by_hours() -> None:
    hours_ms = 3 * 3_600_000

    async def main() -> list[list[int]]:
        sampler = LagSampler(LateClock(hours_ms * MS), lambda: 0)
        sampler.start()
        done = virtual_clock().loop.create_future()
        virtual_clock().call_at((hours_ms + 45) * MS, lambda: done.set_result(None))
        await done
        sampler.stop()
        rows: list[list[int]] = sampler.take().tolist()
        return rows

    # 10,800 s and more: beyond the 4,294 s of 32-bit microseconds.
    assert run_virtual(main())[2:] == [
        [(hours_ms + 30) * MS, hours_ms * MS, 0],
        [(hours_ms + 40) * MS, 0, 0],
    ]

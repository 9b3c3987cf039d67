"""What the client records of its own lateness."""

from collections.abc import Callable
from itertools import count

import pytest

from agentx_replay.replay.instrument import ClientLoad, LagSampler
from agentx_replay.replay.ports import TimerHandle
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock

MS = 1_000_000


class LateClock:
    """A clock whose third call comes late."""

    def __init__(self, late_ns: int) -> None:
        self._clock = virtual_clock()
        self._late_ns = late_ns
        self._calls = count(1)
        self.now_ns = self._clock.now_ns

    def call_at(self, when_ns: int, call: Callable[[], None]) -> TimerHandle:
        late_ns = self._late_ns if next(self._calls) == 3 else 0
        return self._clock.call_at(when_ns + late_ns, call)


def sampled(
    until_ms: int, *, late_ms: int = 7, cpu_step_ns: int = 1000
) -> tuple[list[tuple[int, ...]], ClientLoad, ClientLoad]:
    """The samples of a client whose third is late and that uses so much CPU between two; its load
    before them and after.
    """

    async def main() -> tuple[list[tuple[int, ...]], ClientLoad, ClientLoad]:
        samples: list[tuple[int, ...]] = []
        cpu_ns = count(0, cpu_step_ns)
        sampler = LagSampler(
            LateClock(late_ms * MS), lambda *sample: samples.append(sample), lambda: next(cpu_ns)
        )
        before = sampler.load()
        sampler.start()
        done = virtual_clock().loop.create_future()
        virtual_clock().call_at(until_ms * MS, lambda: done.set_result(None))
        await done
        sampler.stop()
        return samples, before, sampler.load()

    return run_virtual(main())


def test_a_late_timer_is_recorded_with_its_lateness_and_the_next_counts_from_it() -> None:
    samples, _, _ = sampled(48)
    assert samples == [
        (10 * MS, 0, 0), (20 * MS, 0, 1000), (37 * MS, 7 * MS, 2000), (47 * MS, 0, 3000),
    ]  # fmt: skip


def test_the_load_is_cpu_over_time_and_the_p99_of_the_lag() -> None:
    _, before, load = sampled(48, cpu_step_ns=4 * MS)
    assert before == ClientLoad(0.0, 0.0)
    # Samples at 10, 20, 37 and 47 ms: 12 ms of CPU in 37. Lags 0, 0, 0, 7 ms: the 99th percentile
    # lies at rank 2.97, 97 % of the way from 0 to 7.
    assert load.cpu_share == pytest.approx(12 / 37)
    assert load.loop_lag_p99_ns == pytest.approx(0.97 * 7 * MS)


def test_the_load_is_that_of_the_last_ten_seconds() -> None:
    samples, _, load = sampled(10_100)
    assert len(samples) > 1000
    assert load.loop_lag_p99_ns == 0.0  # the late one is older


def test_a_process_that_was_stopped_for_hours_is_late_by_hours() -> None:
    hours_ms = 3 * 3_600_000
    samples, _, _ = sampled(hours_ms + 45, late_ms=hours_ms)
    assert samples[2:] == [
        ((hours_ms + 30) * MS, hours_ms * MS, 2000), ((hours_ms + 40) * MS, 0, 3000),
    ]  # fmt: skip

"""What the client records of its own lateness."""

from agentx_replay.replay.instrument import LagSampler, Sample
from agentx_replay.replay.ports import TimerHandle
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock

MS = 1_000_000


class LateClock:
    """A clock whose third call comes 7 ms late."""

    def __init__(self) -> None:
        self._clock = virtual_clock()
        self._calls = 0
        self.now_ns = self._clock.now_ns

    def call_at(self, when_ns: int, call: object) -> TimerHandle:
        self._calls += 1
        late_ns = 7 * MS if self._calls == 3 else 0
        assert callable(call)
        return self._clock.call_at(when_ns + late_ns, call)


def test_a_late_timer_is_recorded_with_its_lateness_and_the_next_counts_from_it() -> None:
    async def main() -> list[Sample]:
        clock = LateClock()
        cpu = iter(range(100, 200))
        sampler = LagSampler(clock, lambda: next(cpu))
        sampler.start()
        done = virtual_clock().loop.create_future()
        virtual_clock().call_at(48 * MS, lambda: done.set_result(None))
        await done
        sampler.stop()
        return list(sampler.samples())

    assert run_virtual(main()) == [
        Sample(10 * MS, 0, 100),
        Sample(20 * MS, 0, 101),
        Sample(37 * MS, 7 * MS, 102),
        Sample(47 * MS, 0, 103),
    ]

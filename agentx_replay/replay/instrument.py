"""The client watches itself: how late the loop's timers fire and how much CPU it uses."""

import time
from array import array
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agentx_replay.replay.ports import Clock, TimerHandle

SAMPLE_EVERY_NS = 10_000_000


class Sample(NamedTuple):
    """One look at the client: when, how late the timer for it fired, CPU time used by then."""

    at_ns: int
    loop_lag_ns: int
    cpu_ns: int


class LagSampler:
    """Samples every 10 ms from ``start`` to ``stop``; 24 bytes a sample."""

    def __init__(self, clock: Clock, cpu_ns: Callable[[], int] = time.process_time_ns) -> None:
        self._clock = clock
        self._cpu_ns = cpu_ns
        self._samples = array("q")
        self._due_ns = 0
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Begin sampling."""
        self._arm(self._clock.now_ns())

    def stop(self) -> None:
        """Take no more samples."""
        if self._timer is not None:
            self._timer.cancel()

    def samples(self) -> Iterator[Sample]:
        """Return the samples taken, in order."""
        values = iter(self._samples)
        return map(Sample._make, zip(values, values, values, strict=True))

    def _arm(self, now_ns: int) -> None:
        # Counted from now, not from the last due time: after a stall one late sample tells it.
        self._due_ns = now_ns + SAMPLE_EVERY_NS
        self._timer = self._clock.call_at(self._due_ns, self._sample)

    def _sample(self) -> None:
        now_ns = self._clock.now_ns()
        self._samples.extend((now_ns, now_ns - self._due_ns, self._cpu_ns()))
        self._arm(now_ns)

"""The client watches itself: how late the loop's timers fire and how much CPU it uses."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agentx_replay.replay.ports import Clock, TimerHandle

SAMPLE_EVERY_NS = 10_000_000
_LOAD_SAMPLES = 1000
"""The last ten seconds, or fewer if the loop is late."""


@dataclass(frozen=True, slots=True)
class ClientLoad:
    """How busy a client was of late: the share of a core it used, and its loop lag P99 in ns."""

    cpu_share: float
    loop_lag_p99_ns: float


class LagSampler:
    """Samples every 10 ms from ``start`` to ``stop``. ``keep`` gets when it was, how late the timer
    for it fired, and the CPU time used by then, all in ns.
    """

    def __init__(
        self,
        clock: Clock,
        keep: Callable[[int, int, int], None],
        cpu_ns: Callable[[], int] = time.process_time_ns,
    ) -> None:
        self._clock = clock
        self._keep = keep
        self._cpu_ns = cpu_ns
        self._latest: deque[tuple[int, int, int]] = deque(maxlen=_LOAD_SAMPLES)
        self._due_ns = 0
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        # Counted from now, not from the last due time: after a stall one late sample tells it.
        self._due_ns = self._clock.now_ns() + SAMPLE_EVERY_NS
        self._timer = self._clock.call_at(self._due_ns, self._sample)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def load(self) -> ClientLoad:
        """Return the load over the last 1,000 samples: ten seconds."""
        if len(self._latest) < 2:
            return ClientLoad(0.0, 0.0)
        at_ns, lag_ns, cpu_ns = np.array(self._latest).T
        share = (cpu_ns[-1] - cpu_ns[0]) / (at_ns[-1] - at_ns[0])
        return ClientLoad(float(share), float(np.percentile(lag_ns, 99)))

    def _sample(self) -> None:
        now_ns = self._clock.now_ns()
        sample = now_ns, now_ns - self._due_ns, self._cpu_ns()
        self._latest.append(sample)
        self._keep(*sample)
        self.start()

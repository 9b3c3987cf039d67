"""The client watches itself: how late the loop's timers fire and how much CPU it uses."""

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentx_replay.replay.ports import Clock, TimerHandle

SAMPLE_EVERY_NS = 10_000_000
_COLUMNS = 3
_NS_A_US = 1000
_LOAD_SAMPLES = 1000
"""The last ten seconds, or fewer where the loop is late."""


@dataclass(frozen=True, slots=True)
class ClientLoad:
    """How busy a client was of late: the share of a core it used, and its loop lag P99 in ns."""

    cpu_share: float
    loop_lag_p99_ns: float


class LagSampler:
    """Samples every 10 ms from ``start`` to ``stop``, in whole µs.

    24 bytes a sample until it is taken: time and CPU are kept as steps from the sample before,
    which a stopped process may make hours long.
    """

    def __init__(self, clock: Clock, cpu_ns: Callable[[], int] = time.process_time_ns) -> None:
        self._clock = clock
        self._cpu_ns = cpu_ns
        self._samples = array("q")
        self._taken = 0
        self._taken_us = self._taken_cpu_us = 0
        self._last_us = self._last_cpu_us = 0
        self._due_ns = 0
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Begin sampling."""
        now_ns = self._clock.now_ns()
        self._taken_us = self._last_us = now_ns // _NS_A_US
        self._taken_cpu_us = self._last_cpu_us = self._cpu_ns() // _NS_A_US
        self._arm(now_ns)

    def stop(self) -> None:
        """Take no more samples."""
        if self._timer is not None:
            self._timer.cancel()

    def take(self) -> NDArray[np.int64]:
        """Return the samples since the last call, shape ``(n, 3)``: when it was, how late the timer
        for it fired, and the CPU time used by then, all in ns.
        """
        steps = np.array(self._samples[self._taken :], np.int64).reshape(-1, _COLUMNS)
        at_us = self._taken_us + np.cumsum(steps[:, 0])
        cpu_us = self._taken_cpu_us + np.cumsum(steps[:, 2])
        if len(steps):
            self._taken_us, self._taken_cpu_us = int(at_us[-1]), int(cpu_us[-1])
        del self._samples[: -_LOAD_SAMPLES * _COLUMNS]  # what ``load`` still needs stays
        self._taken = len(self._samples)
        return np.stack((at_us, steps[:, 1], cpu_us), axis=1) * _NS_A_US

    def load(self) -> ClientLoad:
        """Return the load over the last 1,000 samples: ten seconds."""
        latest = np.array(self._samples[-_LOAD_SAMPLES * _COLUMNS :], np.int64)
        gap_us, lag_us, cpu_us = latest.reshape(-1, _COLUMNS).T
        if len(gap_us) < 2:
            return ClientLoad(0.0, 0.0)
        share = cpu_us[1:].sum() / gap_us[1:].sum()
        return ClientLoad(float(share), float(np.percentile(lag_us, 99)) * _NS_A_US)

    def _arm(self, now_ns: int) -> None:
        # Counted from now, not from the last due time: after a stall one late sample tells it.
        self._due_ns = now_ns + SAMPLE_EVERY_NS
        self._timer = self._clock.call_at(self._due_ns, self._sample)

    def _sample(self) -> None:
        now_ns = self._clock.now_ns()
        now_us, cpu_us = now_ns // _NS_A_US, self._cpu_ns() // _NS_A_US
        lag_us = (now_ns - self._due_ns) // _NS_A_US
        self._samples.extend((now_us - self._last_us, lag_us, cpu_us - self._last_cpu_us))
        self._last_us, self._last_cpu_us = now_us, cpu_us
        self._arm(now_ns)

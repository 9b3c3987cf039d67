"""What is decided for all workers of a level, by the process that started them.

When all pass a barrier, by how much the system idle cap moves everybody's timers, and whether
the level stops. It looks at the shared page every 5 ms and runs no lane itself.
"""

from agentx_replay.replay.idle import system_shift_ns
from agentx_replay.replay.member import LOOK_EVERY_NS
from agentx_replay.replay.page import Cells, CoordinatorRow, Reading, WorkerRow
from agentx_replay.replay.peers import all_failing
from agentx_replay.replay.ports import Clock, TimerHandle

RELEASE_AHEAD_NS = 4 * LOOK_EVERY_NS
"""A barrier opens this long after it is released, so that every worker has seen it by then."""


class Coordinator:
    """Coordinates ``workers`` workers. ``reason`` says why the level was stopped, if it was.

    Idle time is skipped when two looks in a row find the same idle states. What the cap skips
    depends on those states and not on when the coordinator looks.
    """

    def __init__(
        self, cells: Cells, workers: int, clock: Clock, *, system_cap_ns: int, concurrency: int
    ) -> None:
        self._row = CoordinatorRow(cells)
        self._workers = [WorkerRow(cells, index) for index in range(workers)]
        self._clock = clock
        self._system_cap_ns = system_cap_ns
        self._concurrency = concurrency
        self._released = 0
        self._last: list[Reading | None] = []
        self._timer: TimerHandle | None = None
        self.reason: str | None = None

    def start(self) -> None:
        """Begin to look."""
        self._look()

    def finish(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def stop(self, reason: str) -> None:
        """Tell every worker to start nothing more; the first reason counts."""
        if self.reason is None:
            self.reason = reason
            self._row.stop()

    def _look(self) -> None:
        self._timer = self._clock.call_at(self._clock.now_ns() + LOOK_EVERY_NS, self._look)
        self._release()
        readings = [row.read() for row in self._workers]
        self._skip_idle_time(readings)
        self._judge(readings)
        self._last = readings

    def _release(self) -> None:
        if all(row.arrived > self._released for row in self._workers):
            self._row.release(self._released, self._clock.now_ns() + RELEASE_AHEAD_NS)
            self._released += 1

    def _skip_idle_time(self, readings: list[Reading | None]) -> None:
        skipped_ns = self._row.skipped_ns
        states = [r.state for r in readings if r is not None and r.state.skipped_ns == skipped_ns]
        if len(states) == len(readings) and readings == self._last:
            self._row.skipped_ns = skipped_ns + system_shift_ns(states, self._system_cap_ns)

    def _judge(self, readings: list[Reading | None]) -> None:
        states = [reading.state for reading in readings if reading is not None]
        failing = all_failing(states, self._concurrency)
        if failing is not None:
            self.stop(failing)

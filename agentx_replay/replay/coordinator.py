"""What is decided for all workers of a level, by the process that started them.

When all pass a barrier, by how much the system idle cap moves everybody's timers, whether a worker
hangs, and whether the level stops. It looks at the shared page every 5 ms and runs no lane itself.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agentx_replay.reason import Reason
from agentx_replay.replay.idle import system_shift_ns
from agentx_replay.replay.member import LOOK_EVERY_NS
from agentx_replay.replay.page import Cells, CoordinatorRow, Reading, WorkerRow
from agentx_replay.replay.peers import all_failing
from agentx_replay.replay.ports import Clock, TimerHandle

_NS = 1_000_000_000
RELEASE_AHEAD_NS = 4 * LOOK_EVERY_NS
"""A barrier opens this long after it is released, so that every worker has seen it by then."""

HANG_AFTER_S = 30.0
"""A worker whose loop has not come round for so long hangs. Its looks are 5 ms apart; the longest
that honest work ever kept a loop is under a second.
"""


def hung(number: int, silent_s: float) -> Reason:
    """Say that a worker hangs."""
    what = f"worker {number} hung (it did not move for {silent_s:g} s), so its lanes ended early"
    return Reason("worker-hung", what)


@dataclass(slots=True)
class _Silence:
    """For how many looks a worker's beats have stood still."""

    beats: int = 0
    looks: int = 0

    def looks_after(self, beats: int) -> int:
        """Take in what one more look has found; who is not looping is not silent."""
        still = beats == self.beats and beats > 0
        self.looks = self.looks + 1 if still else 0
        self.beats = beats
        return self.looks


class Coordinator:
    """Coordinates ``workers`` workers. ``reason`` says why the level was stopped, if it was.

    Idle time is skipped when two looks in a row find the same idle states. What the cap skips
    depends on those states and not on when the coordinator looks.

    ``on_hung`` is called with the number of a worker that hangs. For how long it did is counted in
    looks, not on the clock: when all have been suspended together, nobody hangs.
    """

    def __init__(
        self,
        cells: Cells,
        workers: int,
        clock: Clock,
        *,
        system_cap_ns: int,
        concurrency: int,
        on_hung: Callable[[int], None] = lambda _: None,
        hang_after_s: float = HANG_AFTER_S,
    ) -> None:
        self._row = CoordinatorRow(cells)
        self._workers = [WorkerRow(cells, index) for index in range(workers)]
        self._clock = clock
        self._system_cap_ns = system_cap_ns
        self._concurrency = concurrency
        self._on_hung = on_hung
        self._hang_after_s = hang_after_s
        self._silences = [_Silence() for _ in range(workers)]
        self._released = 0
        self._last: list[Reading | None] = []
        self._timer: TimerHandle | None = None
        self.reason: Reason | None = None

    def start(self) -> None:
        """Begin to look."""
        self._look()

    def finish(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def stop(self, reason: Reason) -> None:
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
        self._watch()
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

    def _watch(self) -> None:
        looks = round(self._hang_after_s * _NS) // LOOK_EVERY_NS
        for number, (row, silence) in enumerate(zip(self._workers, self._silences, strict=True)):
            if silence.looks_after(row.beats) == looks:
                self.stop(hung(number, self._hang_after_s))
                self._on_hung(number)

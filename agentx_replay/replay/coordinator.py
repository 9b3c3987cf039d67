"""What is decided for all workers of a level, by the process that started them.

When all pass a barrier, by how much the system idle cap moves everybody's timers, whether a worker
hangs, and whether the level stops. It looks at the shared page every 5 ms and runs no lane itself.
"""

from collections.abc import Callable

from agentx_replay.reason import Reason
from agentx_replay.replay.idle import WorkerState, system_shift_ns
from agentx_replay.replay.page import Page, rows_of
from agentx_replay.replay.peers import LOOK_EVERY_NS, failing
from agentx_replay.replay.ports import Clock, TimerHandle

_NS = 1_000_000_000
RELEASE_AHEAD_NS = 4 * LOOK_EVERY_NS
"""A barrier opens this long after it is released, so that every worker has seen it by then."""

HANG_AFTER_S = 30.0
"""A worker whose loop has not come round for so long hangs. Its looks are 5 ms apart; the longest
that honest work ever kept a loop is under a second.
"""


def hung(number: int, silent_s: float) -> Reason:
    what = f"worker {number} hung (it did not move for {silent_s:g} s), so its lanes ended early"
    return Reason("worker-hung", what)


class Coordinator:
    """Coordinates ``workers`` workers. ``reason`` says why the level was stopped, if it was.

    Idle time is skipped when two looks in a row find the same idle states. What the cap skips
    depends on those states and not on when the coordinator looks.

    ``on_hung`` is called with the number of a worker that hangs. For how long it did is counted in
    looks, not on the clock: when all have been suspended together, nobody hangs.
    """

    def __init__(
        self,
        page: Page,
        workers: int,
        clock: Clock,
        *,
        system_cap_ns: int,
        concurrency: int,
        on_hung: Callable[[int], None] = lambda _: None,
        hang_after_s: float = HANG_AFTER_S,
    ) -> None:
        self._row, self._workers = rows_of(page, workers)
        self._clock = clock
        self._system_cap_ns = system_cap_ns
        self._concurrency = concurrency
        self._on_hung = on_hung
        self._hang_after_s = hang_after_s
        self._beats = [0] * workers
        self._silent_looks = [0] * workers
        self._released = 0
        self._last: list[tuple[int, WorkerState] | None] = []
        self._timer: TimerHandle | None = None
        self.reason: Reason | None = None

    def start(self) -> None:
        self._look()

    def finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def stop(self, reason: Reason) -> None:
        """Tell every worker to start nothing more; the first reason counts."""
        if self.reason is None:
            self.reason = reason
            self._row.stopped = 1

    def _look(self) -> None:
        self._timer = self._clock.call_at(self._clock.now_ns() + LOOK_EVERY_NS, self._look)
        self._release()
        found = [row.read() for row in self._workers]
        states = [each[1] for each in found if each is not None]
        if found == self._last:
            self._skip_idle_time(states)
        self._last = found
        self._judge(states)
        self._watch()

    def _release(self) -> None:
        if all(row.arrived > self._released for row in self._workers):
            self._row.released_ns[self._released] = self._clock.now_ns() + RELEASE_AHEAD_NS
            self._released += 1

    def _skip_idle_time(self, states: list[WorkerState]) -> None:
        skipped_ns = self._row.skipped_ns
        knowing = [state for state in states if state.skipped_ns == skipped_ns]
        if len(knowing) == len(self._workers):
            self._row.skipped_ns = skipped_ns + system_shift_ns(knowing, self._system_cap_ns)

    def _judge(self, states: list[WorkerState]) -> None:
        ended, failed = sum(s.ended for s in states), sum(s.failed for s in states)
        reason = failing(ended, failed, self._concurrency)
        if reason is not None:
            self.stop(reason)

    def _watch(self) -> None:
        limit = round(self._hang_after_s * _NS) // LOOK_EVERY_NS
        for number, row in enumerate(self._workers):
            beats = row.beats
            silent = 0 < beats == self._beats[number]  # who is not looping is not silent
            self._silent_looks[number] = self._silent_looks[number] + 1 if silent else 0
            self._beats[number] = beats
            if self._silent_looks[number] == limit:
                self.stop(hung(number, self._hang_after_s))
                self._on_hung(number)

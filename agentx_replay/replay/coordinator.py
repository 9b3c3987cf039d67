"""The parent of a machine's workers, at the page they share: it looks every 5 ms or so, reports how
its workers stand, and writes what was decided for all. It runs no lane itself.

What is decided is in ``decision.py``.
"""

from collections.abc import Callable, Sequence

from agentx_replay.reason import Reason
from agentx_replay.replay.decision import Arrival, LevelState, MachineState
from agentx_replay.replay.idle import WorkerState, joint_state
from agentx_replay.replay.page import Page, rows_of
from agentx_replay.replay.peers import LOOK_EVERY_NS
from agentx_replay.replay.ports import Clock, TimerHandle
from agentx_replay.units import NS_PER_S

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
    """Coordinates one machine's ``workers``, given by their numbers in the level.

    At each look ``decided`` gets the machine's state and returns what holds for all, which the
    workers are told. Their idle states count when two looks in a row find the same. ``stopped``
    says why they were told to stop, if they were.

    ``on_hung`` is called with the row of a worker that hangs. For how long it did is counted in
    looks, not on the clock: when all have been suspended together, nobody hangs.
    """

    def __init__(
        self,
        page: Page,
        workers: Sequence[int],
        clock: Clock,
        decided: Callable[[MachineState], LevelState],
        *,
        on_hung: Callable[[int], None] = lambda _: None,
        hang_after_s: float = HANG_AFTER_S,
        look_every_ns: int = LOOK_EVERY_NS,
    ) -> None:
        self._look_every_ns = look_every_ns
        self._row, self._workers = rows_of(page, len(workers))
        self._numbers = workers
        self._clock = clock
        self._decided = decided
        self._on_hung = on_hung
        self._hang_after_s = hang_after_s
        self._beats = [0] * len(workers)
        self._silent_looks = [0] * len(workers)
        self._arrivals: tuple[Arrival, ...] = ()
        self._idle: WorkerState | None = None
        self._last: list[tuple[int, WorkerState] | None] = []
        self._timer: TimerHandle | None = None
        self.stopped: Reason | None = None
        self._released = 0

    def start(self) -> None:
        self._look()

    def finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def stop(self, reason: Reason) -> None:
        """Tell every worker here to start nothing more; the first reason counts."""
        self.stopped = self.stopped or reason
        self._row.stopped = 1

    def _look(self) -> None:
        self._timer = self._clock.call_at(self._clock.now_ns() + self._look_every_ns, self._look)
        self._arrive()
        self._watch()
        found = [row.read() for row in self._workers]
        states = [each[1] for each in found if each is not None]
        if found == self._last and len(states) == len(found):
            self._idle = joint_state(states) or self._idle
        self._last = found
        ended, failed = sum(s.ended for s in states), sum(s.failed for s in states)
        state = MachineState(self._arrivals, self._idle, ended, failed, self.stopped)
        self._tell(self._decided(state))

    def _arrive(self) -> None:
        """Report the next barrier when all are there; until it is released nobody comes further."""
        if all(row.arrived > len(self._arrivals) for row in self._workers):
            brought_s = [row.brought_s for row in self._workers]
            reached_ns = max(row.arrived_ns for row in self._workers)
            self._arrivals += (Arrival(reached_ns, min(brought_s), max(brought_s)),)

    def _tell(self, level: LevelState) -> None:
        for meeting in level.released[self._released :]:
            self._row.release(self._released, meeting)
            self._released += 1
        self._row.skipped_ns = level.skipped_ns
        if level.stopped is not None:
            self.stop(level.stopped)

    def _watch(self) -> None:
        limit = round(self._hang_after_s * NS_PER_S) // self._look_every_ns
        for index, row in enumerate(self._workers):
            beats = row.beats
            silent = 0 < beats == self._beats[index]  # who is not looping is not silent
            self._silent_looks[index] = self._silent_looks[index] + 1 if silent else 0
            self._beats[index] = beats
            if self._silent_looks[index] == limit:
                self.stop(hung(self._numbers[index], self._hang_after_s))
                self._on_hung(index)

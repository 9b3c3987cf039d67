"""One of several workers of a level: the ``Peers`` port over the shared page."""

from collections.abc import Callable
from dataclasses import dataclass

from agentx_replay.reason import Reason
from agentx_replay.replay.idle import WorkerState
from agentx_replay.replay.page import Cells, CoordinatorRow, WorkerRow
from agentx_replay.replay.peers import Meeting
from agentx_replay.replay.ports import Clock, TimerHandle

LOOK_EVERY_NS = 5_000_000


@dataclass(frozen=True, slots=True)
class _Awaited:
    barrier: int
    met: Callable[[Meeting], None]


class Member:
    """Worker number ``worker`` of ``workers``; looks at the page every 5 ms."""

    def __init__(self, cells: Cells, worker: int, workers: int, clock: Clock) -> None:
        self._rows = [WorkerRow(cells, index) for index in range(workers)]
        self._own = self._rows[worker]
        self._coordinator = CoordinatorRow(cells)
        self._clock = clock
        self._awaited: _Awaited | None = None
        self._told_skipped_ns = 0
        self._stopped = False
        self._timer: TimerHandle | None = None

    def attend(self, stop: Callable[[], None], wake: Callable[[], None]) -> None:
        """Begin to look: ``stop`` is called once when all are to stop, ``wake`` when idle time
        has been skipped that this worker has not been told of. Every look is a beat on the page.
        """

        def look() -> None:
            self._timer = self._clock.call_at(self._clock.now_ns() + LOOK_EVERY_NS, look)
            self._own.beat()
            if self._stopped:
                return
            if self._coordinator.stopped:
                self._stopped = True
                stop()
                return
            self._pass_barrier()
            if self._coordinator.skipped_ns != self._told_skipped_ns:
                wake()

        look()

    def leave(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._own.rest()

    def meet(self, brought_s: float, met: Callable[[Meeting], None]) -> None:
        """Call ``met`` when every worker has come to this barrier."""
        self._awaited = _Awaited(self._own.arrive(brought_s, self._clock.now_ns()), met)

    def tell(self, state: WorkerState) -> int:
        """Write it on the page; return what the coordinator has skipped so far."""
        self._own.write(state)
        self._told_skipped_ns = self._coordinator.skipped_ns
        return self._told_skipped_ns

    def failing(self, ended: int, failed: int) -> Reason | None:  # noqa: ARG002 - the port's signature
        """The coordinator decides over all workers."""
        return None

    def _pass_barrier(self) -> None:
        if self._awaited is None:
            return
        at_ns = self._coordinator.passed_ns(self._awaited.barrier)
        if at_ns is not None:
            met, self._awaited = self._awaited.met, None
            reached_ns = max(row.arrived_ns for row in self._rows)
            met(Meeting(reached_ns, at_ns, tuple(row.brought_s for row in self._rows)))

"""The other workers of a level, as one of them sees them: a port, the case of none, and the shared
page.

What holds for a whole level is decided by rules over the states of all workers, so that one worker
and several follow the same ones.
"""

from collections.abc import Callable
from typing import Protocol

from agentx_replay.reason import Reason
from agentx_replay.replay.idle import WorkerState, system_shift_ns
from agentx_replay.replay.page import Meeting, Page, rows_of
from agentx_replay.replay.ports import Clock, TimerHandle

FAILED_SHARE_TO_STOP = 0.10
ENDED_BEFORE_STOPPING = 20
LOOK_EVERY_NS = 5_000_000


class Peers(Protocol):
    """The workers of a level."""

    def meet(self, brought_s: float, met: Callable[[Meeting], None]) -> None:
        """Call ``met`` when every worker has come to this barrier."""

    def tell(self, state: WorkerState) -> int:
        """Report the state here; return how much idle time the system cap has skipped so far."""

    def failing(self, ended: int, failed: int) -> Reason | None:
        """Return why the level stops, given this worker's counts; None if others decide."""


class Alone:
    """The only worker of a level."""

    def __init__(self, clock: Clock, system_cap_ns: int, concurrency: int) -> None:
        self._clock = clock
        self._system_cap_ns = system_cap_ns
        self._concurrency = concurrency

    def meet(self, brought_s: float, met: Callable[[Meeting], None]) -> None:
        now_ns = self._clock.now_ns()
        met(Meeting(now_ns, now_ns, brought_s, brought_s))

    def tell(self, state: WorkerState) -> int:
        return state.skipped_ns + system_shift_ns([state], self._system_cap_ns)

    def failing(self, ended: int, failed: int) -> Reason | None:
        return failing(ended, failed, self._concurrency)


class Member:
    """The worker with row ``row`` of ``rows`` on its machine's page; looks there every 5 ms."""

    def __init__(self, page: Page, row: int, rows: int, clock: Clock) -> None:
        self._coordinator, workers = rows_of(page, rows)
        self._own = workers[row]
        self._clock = clock
        self._awaited: tuple[int, Callable[[Meeting], None]] | None = None
        self._told_skipped_ns = 0
        self._stopped = False
        self._timer: TimerHandle | None = None

    def attend(self, stop: Callable[[], None], wake: Callable[[], None]) -> None:
        """Begin to look: ``stop`` is called once when all are to stop, ``wake`` when idle time
        has been skipped that this worker has not been told of. Every look is a beat on the page.
        """

        def look() -> None:
            self._timer = self._clock.call_at(self._clock.now_ns() + LOOK_EVERY_NS, look)
            self._own.beats += 1
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
        if self._timer is not None:
            self._timer.cancel()
        self._own.beats = 0

    def meet(self, brought_s: float, met: Callable[[Meeting], None]) -> None:
        self._awaited = self._own.arrive(brought_s, self._clock.now_ns()), met

    def tell(self, state: WorkerState) -> int:
        self._own.write(state)
        self._told_skipped_ns = self._coordinator.skipped_ns
        return self._told_skipped_ns

    def failing(self, ended: int, failed: int) -> Reason | None:  # noqa: ARG002 - the port's signature
        return None  # the coordinator decides over all workers

    def _pass_barrier(self) -> None:
        if self._awaited is None:
            return
        barrier, met = self._awaited
        meeting = self._coordinator.meeting(barrier)
        if meeting is not None:
            self._awaited = None
            met(meeting)


def too_many_failed(failed: int, ended: int, concurrency: int) -> bool:
    """Whether the run stops: over 10 % failed, once max(N, 20) requests have ended."""
    enough = ended >= max(concurrency, ENDED_BEFORE_STOPPING)
    return enough and failed > FAILED_SHARE_TO_STOP * ended


def failing(ended: int, failed: int, concurrency: int) -> Reason | None:
    if not too_many_failed(failed, ended, concurrency):
        return None
    what = f"{failed} of {ended} requests failed, over {FAILED_SHARE_TO_STOP:.0%} of them"
    return Reason("too-many-failed", what)

"""The other workers of a level, as one of them sees them: a port, and the case of none.

What holds for a whole level is decided here by rules over the states of all workers, so that one
worker and several follow the same ones. How workers learn of each other is ``page.py``'s.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from agentx_replay.reason import Reason
from agentx_replay.replay.idle import WorkerState, system_shift_ns
from agentx_replay.replay.ports import Clock

FAILED_SHARE_TO_STOP = 0.10
ENDED_BEFORE_STOPPING = 20


@dataclass(frozen=True, slots=True)
class Meeting:
    """A barrier that all workers have reached.

    ``reached_ns`` is when the last came, ``at_ns`` the instant from which each goes on,
    ``brought_s`` what each had brought.
    """

    reached_ns: int
    at_ns: int
    brought_s: tuple[float, ...]


class Peers(Protocol):
    """The workers of a level."""

    def meet(self, brought_s: float, met: Callable[[Meeting], None]) -> None:
        """Call ``met`` when every worker has come to this barrier."""

    def tell(self, state: WorkerState) -> int:
        """Say how it stands here; return how much idle time the system cap has skipped in all."""

    def failing(self, ended: int, failed: int) -> Reason | None:
        """Return why the level stops, given this worker's counts; None where others decide."""


class Alone:
    """The only worker of a level."""

    def __init__(self, clock: Clock, system_cap_ns: int, concurrency: int) -> None:
        self._clock = clock
        self._system_cap_ns = system_cap_ns
        self._concurrency = concurrency

    def meet(self, brought_s: float, met: Callable[[Meeting], None]) -> None:
        """Nobody else has to come."""
        now_ns = self._clock.now_ns()
        met(Meeting(now_ns, now_ns, (brought_s,)))

    def tell(self, state: WorkerState) -> int:
        """Apply the system cap to this one state."""
        return state.skipped_ns + system_shift_ns([state], self._system_cap_ns)

    def failing(self, ended: int, failed: int) -> Reason | None:
        """Return why the level stops, if too many failed."""
        return failing(ended, failed, self._concurrency)


def too_many_failed(failed: int, ended: int, concurrency: int) -> bool:
    """Whether the run stops: over 10 % failed, once max(N, 20) requests have ended."""
    enough = ended >= max(concurrency, ENDED_BEFORE_STOPPING)
    return enough and failed > FAILED_SHARE_TO_STOP * ended


def failing(ended: int, failed: int, concurrency: int) -> Reason | None:
    """Return that too many failed, None where not."""
    if not too_many_failed(failed, ended, concurrency):
        return None
    what = f"{failed} of {ended} requests failed, over {FAILED_SHARE_TO_STOP:.0%} of them"
    return Reason("too-many-failed", what)


def all_failing(states: Iterable[WorkerState], concurrency: int) -> Reason | None:
    """The same over all workers."""
    counted = list(states)
    ended, failed = sum(s.ended for s in counted), sum(s.failed for s in counted)
    return failing(ended, failed, concurrency)

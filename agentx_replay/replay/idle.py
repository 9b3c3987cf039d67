"""What an idle cap does to pending timers: pure decisions, no clock, no heap.

Two caps, applied live and never by rewriting the trace. The *system* cap: from the moment no
request at all is in flight, the next timer fires within ``cap``; all pending timers move by one
common shift. The *session* cap: a tree with no request in flight for ``cap`` of wall time has its
next timer fire at once; its own timers move together. Order, overlap and joins are untouched.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

_GOLDEN = 0x9E3779B97F4A7C15
"""The fractional part of the golden ratio, in 64 bits: its multiples lie farthest apart."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The idle state of one worker of a level; instants are wall time, in ns.

    From ``idle_since_ns`` to ``idle_until_ns`` none of the worker's requests is in flight. The end
    is a promise: the first session cap that will fire (None: none will), unless a timer is due
    earlier. So the state stays true however late it is read. ``next_due_ns`` is the worker's next
    timer in that interval (None: no timer), with ``skipped_ns`` of idle time already skipped. A
    request counts as in flight while it is being issued, or the cap would fire its siblings too.
    ``ended`` and ``failed`` count requests of the window.
    """

    idle_since_ns: int
    idle_until_ns: int | None
    next_due_ns: int | None
    skipped_ns: int
    ended: int
    failed: int


def system_shift_ns(workers: Iterable[WorkerState], cap_ns: int) -> int:
    """Return by how much every pending timer moves earlier; 0 where the workers' last idle times
    have no instant in common.

    The system was idle from the instant at which the last worker became so. Whether it still is
    does not matter: a session's cap may have fired before anybody looked. The same states with the
    shift in them give 0.
    """
    idle_since_ns, until_ns, due_ns = _common(list(workers))
    if due_ns is None or (until_ns is not None and until_ns <= idle_since_ns):
        return 0
    return max(0, due_ns - (idle_since_ns + cap_ns))


def joint_state(workers: Sequence[WorkerState]) -> WorkerState | None:
    """Return the state of several workers as one, by which the system's shift is the same, without
    their counts; None if not all have skipped as much.
    """
    if len({state.skipped_ns for state in workers}) > 1:
        return None
    return WorkerState(*_common(workers), workers[0].skipped_ns, ended=0, failed=0)


def at_clock(state: WorkerState, ahead_ns: int) -> WorkerState:
    """Return the state by a clock that is ``ahead_ns`` ahead of its own."""
    until_ns, due_ns = (
        None if instant_ns is None else instant_ns + ahead_ns
        for instant_ns in (state.idle_until_ns, state.next_due_ns)
    )
    since_ns = state.idle_since_ns + ahead_ns
    return replace(state, idle_since_ns=since_ns, idle_until_ns=until_ns, next_due_ns=due_ns)


def _common(workers: Sequence[WorkerState]) -> tuple[int, int | None, int | None]:
    """Return since when and until when all were idle (the end before the beginning if they were
    not at once), and when the first timer of all was due.
    """
    untils_ns = [state.idle_until_ns for state in workers if state.idle_until_ns is not None]
    due_ns = [state.next_due_ns for state in workers if state.next_due_ns is not None]
    idle_since_ns = max(state.idle_since_ns for state in workers)
    return idle_since_ns, min(untils_ns, default=None), min(due_ns, default=None)


def idle_since_ns(last_end_ns: int, open_ns: int, cap_ns: int, lane: int) -> int:
    """Return from when a lane's tree counts as idle as the window opens, by its own last end.

    It lies less than one cap before the opening, so that trees fire one after another within one
    cap and not together: whole caps of the warm-up are left out, and lane k counts from a fraction
    of a cap earlier, that of k times the golden ratio, since a server that computes prompts in
    batches ends many in one instant.
    """
    earlier_ns = (lane * _GOLDEN % 2**64) * cap_ns >> 64
    return open_ns - (open_ns - last_end_ns + earlier_ns) % max(1, cap_ns)


def session_shift_ns(next_due_ns: int | None, idle_since_ns: int, cap_ns: int, now_ns: int) -> int:
    """Return by how much an idle tree's timers move earlier so that its next fires now.

    0 where the tree has not been idle for ``cap_ns`` yet, or has no timer to fire.
    """
    if next_due_ns is None or now_ns - idle_since_ns < cap_ns:
        return 0
    return max(0, next_due_ns - now_ns)

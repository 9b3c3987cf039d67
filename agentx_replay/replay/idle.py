"""What an idle cap does to pending timers: pure decisions, no clock, no heap.

Two caps, applied live and never by rewriting the trace. The *system* cap: from the moment no
request at all is in flight, the next timer fires within ``cap``; all pending timers move by one
common shift. The *tree* cap: a tree with no request in flight for ``cap`` of wall time has its
next timer fire at once; its own timers move together. Order, overlap and joins are untouched.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerState:
    """How it stands in one worker of a level; instants are wall time.

    ``in_flight`` counts requests on the wire and those due and being issued: a request that is
    due counts as in flight, else the cap would fire its siblings too. ``idle_since_ns`` is when
    the last of them ended, ``next_due_ns`` when its next timer fires (None where it has none),
    after ``skipped_ns`` of idle time. ``ended`` and ``failed`` count the window's requests.
    """

    in_flight: int
    next_due_ns: int | None
    idle_since_ns: int
    skipped_ns: int
    ended: int
    failed: int


def system_shift_ns(workers: Iterable[WorkerState], cap_ns: int) -> int:
    """Return by how much every pending timer moves earlier; 0 where the system is not idle.

    The system is idle from the instant at which the last worker became so.
    """
    states = list(workers)
    due_ns = [state.next_due_ns for state in states if state.next_due_ns is not None]
    if not due_ns or any(state.in_flight for state in states):
        return 0
    idle_since_ns = max(state.idle_since_ns for state in states)
    return max(0, min(due_ns) - (idle_since_ns + cap_ns))


def tree_shift_ns(next_due_ns: int | None, idle_since_ns: int, cap_ns: int, now_ns: int) -> int:
    """Return by how much an idle tree's timers move earlier so that its next fires now.

    0 where the tree has not been idle for ``cap_ns`` yet, or has no timer to fire.
    """
    if next_due_ns is None or now_ns - idle_since_ns < cap_ns:
        return 0
    return max(0, next_due_ns - now_ns)

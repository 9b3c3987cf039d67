"""How far the timestamp of each event of a stream may be from the truth.

A timestamp is that of a socket read, and can only be late. The kernel's is when the read's last
segment arrived, so it is exact for an event that ends its read, and for every event of a read of
one segment. Pure; times in ns of the monotonic clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agentx_replay.endpoint.kernel_stamps import NS, TIMESPEC
from agentx_replay.endpoint.socket_polls import LATE_NS, MAX_STEP_NS, TICK_NS, Times
from agentx_replay.units import NS_PER_S

_NONE = np.empty(0, np.int64)


@dataclass(slots=True, eq=False)
class ReadTimes:
    """When the reads of one response were made: one entry a read, in order.

    ``stamps`` are the kernel's, each a ``timespec``, or else this process's own ns. ``bounds``: the
    reads before whose timestamp any byte may have arrived, the last one too: the kernel did not
    stamp them, or could not receive in time. ``one_segment_each``: as many segments arrived as
    reads were made. Nothing arrived before ``sent_ns``. ``ticks_ns`` are the loop's ticks since
    then, and an instant after all reads. ``offset_ns`` turns stamps into times that are up to
    ``step_ns`` late.
    """

    stamped: bool
    sent_ns: int
    stamps: bytearray = field(default_factory=bytearray)
    bounds: list[int] = field(default_factory=list)
    one_segment_each: bool = False
    ticks_ns: Times = field(default_factory=lambda: _NONE)
    offset_ns: int = 0
    step_ns: int = 0
    _ns: Times = field(default_factory=lambda: _NONE)

    @property
    def exact(self) -> bool:
        """Whether each stamp is the truth, but for a step of the clock."""
        return self.stamped and self.one_segment_each and not self.bounds

    @property
    def reads(self) -> int:
        return len(self.stamps) // (TIMESPEC if self.stamped else NS).size

    def ns(self) -> Times:
        """Return the time of each read. What came in order has times in order."""
        if len(self._ns) != self.reads:
            self._ns = self._in_ns()
        return self._ns

    def _in_ns(self) -> Times:
        if not self.stamped:
            return np.frombuffer(bytes(self.stamps), np.int64)
        stamps = np.frombuffer(bytes(self.stamps), np.int64).reshape(-1, 2)
        ns = stamps[:, 0] * NS_PER_S + (stamps[:, 1] - self.offset_ns)
        in_order: Times = np.maximum.accumulate(np.maximum(ns, self.sent_ns))
        return in_order

    def around(self, ns: Times) -> tuple[Times, Times, Times]:
        """Return the two ticks before each instant, and the one after it. A stamp may be off by
        as much as no step of the clock is.
        """
        ticks = np.concatenate(([self.sent_ns, self.sent_ns], self.ticks_ns))
        at = np.searchsorted(self.ticks_ns, ns - (MAX_STEP_NS if self.stamped else 0), "right")
        return ticks[at], ticks[at + 1], ticks[np.minimum(at + 2, len(ticks) - 1)]


def event_times(reads: ReadTimes, at: Times, followed: Sequence[int]) -> tuple[Times, Times]:
    """Return when events arrived at the latest, and how much earlier each may have: one entry an
    event. ``at`` are the places of their reads in ``reads``, ``followed`` the reads in which more
    came after their last event.
    """
    if not len(at):
        return at, at
    ns = reads.ns()
    if not reads.stamped:
        return ns[at], _own_uncertainty(reads, ns)[at]
    if reads.exact:
        return ns[at], np.full(len(at), reads.step_ns)
    inexact = np.zeros(len(ns), np.bool_)
    inexact[reads.bounds] = True
    late = inexact[at]
    if not reads.one_segment_each:
        inexact[followed] = True
        late = inexact[at] | np.append(at[1:] == at[:-1], False)
    return ns[at], np.where(late, (ns - _floors(reads, ns))[at], 0) + reads.step_ns


def _floors(reads: ReadTimes, ns: Times) -> Times:
    """Return after which instant each read's bytes arrived: the loop had polled, and the kernel had
    stamped what came before them.
    """
    floors = np.maximum(reads.around(ns)[0], reads.sent_ns)
    floors[1:] = np.maximum(floors[1:], ns[:-1])
    bounded: Times = np.minimum(floors, ns)
    return bounded


def _own_uncertainty(reads: ReadTimes, ns: Times) -> Times:
    """Return how late this process may have been at each read: by as much as the ticks around it,
    or, where it was held up, by all the time since the tick before the last.
    """
    before, last, after = reads.around(ns)
    since_ns = ns - np.maximum(before, reads.sent_ns)
    late_ns = np.maximum(0, last - before - TICK_NS) + np.maximum(0, after - last - TICK_NS)
    return np.where(since_ns > LATE_NS, since_ns, np.minimum(since_ns, late_ns))


def late_events(reads: ReadTimes, uncertainty_ns: Times) -> int:
    """Return how many events have only an upper bound for a time."""
    return int(np.count_nonzero(uncertainty_ns > (0 if reads.stamped else LATE_NS)))


def gathered_reads(reads: ReadTimes, places: NDArray[np.int64]) -> int:
    """Return how many reads brought several of the events of these places although the client was
    in time: somebody else had gathered them.
    """
    several = places[1:][places[1:] == places[:-1]]
    if not len(several):
        return 0
    several = np.unique(several)
    if reads.one_segment_each:
        return len(several)
    before, _, after = reads.around(reads.ns()[several])
    return int(np.count_nonzero(after - before <= LATE_NS))

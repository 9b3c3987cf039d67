"""How far the timestamp of each event of a stream may be from the truth.

A timestamp is that of a socket read, and can only be late. The kernel's is when the read's last
segment arrived, so it is exact for an event that ends its read, and for every event of a read of
one segment. Pure; times in ns of the monotonic clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentx_replay.endpoint.poll_times import LATE_NS, PollInterval

Times = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class ReadTimes:
    """When the reads of one response were made: one entry a read, in order.

    ``stamps`` are the kernel's ``timespec``, or else this process's own ns. ``bounds``: the reads
    before whose timestamp any byte may have arrived, the last one too: the kernel did not stamp
    them, or could not receive in time. ``one_segment_each``: as many segments arrived as reads were
    made. Nothing arrived before ``sent_ns``.
    """

    stamped: bool
    sent_ns: int
    stamps: list[Any] = field(default_factory=list)
    intervals: list[PollInterval] = field(default_factory=list)
    bounds: set[int] = field(default_factory=set)
    one_segment_each: bool = False
    _ns: Times = field(default_factory=lambda: np.empty(0, np.int64))

    def ns(self) -> Times:
        """Return the time of each read. What came in order has times in order."""
        if len(self._ns) != len(self.stamps):
            self._ns = self._in_ns()
        return self._ns

    def _in_ns(self) -> Times:
        if not self.stamped:
            return np.array(self.stamps, np.int64)
        stamps = np.frombuffer(b"".join(self.stamps), np.int64).reshape(-1, 2)
        ns = stamps[:, 0] * 1_000_000_000 + stamps[:, 1] - self.per_read("offset_ns")
        in_order: Times = np.maximum.accumulate(np.maximum(ns, self.sent_ns))
        return in_order

    def per_read(self, name: str) -> Times | int:
        """Return a fact of each read's interval; one for all where it is the same."""
        facts: list[int] = list(map(attrgetter(name), self.intervals))
        return facts[0] if len(set(facts)) == 1 else np.array(facts, np.int64)


def event_times(reads: ReadTimes, at: Times, followed: Sequence[int]) -> tuple[Times, Times]:
    """Return when events arrived at the latest, and how much earlier each may have: one entry an
    event. ``at`` are the places of their reads in ``reads``, ``followed`` the reads in which more
    came after their last event. This process's own time of a read that it made promptly is as late
    as the ticks about it.
    """
    if not len(at):
        return at, at
    ns = reads.ns()
    steps_ns = np.broadcast_to(reads.per_read("step_ns"), len(ns))
    if reads.stamped and reads.one_segment_each and not reads.bounds:
        return ns[at], steps_ns[at]
    since_ns = ns - _floors(reads, ns)
    if reads.stamped:
        inexact = np.zeros(len(ns), np.bool_)
        inexact[list(reads.bounds)] = True
        late = inexact[at]
        if not reads.one_segment_each:
            inexact[followed] = True
            late = inexact[at] | np.append(at[1:] == at[:-1], False)
    else:
        late = (since_ns > LATE_NS)[at]
    promptly_ns = 0 if reads.stamped else np.minimum(since_ns, reads.per_read("late_ns"))[at]
    return ns[at], np.where(late, since_ns[at], promptly_ns) + steps_ns[at]


def late_events(reads: ReadTimes, uncertainty_ns: Times) -> int:
    """Return how many events have only an upper bound for a time."""
    return int(np.count_nonzero(uncertainty_ns > (0 if reads.stamped else LATE_NS)))


def gathered_reads(reads: ReadTimes, places: NDArray[np.int64]) -> int:
    """Return how many reads brought several of the events of these places although the client was
    in time: somebody else had gathered them.
    """
    several = set(places[1:][places[1:] == places[:-1]].tolist())
    return sum(1 for at in several if reads.one_segment_each or reads.intervals[at].prompt)


def _floors(reads: ReadTimes, ns: Times) -> Times:
    """Return after which instant each read's bytes arrived: the loop had looked, and the kernel had
    stamped what came before them.
    """
    floors: Times = np.array(np.broadcast_to(reads.per_read("floor_ns"), len(ns)))
    if reads.stamped:
        floors[1:] = np.maximum(floors[1:], ns[:-1])
    np.minimum(np.maximum(floors, reads.sent_ns), ns, out=floors)
    return floors

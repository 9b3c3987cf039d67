"""The one page that the workers of a level share: a row of eight-byte fields for each, and one
more.

Every row has one writer: a worker its own, the coordinator the first. A row that several fields
must agree in carries a sequence that is odd while it is being written. Every machine we run on
stores eight bytes at multiples of eight at once. Nobody relies on seeing a store at once: whoever
decides something looks twice, milliseconds apart.

Not for: deciding anything (``coordinator.py``), or making memory that processes share.
"""

from ctypes import Array, Structure, c_double, c_int64
from dataclasses import dataclass
from mmap import mmap
from typing import Any

from agentx_replay.replay.idle import WorkerState

Page = mmap | bytearray
"""Shared memory, all 0 at first; a bytearray in a test."""

_ROW_BYTES = 128
"""No two writers on one cache line, nor on a pair that is fetched together."""
_NONE = -1
_BARRIERS = 3
_STATE = WorkerState.__slots__


def page_bytes(workers: int) -> int:
    return (workers + 1) * _ROW_BYTES


def rows_of(page: Page, workers: int) -> "tuple[CoordinatorRow, list[WorkerRow]]":
    offsets = range(_ROW_BYTES, page_bytes(workers), _ROW_BYTES)
    workers_rows = [WorkerRow.from_buffer(page, offset) for offset in offsets]
    return CoordinatorRow.from_buffer(page), workers_rows


@dataclass(frozen=True, slots=True)
class Meeting:
    """A barrier that all workers of a level have reached.

    ``reached_ns`` is when the last came, ``at_ns`` the instant from which each goes on; the least
    and the most that any had brought.
    """

    reached_ns: int
    at_ns: int
    least_s: float
    most_s: float


class _Barrier(Structure):
    _fields_ = (
        ("at_ns", c_int64), ("reached_ns", c_int64), ("least_s", c_double), ("most_s", c_double),
    )  # fmt: skip


class CoordinatorRow(Structure):
    """What the coordinator says to all workers: whether to stop, how much idle time the system cap
    has skipped so far, and the meeting at each barrier (``at_ns`` is 0 if some are missing).
    """

    stopped: int
    skipped_ns: int
    barriers: "Array[_Barrier]"

    _fields_ = (
        ("stopped", c_int64), ("skipped_ns", c_int64), ("barriers", _Barrier * _BARRIERS),
    )  # fmt: skip

    def release(self, number: int, meeting: Meeting) -> None:
        barrier = self.barriers[number]
        barrier.least_s, barrier.most_s = meeting.least_s, meeting.most_s
        barrier.reached_ns = meeting.reached_ns
        barrier.at_ns = meeting.at_ns  # the last, since it is what a worker waits for

    def meeting(self, number: int) -> Meeting | None:
        """Return the meeting at a barrier, None if it is not released."""
        barrier = self.barriers[number]
        if not barrier.at_ns:
            return None
        return Meeting(barrier.reached_ns, barrier.at_ns, barrier.least_s, barrier.most_s)


class WorkerRow(Structure):
    """What a worker says to all: how many barriers it has come to, when it came to the last of them
    and what it brought; how often its loop has come round to the page (0 while it is not looping);
    and its state.
    """

    sequence: int
    arrived: int
    arrived_ns: int
    brought_s: float
    beats: int

    _fields_ = (
        ("sequence", c_int64), ("arrived", c_int64), ("arrived_ns", c_int64),
        ("brought_s", c_double), ("beats", c_int64), *((name, c_int64) for name in _STATE),
    )  # fmt: skip

    def arrive(self, brought_s: float, now_ns: int) -> int:
        """Come to the next barrier; return its number, from 0."""
        self.brought_s, self.arrived_ns = brought_s, now_ns
        self.arrived += 1
        return self.arrived - 1

    def write(self, state: WorkerState) -> None:
        self.sequence += 1
        for name in _STATE:
            value = getattr(state, name)
            setattr(self, name, _NONE if value is None else value)
        self.sequence += 1

    def read(self) -> tuple[int, WorkerState] | None:
        """Return the state and the sequence it was read under, which grows with every change; None
        if there is none yet, or it is being written.
        """
        sequence = self.sequence
        values: list[Any] = [getattr(self, name) for name in _STATE]
        values = [None if value == _NONE else value for value in values]
        whole = sequence > 0 and sequence % 2 == 0 and sequence == self.sequence
        return (sequence, WorkerState(*values)) if whole else None

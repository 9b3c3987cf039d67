"""The one page that the workers of a level share: a row of int64 cells for each, and one more.

Every row has one writer: a worker its own, the coordinator the first. A row that several cells
must agree in carries a sequence that is odd while it is being written. Cells are eight bytes at
multiples of eight, which every machine we run on stores at once. Nobody relies on seeing a store
at once: whoever decides something looks twice, milliseconds apart.

Not for: deciding anything (``coordinator.py``), or making memory that processes share.
"""

import struct
from dataclasses import dataclass
from typing import Protocol

from agentx_replay.replay.idle import WorkerState

_ROW_CELLS = 16
"""128 bytes: no two writers on one cache line, nor on a pair that is fetched together."""

_CELL_BYTES = 8
_STOPPED, _SKIPPED, _BARRIERS = range(3)
_SEQUENCE, _ARRIVED, _BROUGHT = range(3)
_IDLE_SINCE, _IDLE_UNTIL, _NEXT_DUE, _OWN_SKIPPED, _ENDED, _FAILED, _BEATS = range(3, 10)
_ARRIVED_AT = 10
_NONE = -1


def page_bytes(workers: int) -> int:
    """Return how large a page for so many workers is."""
    return (workers + 1) * _ROW_CELLS * _CELL_BYTES


class Cells(Protocol):
    """Shared int64 cells, all 0 at first: a cast memoryview, or an array in a test."""

    def __getitem__(self, index: int, /) -> int: ...

    def __setitem__(self, index: int, value: int, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Reading:
    """A worker's state, and the sequence it was read under: it grows with every change."""

    sequence: int
    state: WorkerState


class CoordinatorRow:
    """What the coordinator says to all workers."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells

    def passed_ns(self, barrier: int) -> int | None:
        """Return the instant from which all go on after a barrier, None while some are missing.

        Barriers are numbered from 0; there is room for 14.
        """
        return self._cells[_BARRIERS + barrier] or None

    def release(self, barrier: int, at_ns: int) -> None:
        """Let all workers pass a barrier, to go on at ``at_ns``, which is not 0."""
        self._cells[_BARRIERS + barrier] = at_ns

    @property
    def skipped_ns(self) -> int:
        """Idle time skipped by the system cap so far."""
        return self._cells[_SKIPPED]

    @skipped_ns.setter
    def skipped_ns(self, total_ns: int) -> None:
        self._cells[_SKIPPED] = total_ns

    @property
    def stopped(self) -> bool:
        """Whether all are to stop."""
        return bool(self._cells[_STOPPED])

    def stop(self) -> None:
        """Tell all to stop."""
        self._cells[_STOPPED] = 1


class WorkerRow:
    """What worker number ``worker`` says to all."""

    def __init__(self, cells: Cells, worker: int) -> None:
        self._cells = cells
        self._base = (worker + 1) * _ROW_CELLS

    def _get(self, cell: int) -> int:
        return self._cells[self._base + cell]

    def _set(self, cell: int, value: int) -> None:
        self._cells[self._base + cell] = value

    @property
    def arrived(self) -> int:
        """How many barriers it has come to."""
        return self._get(_ARRIVED)

    @property
    def brought_s(self) -> float:
        """What it brought to the last of them."""
        (brought_s,) = struct.unpack("d", struct.pack("q", self._get(_BROUGHT)))
        return float(brought_s)

    @property
    def arrived_ns(self) -> int:
        """When it came to the last of them."""
        return self._get(_ARRIVED_AT)

    def arrive(self, brought_s: float, now_ns: int) -> int:
        """Come to the next barrier; return its number."""
        barrier = self.arrived
        (bits,) = struct.unpack("q", struct.pack("d", brought_s))
        self._set(_BROUGHT, bits)
        self._set(_ARRIVED_AT, now_ns)
        self._set(_ARRIVED, barrier + 1)
        return barrier

    @property
    def beats(self) -> int:
        """How often its loop has come round to the page; 0 while it is not looping."""
        return self._get(_BEATS)

    def beat(self) -> None:
        """Say that the loop has come round."""
        self._set(_BEATS, self.beats + 1)

    def rest(self) -> None:
        """Say that it loops no more."""
        self._set(_BEATS, 0)

    def write(self, state: WorkerState) -> None:
        """Replace the state."""
        sequence = self._get(_SEQUENCE)
        self._set(_SEQUENCE, sequence + 1)
        self._set(_IDLE_SINCE, state.idle_since_ns)
        self._set(_IDLE_UNTIL, _NONE if state.idle_until_ns is None else state.idle_until_ns)
        self._set(_NEXT_DUE, _NONE if state.next_due_ns is None else state.next_due_ns)
        self._set(_OWN_SKIPPED, state.skipped_ns)
        self._set(_ENDED, state.ended)
        self._set(_FAILED, state.failed)
        self._set(_SEQUENCE, sequence + 2)

    def read(self) -> Reading | None:
        """Return the state; None where there is none yet, or it is being written."""
        sequence = self._get(_SEQUENCE)
        idle_until_ns, next_due_ns = self._get(_IDLE_UNTIL), self._get(_NEXT_DUE)
        state = WorkerState(
            idle_since_ns=self._get(_IDLE_SINCE),
            idle_until_ns=None if idle_until_ns == _NONE else idle_until_ns,
            next_due_ns=None if next_due_ns == _NONE else next_due_ns,
            skipped_ns=self._get(_OWN_SKIPPED),
            ended=self._get(_ENDED),
            failed=self._get(_FAILED),
        )
        whole = sequence > 0 and sequence % 2 == 0 and sequence == self._get(_SEQUENCE)
        return Reading(sequence, state) if whole else None

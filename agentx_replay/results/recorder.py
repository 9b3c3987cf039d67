"""The recorder: an append for the closed loop, closed Parquet parts on disk every few seconds.

One thread turns what has been appended to any table into parts: written under a temporary name,
made durable, renamed. A part that is there is whole, and is never rewritten here; when the level
has ended its parts become one file (``records.py``).

Memory: 12 bytes a token event and about 1 KB a response, from one part to the next. A part is due
after ``interval_s`` or ``PART_EVENTS`` events (12 MB). If the disk falls ``BACKLOG_EVENTS`` events
behind (200 MB) the recorder fails rather than grow.
"""

import io
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from agentx_replay.errors import UsageError
from agentx_replay.replay.ports import Dispatch, PlayRecord, Response
from agentx_replay.results.durable import disk_faults_explained, explain, sync_directory
from agentx_replay.results.layout import Measurement
from agentx_replay.results.records import Table, mark_of
from agentx_replay.results.rows import batch_of, blank_row, event_count, play_row, request_row
from agentx_replay.results.schema import LEVEL_TABLES, PLAYS, REQUESTS

PART_INTERVAL_S = 4.0
"""So that a response is on disk within 5 s, the writing included."""
PART_EVENTS = 1_000_000
BACKLOG_EVENTS = 16_000_000
EVENT_BYTES = 12

_SLICE_ROWS = 128
_SLICE_EVENTS = 32_768
_SWITCH_S = 200e-6
"""A thread that waits for the interpreter gets it after 0.2 ms, not the usual 5: the closed loop
stamps tokens while the recorder writes.
"""


class Recorder:
    """Records one process's share of a ``measurement`` into ``directory``.

    Timestamps are stored relative to ``origin_ns``, an instant of the run's clock. Several workers
    write side by side, each under its own number.
    """

    def __init__(
        self,
        directory: Path,
        measurement: Measurement,
        *,
        origin_ns: int,
        worker: int = 0,
        interval_s: float = PART_INTERVAL_S,
    ) -> None:
        with disk_faults_explained(directory):
            directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._mark = mark_of(directory)
        self._measurement = measurement
        self._origin_ns = origin_ns
        self._worker = worker
        self._interval_s = interval_s
        self._waiting: dict[Table, deque[Any]] = {table: deque() for table in LEVEL_TABLES}
        self._appended_events = self._written_events = 0
        self._sequence = 0
        self.failure: BaseException | None = None
        self._closing = False
        self._warm_up()
        sys.setswitchinterval(_SWITCH_S)
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._write_until_closed, name="recorder")
        self._thread.daemon = True
        self._thread.start()

    # -- called by the closed loop -----------------------------------------------------------

    def append(self, table: Table, row: tuple[Any, ...]) -> None:
        """Keep one row, which lacks the columns of level and start. Once ``failure`` is set nothing
        more is kept.
        """
        if self.failure is None:
            self._waiting[table].append(row)

    def record(self, dispatch: Dispatch, response: Response) -> None:
        row = request_row(dispatch, response)
        self.append(REQUESTS, row)
        self._appended_events += event_count(row)
        waiting = self._appended_events - self._written_events
        if waiting >= PART_EVENTS:
            self._wake.set()
        if waiting >= BACKLOG_EVENTS and self.failure is None:
            self.failure = UsageError(
                "disk-too-slow",
                f"the disk under {self._directory} is {waiting:,} token events behind",
                "write the results to a faster disk",
            )

    def record_play(self, play: PlayRecord) -> None:
        self.append(PLAYS, play_row(play))

    def flush(self) -> None:
        """Ask for a part now; returns at once."""
        self._wake.set()

    def close(self) -> None:
        """Write what is left and return when it is on disk. Raises ``failure``, if there is one;
        parts written before it stay.
        """
        self._closing = True
        self._wake.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    # -- the thread --------------------------------------------------------------------------

    def _write_until_closed(self) -> None:
        last = False
        while not last:
            self._wake.wait(self._interval_s)
            self._wake.clear()
            last = self._closing
            try:
                self._write_parts()
            except OSError as error:
                self.failure = explain(error, self._directory)
            except BaseException as error:
                self.failure = error

    def _write_parts(self) -> None:
        name = f"part-{self._worker:03d}-{self._sequence:06d}.parquet"
        self._sequence += any(self._waiting.values())
        for table, waiting in self._waiting.items():
            rows = [waiting.popleft() for _ in range(len(waiting))]
            if rows and self.failure is None:
                self._write_part(table, name, rows)

    def _write_part(self, table: Table, name: str, rows: list[Any]) -> None:
        parts = table.parts(self._directory)
        if not parts.exists():
            parts.mkdir(exist_ok=True)  # another worker may have made it by now
            sync_directory(self._directory)
        batches = [
            batch_of(table, some, self._measurement, self._origin_ns) for some in _sliced(rows)
        ]
        table.write(parts / name, [pa.Table.from_batches(batches)], self._mark)
        self._written_events += sum(map(event_count, rows))

    def _warm_up(self) -> None:
        """Make and write one row in memory. What Arrow imports and sets up for the first time may
        take 50 ms, in which nobody else runs; better now than while tokens arrive.
        """
        table = pa.Table.from_batches([batch_of(REQUESTS, [blank_row()], self._measurement)])
        REQUESTS.write_into(io.BytesIO(), [table])


def _sliced(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield slices so small that no single call into C holds the interpreter for long."""
    first = events = 0
    for end, row in enumerate(rows, 1):
        events += event_count(row)
        if end - first == _SLICE_ROWS or events >= _SLICE_EVENTS or end == len(rows):
            yield rows[first:end]
            first, events = end, 0

"""The recorder: an append for the closed loop, closed Parquet parts on disk every few seconds.

A thread of its own turns what has been appended into a part: written under a temporary name, made
durable, renamed. A part that is there is whole. What a part holds is never rewritten here; see
``compaction.py`` for what happens when the point ends.

Memory: 12 bytes a token event and about 1 KB a response, from one part to the next. A part is due
after ``interval_s`` or ``PART_EVENTS`` events (12 MB). If the disk falls ``BACKLOG_EVENTS`` events
behind (200 MB) the recorder fails rather than grow.
"""

import contextlib
import io
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from agentx_replay.errors import UsageError
from agentx_replay.replay.ports import Dispatch, PlayRecord, Response
from agentx_replay.results.durable import explain
from agentx_replay.results.layout import plays_parts, requests_directory
from agentx_replay.results.mark import mark_of
from agentx_replay.results.parquet import write_groups, write_parquet
from agentx_replay.results.rows import (
    RequestRow,
    blank_row,
    play_row,
    request_batch,
    request_row,
    table_of,
)
from agentx_replay.results.schema import PLAYS, REQUESTS, arrow_schema

PART_INTERVAL_S = 4.0
"""So that a response is on disk within 5 s, the writing included."""
PART_EVENTS = 1_000_000
BACKLOG_EVENTS = 16_000_000
EVENT_BYTES = 12

_SLICE_ROWS = 128
_SLICE_EVENTS = 32_768
_SWITCH_S = 200e-6


@contextlib.contextmanager
def _interpreter_shared_finely() -> Iterator[None]:
    """Hand the interpreter over to a thread that waits for it after 0.2 ms, not the usual 5: the
    closed loop stamps tokens meanwhile.
    """
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(usual_s)


def _warm_up() -> None:
    """Make and write one row in memory. What Arrow imports and sets up for the first time may
    take 50 ms, in which nobody else runs; better now than while tokens arrive.
    """
    table = pa.Table.from_batches([request_batch([blank_row()])])
    write_groups(io.BytesIO(), arrow_schema(REQUESTS), [table])


class ParquetRecorder:
    """Records one worker's responses and plays of one point into ``directory``.

    Stamps are stored relative to ``origin_ns``, an instant of the run's clock. Several workers
    write side by side, each under its own number. ``start`` is which start of its level the
    point is.
    """

    def __init__(
        self,
        directory: Path,
        *,
        origin_ns: int,
        worker: int = 0,
        start: int = 1,
        interval_s: float = PART_INTERVAL_S,
    ) -> None:
        self._requests_directory = requests_directory(directory)
        self._plays_directory = plays_parts(directory)
        for path in (self._requests_directory, self._plays_directory):
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise explain(error, path) from error
        self._mark = mark_of(directory)
        self._origin_ns = origin_ns
        self._worker = worker
        self._start = start
        self._interval_s = interval_s
        self._rows: deque[RequestRow] = deque()
        self._plays: deque[tuple[Any, ...]] = deque()
        self._appended_events = 0
        self._written_events = 0
        self._sequence = 0
        self._failure: UsageError | None = None
        self._defect: BaseException | None = None
        self._closing = False
        _warm_up()
        self._wake = threading.Event()
        self._thread = threading.Thread(
            target=self._write_until_closed, name="recorder", daemon=True
        )
        self._thread.start()

    # -- called by the closed loop -----------------------------------------------------------

    def record(self, dispatch: Dispatch, response: Response) -> None:
        """Keep one response: an append. After a failure nothing more is kept."""
        if self._failure is not None:
            return
        row = request_row(dispatch, response, self._origin_ns, self._start)
        self._rows.append(row)
        self._appended_events += len(row.arrival_ns)
        waiting = self._appended_events - self._written_events
        if waiting >= BACKLOG_EVENTS:
            self._failure = UsageError(
                "disk-too-slow",
                f"the disk under {self._requests_directory} is {waiting:,} token events behind",
                "write the results to a faster disk",
            )
        elif waiting >= PART_EVENTS:
            self._wake.set()

    def record_play(self, play: PlayRecord) -> None:
        """Keep one play: an append."""
        self._plays.append(play_row(play, self._origin_ns, self._start))

    def flush(self) -> None:
        """Ask for a part now; returns at once."""
        self._wake.set()

    @property
    def failure(self) -> UsageError | None:
        """Why nothing more is being kept, None while all is well."""
        return self._failure

    def close(self) -> None:
        """Write what is left and return when it is on disk. Raises what went wrong, if anything.

        Parts written before a failure stay.
        """
        self._closing = True
        self._wake.set()
        self._thread.join()
        if self._defect is not None:
            raise self._defect
        if self._failure is not None:
            raise self._failure

    # -- the thread --------------------------------------------------------------------------

    def _write_until_closed(self) -> None:
        last = False
        while not last:
            self._wake.wait(self._interval_s)
            self._wake.clear()
            last = self._closing
            if self._failure is not None or self._defect is not None:
                self._rows.clear()
                self._plays.clear()
                continue
            try:
                with _interpreter_shared_finely():
                    self._write_parts()
            except OSError as error:
                self._failure = explain(error, self._requests_directory)
            except BaseException as error:
                self._defect = error

    def _write_parts(self) -> None:
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        plays = [self._plays.popleft() for _ in range(len(self._plays))]
        name = f"part-{self._worker:03d}-{self._sequence:06d}.parquet"
        if rows or plays:
            self._sequence += 1
        if rows:
            table = pa.Table.from_batches(self._batches(rows))
            schema = arrow_schema(REQUESTS, self._mark)
            write_parquet(self._requests_directory / name, schema, [table])
            self._written_events += sum(len(row.arrival_ns) for row in rows)
        if plays:
            schema = arrow_schema(PLAYS, self._mark)
            write_parquet(self._plays_directory / name, schema, [table_of(schema, plays)])

    @staticmethod
    def _batches(rows: list[RequestRow]) -> Iterator[pa.RecordBatch]:
        """Yield batches so small that no single call into C holds the interpreter for long."""
        waiting: list[RequestRow] = []
        events = 0
        for row in rows:
            waiting.append(row)
            events += len(row.arrival_ns)
            if len(waiting) == _SLICE_ROWS or events >= _SLICE_EVENTS:
                yield request_batch(waiting)
                waiting, events = [], 0
        if waiting:
            yield request_batch(waiting)

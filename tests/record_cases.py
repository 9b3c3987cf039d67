"""Dispatches and responses with few words, for tests of what is recorded and computed."""

import itertools
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from agentx_replay.analysis.metrics import PointSummary, summarise
from agentx_replay.analysis.responses import (
    Events,
    Records,
    Window,
    measured,
    records_of,
    sent_in,
)
from agentx_replay.analysis.tokens import token_figures
from agentx_replay.prompts.prompt import Prompt
from agentx_replay.replay.ports import Dispatch, Phase, PlayRecord, Response, Status
from agentx_replay.results.layout import Measurement
from agentx_replay.results.recorder import Recorder
from agentx_replay.results.records import Table, mark_of
from agentx_replay.results.rows import batch_of, play_row, request_row
from agentx_replay.results.schema import PLAYS, REQUESTS, SERVER
from agentx_replay.results.server_metrics import ServerSamples

_numbers = itertools.count()
SECOND = 1_000_000_000
MS = 1_000_000
LEVEL = Measurement(2)


def prompt(tokens: int, reusable_tokens: int = 0) -> Prompt:
    return Prompt(tokens, reusable_tokens, np.empty(0, np.uint64), lambda: b"[]")


def dispatch(**changes: Any) -> Dispatch:
    """A request of lane 0 for 10 tokens, prompt of 100, meant for instant 0; each has its id."""
    usual = Dispatch(
        request_id=f"r-{next(_numbers)}",
        play_id="p",
        conversation_id="s",
        concurrency=2,
        lane=0,
        play_number=0,
        session_id="x",
        conversation=0,
        turn=0,
        request_index=0,
        phase=Phase.WINDOW,
        intended_start_ns=0,
        gap_s=0.0,
        recorded_input_tokens=100,
        recorded_output_tokens=10,
        shared_blocks=0,
        max_tokens=10,
        prompt=prompt(100),
    )
    return replace(usual, **changes)


_ARRAYS = (
    ("arrival_ns", np.int64), ("arrival_tokens", np.int32), ("event_text_bytes", np.int32),
)  # fmt: skip


def response(**changes: Any) -> Response:
    """A response sent at 0 that ended well at 1 s; what is said of events may be plain lists."""
    for name, kind in _ARRAYS:
        if changes.get(name) is not None:
            changes[name] = np.array(changes[name], kind)
    usual = Response(
        status=Status.OK,
        send_ns=0,
        end_ns=SECOND,
        prompt_tokens=100,
        completion_tokens=10,
        http_status=200,
    )
    return replace(usual, **changes)


def play(**changes: Any) -> PlayRecord:
    """A play of lane 0 from 0 to 1 s, of one request and no idle time."""
    usual = PlayRecord(
        play_id="p", concurrency=2, lane=0, play_number=0, session_id="x", t_star_s=None,
        start_ns=0, end_ns=SECOND, requests_sent=1, requests_skipped=0, system_skipped_s=0.0,
        session_skipped_s=0.0,
    )  # fmt: skip
    return replace(usual, **changes)


def record(
    point: Path,
    *pairs: tuple[Dispatch, Response],
    of: Measurement = LEVEL,
    worker: int = 0,
    plays: Iterable[PlayRecord] = (),
) -> None:
    """Record these as a worker does while its level runs, in one part of each table."""
    with closing(Recorder(point, of, origin_ns=0, worker=worker, interval_s=3600.0)) as recorder:
        for sent, came in pairs:
            recorder.record(sent, came)
        for each in plays:
            recorder.record_play(each)


class Nowhere:
    """A recorder that keeps nothing."""

    def record(self, dispatch: Dispatch, response: Response) -> None: ...

    def record_play(self, play: PlayRecord) -> None: ...


def recorded(pairs: Iterable[tuple[Dispatch, Response]]) -> Records:
    """What the analysis sees of these, without a file in between."""
    table = request_table(pairs)
    return records_of(lambda names: [table.select(list(names))])


def request_table(pairs: Iterable[tuple[Dispatch, Response]]) -> pa.Table:
    """The rows of these on record."""
    return _table(REQUESTS, [request_row(sent, came) for sent, came in pairs], LEVEL)


def play_table(plays: Iterable[PlayRecord]) -> pa.Table:
    return _table(PLAYS, [play_row(play) for play in plays], LEVEL)


def server_table(
    scrapes: Iterable[tuple[str, int, Sequence[str]]], of: Measurement = LEVEL
) -> pa.Table:
    """The rows of metrics pages: of each its name, when it came and its lines."""
    return _table(SERVER, server_rows(scrapes), of)


def server_rows(scrapes: Iterable[tuple[str, int, Sequence[str]]]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    samples = ServerSamples(rows.append)
    for endpoint, at_ns, lines in scrapes:
        samples.add(endpoint, at_ns, lines)
    return rows


def _table(table: Table, rows: Sequence[Any], of: Measurement) -> pa.Table:
    return pa.Table.from_batches([batch_of(table, rows, of)] if rows else [], table.schema())


def write_rows(
    point: Path, table: Table, rows: Iterable[tuple[Any, ...]], of: Measurement = LEVEL
) -> None:
    """Write rows, but for level and start, as one part of a level's table."""
    part = table.parts(point) / "part-000-000000.parquet"
    part.parent.mkdir(parents=True, exist_ok=True)
    table.write(part, [_table(table, list(rows), of)], mark_of(point))


def events_of(records: Records) -> Events:
    """The token events of records that make one batch."""
    (events,) = records.events()
    return events


def summarised(records: Records, window: Window) -> PointSummary:
    """The numbers of records."""
    window_set = sent_in(records.responses, window)
    ok = window_set.where(measured(window_set))
    return summarise(window_set, ok, window, token_figures(records, window))

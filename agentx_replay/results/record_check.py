"""Are the records in a level's directory the level's own, its responses there once, and whole?

A file that was copied, swapped or damaged would otherwise go into the numbers unnoticed. Not for:
whether what was measured is sound (``analysis/findings.py``).
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from agentx_replay.errors import UsageError
from agentx_replay.replay.ports import Phase, Status
from agentx_replay.results.compaction import play_files, request_files
from agentx_replay.results.layout import (
    instrument_file,
    instrument_parts,
    server_file,
    server_parts,
)
from agentx_replay.results.parquet import read_groups, read_mark, read_parquet
from agentx_replay.results.run_directory import StoredPoint
from agentx_replay.results.sample_parts import sample_files
from agentx_replay.results.schema import INSTRUMENT, PLAYS, REQUESTS, SERVER

_NEVER_NULL = (
    "concurrency",
    "phase",
    "request_id",
    "session_id",
    "lane",
    "ordinal",
    "intended_start_ns",
    "send_ns",
    "end_ns",
    "arrival_deltas_us",
    "status",
)
_LEVEL = ("concurrency", "start")
_IN_ORDER = ("send_ns", "first_token_ns", "last_token_ns", "end_ns")
_COUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens")
_OF_EVENTS = ("event_tokens", "event_text_bytes")
_COLUMNS = tuple(dict.fromkeys((*_NEVER_NULL, *_IN_ORDER, *_COUNTS, *_OF_EVENTS)))

Mask = NDArray[np.bool_]


def check_records(stored: StoredPoint) -> None:
    """Raise ``UsageError`` where a file in a level's directory is not what the level recorded."""
    point = stored.directory
    others = (
        (play_files(point), PLAYS),
        (sample_files(instrument_file(point), instrument_parts(point)), INSTRUMENT),
        (sample_files(server_file(point), server_parts(point)), SERVER),
    )
    for file in (*request_files(point), *(file for files, _ in others for file in files)):
        if read_mark(file) != stored.document.get("mark"):
            raise _refused(
                "record-of-other-level", file, "is not of this level: the two have different marks"
            )
    for files, columns in others:
        for file in files:
            for what in _of_another_level(read_parquet([file], columns, _LEVEL), stored):
                raise _refused("rows-of-other-level", file, what)
    check_requests(stored)


def _of_another_level(table: pa.Table, stored: StoredPoint) -> Iterator[str]:
    """Yield which other level or start rows are of."""
    for name, own in zip(_LEVEL, stored.measurement, strict=True):
        for other in pc.unique(table[name].drop_null()).to_pylist():
            if other != own:
                yield f"holds rows of {name} {other}, not {own}"


def check_requests(stored: StoredPoint) -> None:
    """Raise ``UsageError`` where a file of a level's responses is not what the level recorded.

    Holds the ids of the level, and besides them one row group at a time.
    """
    ids: list[pa.Array] = []
    for file in request_files(stored.directory):
        for table in read_groups([file], REQUESTS, _COLUMNS):
            for what in _faults(table, stored):
                raise _refused("record-damaged", file, what)
            ids.append(table["request_id"].combine_chunks())
    found = pa.chunked_array(ids, pa.string())
    counts = pc.value_counts(found)
    twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if len(twice):
        directory = request_files(stored.directory)[0].parent
        raise _refused(
            "responses-twice",
            directory,
            f"holds {len(twice)} responses more than once, as {twice[0]}",
        )


def _refused(code: str, file: Path, what: str) -> UsageError:
    return UsageError(code, f"{file} {what}", "set it aside")


def _faults(table: pa.Table, stored: StoredPoint) -> Iterator[str]:
    """Yield what is wrong with some of a level's responses; each relies on those before it."""
    for name in _NEVER_NULL:
        if table[name].null_count:
            yield f"has no {name} for {table[name].null_count} of {len(table)} responses"
    level, lanes = stored.concurrency, _numbers(table["lane"])
    for other in pc.unique(table["concurrency"]).to_pylist():
        if other != level:
            yield f"holds responses of concurrency {other}, not {level}"
    if ((lanes < 0) | (lanes >= level)).any():
        yield f"holds responses of a lane that concurrency {level} does not have"
    run_id = stored.document.get("run_id")
    if isinstance(run_id, str):
        own = pc.starts_with(table["request_id"], f"{run_id}-c{level}-")
        if not pc.all(own).as_py():
            yield f"holds responses of another run than {run_id}"
    for name, known in (("status", Status), ("phase", Phase)):
        for said in pc.unique(table[name]).to_pylist():
            if said not in set(known):
                yield f"has a {name} that is not known: {said[:40]!r}"
    yield from _impossible(table)


def _impossible(table: pa.Table) -> Iterator[str]:
    columns = {name: _numbers(table[name]) for name in (*_IN_ORDER, *_COUNTS)}
    for name in _COUNTS:
        if (columns[name] < 0).any():
            yield f"has negative {name}"
    latest = np.full(len(table), -np.inf)
    for name in _IN_ORDER:
        if (columns[name] < latest).any():
            yield f"has responses whose {name} lies before what must precede it"
        latest = np.fmax(latest, columns[name])
    if not _events_agree(table, columns):
        yield "has token events that do not fit their first_token_ns"


def _events_agree(table: pa.Table, columns: dict[str, NDArray[np.float64]]) -> bool:
    """Whether responses without a first token have no events, and tokens and lengths of texts are
    told of all events or of none.
    """
    later = _lengths(table["arrival_deltas_us"])
    came = ~np.isnan(columns["first_token_ns"])
    same: Mask = came == ~np.isnan(columns["last_token_ns"])
    fits = same & (came | (later == 0))
    for name in _OF_EVENTS:
        told = _lengths(table[name])
        fits &= (told == 0) | (told == later + came)
    return bool(fits.all())


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _lengths(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the length of each list, 0 for null."""
    lengths: NDArray[np.int64] = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    return lengths

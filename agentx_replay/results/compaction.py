"""At the end of a point: many small parts become one file, and no crash loses or doubles a row.

The compacted file is prepared in a directory that no reader looks at, then takes the place of the
parts by two renames. What a crash leaves is told apart by names alone:

=====================  ================  ===========================================
``requests.parquet``   prepared          the rows are in
=====================  ================  ===========================================
there                  any or none       ``requests.parquet``
missing                there             the prepared directory (between the renames)
=====================  ================  ===========================================
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from agentx_replay.results.durable import disk_faults_explained, sync_directory
from agentx_replay.results.layout import (
    compacting_requests,
    plays_file,
    plays_parts,
    replaced_requests,
    requests_directory,
)
from agentx_replay.results.mark import mark_of
from agentx_replay.results.parquet import read_parquet, write_parquet
from agentx_replay.results.reuse import reusable_tokens, with_reuse
from agentx_replay.results.schema import PLAYS, REQUESTS, arrow_schema

GROUP_EVENTS = 2_000_000
"""Token events in a row group: bounds the memory of compaction, and of reading, to about 150 MB."""


def compact(point: Path) -> None:
    """Turn the parts of a point, of all its workers, into one file of responses and one of plays.

    Call it when every recorder of the point is closed. Doing it again changes nothing. Raises
    ``UsageError`` when the disk fails; the parts are still there then.
    """
    with disk_faults_explained(point):
        recover(point)
        _compact_requests(point)
        _compact_plays(point)


def recover(point: Path) -> None:
    """Finish or undo what a crash left of a compaction. Raises ``OSError``."""
    live, prepared = requests_directory(point), compacting_requests(point)
    if not live.exists() and prepared.exists():
        prepared.rename(live)
        sync_directory(point)
    for leftover in (prepared, replaced_requests(point)):
        if leftover.exists():
            shutil.rmtree(leftover)


def request_files(point: Path) -> list[Path]:
    """Return the files that hold the point's responses, whatever state a crash left it in."""
    live = requests_directory(point)
    directory = live if live.exists() else compacting_requests(point)
    return sorted(directory.glob("*.parquet"))


def is_part(file: Path) -> bool:
    """Whether a file holds responses as a recorder wrote them, before compaction."""
    return file.name.startswith("part-")


def play_files(point: Path) -> list[Path]:
    """Return the files that hold the point's plays."""
    whole = plays_file(point)
    return [whole] if whole.exists() else sorted(plays_parts(point).glob("*.parquet"))


def _compact_requests(point: Path) -> None:
    live, prepared = requests_directory(point), compacting_requests(point)
    parts = request_files(point)
    if not any(map(is_part, parts)):
        return
    prepared.mkdir()
    groups = _groups(parts, reusable_tokens(parts))
    schema = arrow_schema(REQUESTS, mark_of(point))
    write_parquet(prepared / "requests.parquet", schema, groups)
    sync_directory(prepared)
    replaced = replaced_requests(point)
    live.rename(replaced)
    prepared.rename(live)
    sync_directory(point)
    shutil.rmtree(replaced)


def _groups(parts: list[Path], reuse: pa.Array) -> Iterator[pa.Table]:
    """Yield the rows of ``parts`` in tables of about ``GROUP_EVENTS`` token events, with what
    they could reuse.
    """
    waiting: list[pa.Table] = []
    events = row = 0
    for part in parts:
        table = read_parquet([part], REQUESTS)
        table = with_reuse(table, reuse.slice(row, len(table)))
        row += len(table)
        waiting.append(table)
        events += sum(len(chunk.flatten()) for chunk in table["arrival_deltas_us"].chunks)
        if events >= GROUP_EVENTS:
            yield _group(waiting)
            waiting, events = [], 0
    if waiting:
        yield _group(waiting)


def _group(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).cast(arrow_schema(REQUESTS))


def _compact_plays(point: Path) -> None:
    parts = plays_parts(point)
    if not plays_file(point).exists():
        schema = arrow_schema(PLAYS, mark_of(point))
        table = read_parquet(play_files(point), PLAYS).cast(schema)
        write_parquet(plays_file(point), schema, [table])
    if parts.exists():
        shutil.rmtree(parts)

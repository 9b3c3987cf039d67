"""Tables of records on disk: closed parts while a level runs, one file each when it has ended.

Timestamps and gaps are delta-bit-packed, which DuckDB, Polars and pandas all read; names and tokens
per event take a dictionary, so that "one token an event" costs next to nothing. Every page has a
checksum. Which columns there are is in ``schema.py``.
"""

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from agentx_replay.errors import UsageError
from agentx_replay.results.durable import disk_faults_explained, sync_directory, write_durably
from agentx_replay.results.layout import point_file

SCHEMA_VERSION = 3
GROUP_EVENTS = 2_000_000
"""Token events in a row group: bounds the memory of compaction, and of reading, to about 150 MB."""

_VERSION_KEY = b"agentx_replay.schema_version"
_MARK_KEY = b"agentx_replay.mark"
_DELTAS = "arrival_deltas_us.list.element"
_DICTIONARY_TYPES = (pa.string(), pa.int32(), pa.bool_(), pa.float64())
_UNIQUE_TEXT = frozenset({"request_id"})
_REUSE_COLUMNS = (
    "lane", "replica", "reusable_tokens", "declared_prefix", "declared_tokens", "send_ns",
)  # fmt: skip


class _NoPandas:
    """A finder of modules that says pandas is not installed."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _arrow_without_pandas() -> None:
    """Have Arrow look for pandas once, and find none.

    At its first array it loads pandas where that is installed, to know its types when it sees them:
    a quarter of a second and 40 MB for nothing. ``to_pandas`` loads it when called all the same.
    """
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array(())
    finally:
        sys.meta_path.remove(_NoPandas)


_arrow_without_pandas()


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its Arrow type, unit, meaning, and what null says (None: never null).

    Timestamps count from the point's origin (``since_origin``).
    """

    type: pa.DataType
    unit: str
    name: str
    meaning: str
    null_means: str | None = None
    since_origin: bool = False


class Table:
    """Records of one kind: table ``plays`` of a level is its ``plays.parquet``."""

    def __init__(self, name: str, *columns: Column) -> None:
        self.name = name
        self.file_name = f"{name}.parquet"
        self.columns = columns
        self.by_name = {column.name: column for column in columns}
        fields = [pa.field(c.name, c.type, nullable=c.null_means is not None) for c in columns]
        self._metadata = {_VERSION_KEY: str(SCHEMA_VERSION).encode()}
        self._schema = pa.schema(fields, metadata=self._metadata)

    def schema(self, mark: str | None = None) -> pa.Schema:
        """Return the Arrow schema, with the version and the level's mark in its metadata."""
        if mark is None:
            return self._schema
        return self._schema.with_metadata(self._metadata | {_MARK_KEY: mark.encode()})

    def whole(self, point: Path) -> Path:
        """Return the file that a level has when it has ended."""
        return point / self.file_name

    def parts(self, point: Path) -> Path:
        """Return the directory of the closed files of a level that runs."""
        return point / f".{self.name}-parts"

    def files(self, point: Path) -> list[Path]:
        """Return the files that hold the rows, whatever state a crash left them in."""
        whole = self.whole(point)
        return [whole] if whole.exists() else sorted(self.parts(point).glob("*.parquet"))

    def at(self, point: Path) -> "StoredRows":
        """Return the rows as far as they are written now."""
        return StoredRows(self, tuple(self.files(point)))

    def read(self, point: Path, names: tuple[str, ...] | None = None) -> pa.Table:
        """Return all rows of a level, of the columns ``names``, if given."""
        return self.at(point).read(names)

    def groups(
        self, files: Sequence[Path], names: tuple[str, ...] | None = None
    ) -> Iterator[pa.Table]:
        """Yield the rows of ``files`` in order, one table a row group.

        Raises ``UsageError`` for a file that cannot be read, or is of another schema.
        """
        wanted = [c.name for c in self.columns if names is None or c.name in names]
        for path in files:
            with _opened(path) as file:
                _check_schema(file.schema_arrow, wanted, path)
                for number in range(file.num_row_groups):
                    yield file.read_row_group(number, wanted).select(wanted)

    def write(self, path: Path, groups: Iterable[pa.Table], mark: str | None = None) -> None:
        """Write a file durably, one row group a table. Raises ``OSError``."""
        write_durably(path, lambda file: self.write_into(file, groups, mark))

    def write_into(
        self, file: BinaryIO, groups: Iterable[pa.Table], mark: str | None = None
    ) -> None:
        schema = self.schema(mark)
        dictionary, encoded = _encodings(schema)
        with pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            use_dictionary=dictionary,
            column_encoding=encoded,
            write_page_checksum=True,
        ) as writer:
            for group in groups:
                writer.write_table(group)

    def compact(self, point: Path) -> None:
        """Turn the parts of all workers into one file; no file where there is no row.

        Call it when every recorder of the level is closed. The whole file counts where there is
        one, so no crash loses or doubles a row, and doing it again changes nothing. Raises
        ``UsageError`` if the disk fails; the parts are still there then.
        """
        whole, parts = self.whole(point), self.parts(point)
        with disk_faults_explained(whole):
            if self.files(point) and not whole.exists():
                self.write(whole, [self.read(point)], mark_of(point))
            if parts.exists():
                shutil.rmtree(parts)


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows that a table had at one moment: the same rows however often they are read."""

    table: Table
    files: tuple[Path, ...]

    def read(self, names: tuple[str, ...] | None = None) -> pa.Table:
        """Return all rows, of the columns ``names``, if given. Raises as ``groups`` does."""
        found = list(self.groups(names))
        if found:
            return pa.concat_tables(found)
        columns = [c for c in self.table.columns if names is None or c.name in names]
        return pa.schema([(c.name, c.type) for c in columns]).empty_table()

    def groups(self, names: tuple[str, ...] | None = None) -> Iterator[pa.Table]:
        """Yield all rows in tables of at most about ``GROUP_EVENTS`` token events."""
        return self.table.groups(self.files, names)


class RequestTable(Table):
    """The responses of a level: a directory that anybody may glob while the level runs.

    The compacted file is prepared in a directory that no reader looks at, then takes the place of
    the parts by two renames. What a crash leaves is told apart by names alone:

    =====================  ================  ===========================================
    ``requests.parquet``   prepared          the rows are in
    =====================  ================  ===========================================
    there                  any or none       ``requests.parquet``
    missing                there             the prepared directory (between the renames)
    =====================  ================  ===========================================
    """

    def parts(self, point: Path) -> Path:
        return point / self.file_name

    def files(self, point: Path) -> list[Path]:
        live = self.parts(point)
        return sorted((live if live.exists() else prepared_requests(point)).glob("*.parquet"))

    def groups(
        self, files: Sequence[Path], names: tuple[str, ...] | None = None
    ) -> Iterator[pa.Table]:
        groups = super().groups(files, names)
        asked = names is None or "reusable_tokens" in names
        if not asked or not any(map(_is_part, files)):
            yield from groups
            return
        reuse, row = self._reusable_tokens(files), 0
        for table in groups:
            at = table.schema.get_field_index("reusable_tokens")
            yield table.set_column(at, table.schema.field(at), reuse.slice(row, len(table)))
            row += len(table)

    def _reusable_tokens(self, files: Sequence[Path]) -> pa.Array:
        return reusable_tokens(pa.concat_tables(super().groups(files, _REUSE_COLUMNS)))

    def compact(self, point: Path) -> None:
        live, prepared = self.parts(point), prepared_requests(point)
        with disk_faults_explained(live):
            self.recover(point)
            parts = self.files(point)
            if not any(map(_is_part, parts)):
                return
            prepared.mkdir()
            groups = _of_bounded_size(self.groups(parts))
            self.write(prepared / self.file_name, groups, mark_of(point))
            live.rename(replaced_requests(point))
            prepared.rename(live)
            sync_directory(point)
            shutil.rmtree(replaced_requests(point))

    def recover(self, point: Path) -> None:
        """Finish or undo what a crash left of a compaction. Raises ``OSError``."""
        live, prepared = self.parts(point), prepared_requests(point)
        if not live.exists() and prepared.exists():
            prepared.rename(live)
            sync_directory(point)
        for leftover in (prepared, replaced_requests(point)):
            if leftover.exists():
                shutil.rmtree(leftover)


def prepared_requests(point: Path) -> Path:
    """Return where the compacted file is prepared; no glob of ``requests*`` finds it."""
    return point / ".compacting-requests"


def replaced_requests(point: Path) -> Path:
    """Return where the parts go when the compacted file has taken their place."""
    return point / ".replaced-requests"


def reusable_tokens(rows: pa.Table) -> pa.Array:
    """Return for each response of a level the leading tokens that had been sent before, across all
    plays and workers.

    A play knows what it sent itself. Of a declared prefix it counts how much an earlier request of
    any play had sent to the same server: a replica does not know what another has seen. Of requests
    sent in the same ns the lower lane is the earlier. Doing it again changes nothing.
    """
    own = rows["reusable_tokens"].to_numpy()
    declared = rows["declared_tokens"].to_numpy()
    order = np.lexsort((rows["lane"].to_numpy(), rows["send_ns"].to_numpy()))
    sent_before = np.zeros(len(own), np.int32)
    prefixes, replicas = rows["declared_prefix"].to_pylist(), rows["replica"].to_pylist()
    longest: dict[tuple[int, int], int] = {}
    for row in order.tolist():
        prefix = prefixes[row]
        if prefix is not None:
            held = (replicas[row], prefix)
            before = longest.get(held, 0)
            sent_before[row] = min(before, declared[row])
            longest[held] = max(before, declared[row])
    return pa.array(np.maximum(own, sent_before), pa.int32())


def mark_of(point: Path) -> str | None:
    """Return the mark of a level: a random text in its ``point.json`` and in the metadata of each
    of its records. Salt, plan and names may be equal in two runs; marks are not.
    """
    try:
        found: str | None = orjson.loads(point_file(point).read_bytes()).get("mark")
    except FileNotFoundError:
        return None
    return found


def read_mark(path: Path) -> str | None:
    """Return the mark of the level that a file was written for. Raises as ``Table.groups``."""
    with _opened(path) as file:
        _check_schema(file.schema_arrow, (), path)
        mark = (file.schema_arrow.metadata or {}).get(_MARK_KEY)
    return None if mark is None else mark.decode("utf-8", "replace")


def _is_part(file: Path) -> bool:
    return file.name.startswith("part-")


def _of_bounded_size(groups: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Join small tables to tables of about ``GROUP_EVENTS`` token events."""
    waiting: list[pa.Table] = []
    events = 0
    for table in groups:
        waiting.append(table)
        events += sum(len(chunk.flatten()) for chunk in table["arrival_deltas_us"].chunks)
        if events >= GROUP_EVENTS:
            yield pa.concat_tables(waiting)
            waiting, events = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


def _encodings(schema: pa.Schema) -> tuple[list[str], dict[str, str]]:
    """Return the columns that take a dictionary, and how others are encoded."""
    dictionary: list[str] = []
    encoded: dict[str, str] = {}
    for field in schema:
        if field.name == "arrival_deltas_us":
            encoded[_DELTAS] = "DELTA_BINARY_PACKED"
        elif field.name == "event_tokens":
            dictionary.append("event_tokens.list.element")
        elif field.name in _UNIQUE_TEXT:
            encoded[field.name] = "DELTA_BYTE_ARRAY"
        elif field.type == pa.int64():
            encoded[field.name] = "DELTA_BINARY_PACKED"
        elif field.type in _DICTIONARY_TYPES:
            dictionary.append(field.name)
    return dictionary, encoded


def _check_schema(schema: pa.Schema, wanted: Sequence[str], path: Path) -> None:
    version = (schema.metadata or {}).get(_VERSION_KEY)
    if version is None:
        raise UsageError(
            "record-of-other-program",
            f"{path} was not written by agentx-replay",
            "point at a results directory of a run",
        )
    lacking = [name for name in wanted if name not in schema.names]
    if version != str(SCHEMA_VERSION).encode() or lacking:
        columns = f" without {', '.join(lacking)}" if lacking else ""
        raise UsageError(
            "record-of-other-schema",
            f"{path} has record schema {version.decode()}{columns}, this version reads "
            f"{SCHEMA_VERSION}{' with it' if lacking else ''}",
            "read it with the version of agentx-replay that wrote it",
        )


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a file to be read. What fails inside is a ``UsageError`` that says what to do."""
    if path.exists() and not path.is_file():  # opening a pipe would block for ever
        raise UsageError(
            "record-not-a-file", f"{path} is not a file", "move it away to read the rest of the run"
        )
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError as error:
        raise UsageError(
            "record-gone",
            f"{path} is gone: its level ended meanwhile, and its parts became one file",
            "do it again",
        ) from error
    except (OSError, pa.ArrowInvalid) as error:
        raise UsageError(
            "record-unreadable",
            f"{path} cannot be read: {error}",
            "move it away to read the rest of the run",
        ) from error

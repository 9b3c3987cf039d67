"""How record files are encoded, written and read. Which columns there are is in ``schema.py``.

Gaps and stamps are delta-bit-packed, which DuckDB, Polars and pandas all read; names and tokens
per event take a dictionary, so that "one token an event" costs next to nothing.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from agentx_replay.errors import UsageError
from agentx_replay.results.durable import write_durably
from agentx_replay.results.schema import Column, conform, mark_in

_DELTAS = "arrival_deltas_us.list.element"
_DICTIONARY_TYPES = (pa.string(), pa.int32(), pa.bool_(), pa.float64())
_UNIQUE_TEXT = frozenset({"request_id"})


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


def _encodings(schema: pa.Schema) -> tuple[list[str], dict[str, str]]:
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


def write_parquet(path: Path, schema: pa.Schema, groups: Iterable[pa.Table]) -> None:
    """Write ``path`` durably, one row group a table. Raises ``OSError``."""
    write_durably(path, lambda file: write_groups(file, schema, groups))


def write_groups(file: BinaryIO, schema: pa.Schema, groups: Iterable[pa.Table]) -> None:
    """Write a Parquet file into an open one, one row group a table. Raises ``OSError``."""
    dictionary, encoded = _encodings(schema)
    with pq.ParquetWriter(
        file, schema, compression="zstd", use_dictionary=dictionary, column_encoding=encoded
    ) as writer:
        for group in groups:
            writer.write_table(group)


def read_parquet(
    paths: Iterable[Path], columns: tuple[Column, ...], names: tuple[str, ...] | None = None
) -> pa.Table:
    """Return the rows of all files in order, as ``columns`` (of these only ``names``, if given).

    Files of an older schema are accepted; raises ``UsageError`` for one that cannot be read.
    """
    wanted = tuple(c for c in columns if names is None or c.name in names)
    tables = [_read(path, wanted) for path in paths]
    if not tables:
        return pa.schema([pa.field(c.name, c.type) for c in wanted]).empty_table()
    return pa.concat_tables(tables)


def read_groups(
    paths: Iterable[Path], columns: tuple[Column, ...], names: tuple[str, ...]
) -> Iterator[pa.Table]:
    """Yield the rows of all files in order, one table a row group: of ``columns`` only ``names``.

    Holds one group at a time. Otherwise as ``read_parquet``.
    """
    wanted = tuple(c for c in columns if c.name in names)
    for path in paths:
        with _opened(path) as file:
            present = _present(file, wanted)
            for number in range(file.num_row_groups):
                yield conform(file.read_row_group(number, present), wanted, str(path))


def read_mark(path: Path) -> str | None:
    """Return the mark of the level that a file was written for. Otherwise as ``read_parquet``."""
    with _opened(path) as file:
        return mark_in(file.schema_arrow)


def _read(path: Path, wanted: tuple[Column, ...]) -> pa.Table:
    with _opened(path) as file:
        return conform(file.read(_present(file, wanted)), wanted, str(path))


def _present(file: pq.ParquetFile, wanted: tuple[Column, ...]) -> list[str]:
    there = set(file.schema_arrow.names)
    return [column.name for column in wanted if column.name in there]


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a file to be read. What fails inside is a ``UsageError`` that says what to do."""
    if path.exists() and not path.is_file():  # to open a pipe is to wait for ever
        raise UsageError(
            "record-not-a-file", f"{path} is not a file", "move it away to read the rest of the run"
        )
    try:
        with pq.ParquetFile(path) as file:
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

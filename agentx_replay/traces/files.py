"""Trace files: which files hold sessions, and the JSON of each session in them, unpacked.

One session's JSON is in memory at a time, and its size is bounded. Not for: what it means.
"""

import gzip
import io
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson

from agentx_replay.errors import UsageError
from agentx_replay.traces.fields import bad_trace

MOST_SESSION_BYTES = 512 * 2**20
"""No session's JSON may be larger. A session of 1,000 requests with 894k tokens of context, as
large as they come, takes a sixth of this."""

_PACKINGS = ("", ".gz", ".zst")
_OBJECT_SUFFIXES = tuple(f".json{packing}" for packing in _PACKINGS)
_LINES_SUFFIXES = tuple(f".jsonl{packing}" for packing in _PACKINGS)
_ROWS_SUFFIX = ".parquet"
_SUFFIXES = (*_OBJECT_SUFFIXES, *_LINES_SUFFIXES, _ROWS_SUFFIX)
_NOT_A_TRACE = "manifest.json"

_GZIP = 31
"""What tells zlib to expect a gzip stream."""


def raw_sessions(path: Path) -> Iterator[tuple[str, bytes | UsageError]]:
    """Yield each session's bytes, or why there are none, with what messages call its place.

    ``path`` is a trace file, or a directory whose trace files are read in order of name: ``.json``
    (one session), ``.jsonl`` (one a line), both also with ``.gz`` or ``.zst``, and ``.parquet``
    (one a row). In a directory all other files are passed over, and so is ``manifest.json``.
    Raises ``UsageError`` for a path that does not exist or has no trace files.
    """
    try:
        files = _trace_files(path)
    except OSError as error:  # also of a name too long to be one
        raise UsageError(
            "traces-unreadable",
            f"{path} cannot be read ({error.strerror})",
            "name a directory or file of traces",
        ) from None
    for file in files:
        try:
            _refuse_what_is_no_file(file)
            if file.name.endswith(_LINES_SUFFIXES):
                yield from _lines(file)
            elif file.name.endswith(_ROWS_SUFFIX):
                yield from _rows(file)
            else:
                yield str(file), _whole(file)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            yield str(file), bad_trace(str(file), f"it cannot be read ({error})")
        except UsageError as error:
            yield str(file), error


def _trace_files(path: Path) -> list[Path]:
    if not path.exists():
        raise UsageError(
            "traces-missing", f"{path} does not exist", "name a directory or file of traces"
        )
    if not path.is_dir():
        return [_supported(path)]
    files = sorted((f for f in path.iterdir() if _looks_like_a_trace(f)), key=lambda f: f.name)
    if not files:
        raise UsageError(
            "traces-without-file",
            f"{path} holds no trace file",
            f"name a directory with {', '.join(_SUFFIXES)} files",
        )
    return [_supported(file) for file in files]


def _looks_like_a_trace(file: Path) -> bool:
    return file.name.endswith(_SUFFIXES) and file.name != _NOT_A_TRACE


def _supported(file: Path) -> Path:
    if not file.name.endswith(_SUFFIXES):
        raise UsageError(
            "trace-name-unfit",
            f"{file} is not named like a trace",
            f"use a file ending in {', '.join(_SUFFIXES)}",
        )
    return file


def _refuse_what_is_no_file(file: Path) -> None:
    """Raise ``UsageError`` for what only has a file's name: to open a pipe is to wait for ever."""
    if not stat.S_ISREG(file.stat().st_mode):
        raise bad_trace(str(file), "this is a directory, pipe or device, not a file")


def _whole(file: Path) -> bytes:
    if file.name.endswith(".gz"):
        with file.open("rb") as stream:
            return _unpacked(stream.read(MOST_SESSION_BYTES + 1), file)
    with _opened(file) as stream:
        return _bounded(stream.read(MOST_SESSION_BYTES + 1), str(file))


def _unpacked(packed: bytes, file: Path) -> bytes:
    """Return the contents of a gzip file of one or more members."""
    members: list[bytes] = []
    size = 0
    while packed:
        member = zlib.decompressobj(_GZIP)
        members.append(member.decompress(packed, MOST_SESSION_BYTES + 1 - size))
        size += len(members[-1])
        _bounded_size(size, str(file))
        if not member.eof:
            raise EOFError("the file ends before its compressed data do")
        packed = member.unused_data.lstrip(b"\0")
    return members[0] if len(members) == 1 else b"".join(members)


def _lines(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the lines that are not blank; one session's bytes are in memory at a time."""
    with _opened(file) as stream:
        number = 0
        while line := stream.readline(MOST_SESSION_BYTES + 1):
            number += 1
            source = f"{file}:{number}"
            _bounded_size(len(line), source)
            if line.strip():
                yield source, line


def _opened(file: Path) -> BinaryIO:
    if file.name.endswith(".gz"):
        return cast("BinaryIO", gzip.open(file))
    if file.name.endswith(".zst"):
        import pyarrow as pa  # only this needs it here, and reading traces starts without

        return cast("BinaryIO", io.BufferedReader(pa.CompressedInputStream(str(file), "zstd")))
    return file.open("rb")


def _rows(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the rows of a Parquet file, each as the JSON object that it was before.

    A table's rows all have the same fields; what a session did not have is null in it.
    """
    import pyarrow.parquet as pq

    number = 0
    with pq.ParquetFile(file) as table:
        for batch in table.iter_batches(batch_size=1):
            number += 1
            source = f"{file}, row {number}"
            (row,) = batch.to_pylist()
            yield source, _bounded(orjson.dumps(_without_nulls(row)), source)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(held) for key, held in value.items() if held is not None}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_without_nulls(held) for held in value]
    return value


def _bounded(raw: bytes, source: str) -> bytes:
    _bounded_size(len(raw), source)
    return raw


def _bounded_size(size: int, source: str) -> None:
    if size > MOST_SESSION_BYTES:
        raise bad_trace(source, f"a session is larger than {MOST_SESSION_BYTES >> 20} MiB unpacked")

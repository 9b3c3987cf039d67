"""Trace files: which files hold sessions, and the JSON of each session in them, unpacked.

One session's JSON is in memory at a time, and its size is bounded.
"""

import gzip
import io
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import orjson

from agentx_replay.errors import UsageError
from agentx_replay.traces.fields import bad_trace

_BUFFER_BYTES = 2**20
MOST_SESSION_BYTES = 512 * 2**20
"""Six times a session of 1,000 requests with 894k tokens of context, as large as they come."""

LINES_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_SUFFIXES = (".json", ".json.gz", ".json.zst", *LINES_SUFFIXES, ".parquet")
_NAME_ANOTHER = "name a directory or file of traces"


def raw_sessions(path: Path) -> Iterator[tuple[str, bytes | UsageError]]:
    """Yield each session's bytes, or why there are none, with what errors call its place.

    ``path`` is a trace file, or a directory whose trace files are read in order of name: ``.json``
    (one session), ``.jsonl`` (one a line), both also with ``.gz`` or ``.zst``, and ``.parquet``
    (one a row). In a directory all other files are passed over, and so is ``manifest.json``.
    Raises ``UsageError`` for a path that does not exist or has no trace files.
    """
    for file in _trace_files(path):
        try:
            if not stat.S_ISREG(file.stat().st_mode):  # opening a pipe would wait for a writer
                yield str(file), bad_trace(str(file), "this is a directory, pipe or device")
            elif file.suffix == ".parquet":
                yield from _rows(file)
            elif file.name.endswith(LINES_SUFFIXES):
                yield from _lines(file)
            else:
                with opened(file) as stream:
                    yield _bounded(str(file), stream.read(MOST_SESSION_BYTES + 1))
        except (OSError, EOFError, ValueError, zlib.error) as error:
            yield str(file), bad_trace(str(file), f"it cannot be read ({error})")
        except UsageError as error:
            yield str(file), error


def _trace_files(path: Path) -> list[Path]:
    try:
        if not path.exists():
            raise UsageError("traces-missing", f"{path} does not exist", _NAME_ANOTHER)
        files = sorted(path.iterdir()) if path.is_dir() else [path]
    except OSError as error:  # also for a name too long to be one
        raise UsageError(
            "traces-unreadable", f"{path} cannot be read ({error.strerror})", _NAME_ANOTHER
        ) from None
    found = [file for file in files if file.name.endswith(_SUFFIXES)]
    found = [file for file in found if file.name != "manifest.json" or file == path]
    if not found:
        raise UsageError(
            "traces-without-file",
            f"{path} is not, and does not contain, a trace file",
            f"use files ending in {', '.join(_SUFFIXES)}",
        )
    return found


def _lines(file: Path) -> Iterator[tuple[str, bytes]]:
    with opened(file) as stream:
        number = 0
        while line := stream.readline(MOST_SESSION_BYTES + 1):
            number += 1
            found = _bounded(f"{file}:{number}", line)
            if line.strip():
                yield found


def opened(file: Path) -> BinaryIO:
    if file.suffix == ".gz":
        return cast("BinaryIO", gzip.open(file))
    if file.suffix == ".zst":
        import pyarrow as pa  # only this needs it here, and reading traces starts without

        return cast("BinaryIO", io.BufferedReader(pa.CompressedInputStream(str(file), "zstd")))
    return file.open("rb", buffering=_BUFFER_BYTES)


def _rows(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the rows of a Parquet file, each as a JSON object."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as table:
        for number, batch in enumerate(table.iter_batches(batch_size=1), start=1):
            (row,) = batch.to_pylist()
            yield _bounded(f"{file}, row {number}", orjson.dumps(row))


def _bounded(source: str, raw: bytes) -> tuple[str, bytes]:
    if len(raw) > MOST_SESSION_BYTES:
        size = f"a session is larger than {MOST_SESSION_BYTES >> 20} MiB unpacked"
        raise bad_trace(source, size)
    return source, raw


def packed(raw: bytes, suffix: str, gzip_level: int = 6) -> bytes:
    """Return bytes compressed as the ending of a file's name says; parts may follow one another.

    There is no time and no name in them: the same sessions are the same bytes.
    """
    if suffix == ".gz":
        return gzip.compress(raw, gzip_level, mtime=0)
    if suffix == ".zst":
        import pyarrow as pa

        return cast("bytes", pa.Codec("zstd").compress(raw, asbytes=True))
    return raw


def write_sessions(sessions: Iterable[bytes], file: Path) -> None:
    """Write sessions one a line, ``packed`` as the name says; an old file is replaced."""
    raw = b"".join(session + b"\n" for session in sessions)
    try:
        file.write_bytes(packed(raw, file.suffix))
    except OSError as error:
        if file.is_file():
            file.unlink()
        raise UsageError(
            "corpus-unwritable", f"{file} cannot be written ({error.strerror})", "use another place"
        ) from None

"""A corpus from a path: which files are traces, how they are unpacked, and its fingerprint.

One session's JSON is in memory at a time. What a session's JSON means is ``weka.py``'s.
"""

import gzip
import hashlib
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import orjson

from agentx_replay.errors import UsageError
from agentx_replay.traces.fields import bad_trace
from agentx_replay.traces.model import Corpus, Session
from agentx_replay.traces.weka import read_session

MOST_SESSION_BYTES = 512 * 2**20
"""No session's JSON may be larger. A session of 1,000 requests with 894k tokens of context, as
large as they come, takes a sixth of this."""

_OBJECT_SUFFIXES = (".json", ".json.gz")
_LINES_SUFFIXES = (".jsonl", ".jsonl.gz")
_SUFFIXES = _OBJECT_SUFFIXES + _LINES_SUFFIXES
_ZSTANDARD_SUFFIXES = (".json.zst", ".jsonl.zst")
_NOT_A_TRACE = "manifest.json"

_GZIP = 31
"""What tells zlib to expect a gzip stream."""


def read_corpus(path: Path, *, skip_bad: bool = False) -> Corpus:
    """Return the sessions of a trace file, or of a directory's trace files in order of name.

    Trace files end in .json or .json.gz (one session), or .jsonl or .jsonl.gz (one a line). In a
    directory all other files are passed over, and so is ``manifest.json``. With ``skip_bad`` an
    unusable session is left out and named in ``Corpus.skipped``; else it is a ``UsageError``. So
    is a path without any session, and one session id in two places.
    """
    sessions: dict[str, Session] = {}
    places: dict[str, str] = {}
    skipped: list[tuple[str, str]] = []
    for source, raw in raw_sessions(path):
        try:
            session = _session(source, raw, places)
        except UsageError as error:
            if not skip_bad:
                raise
            skipped.append((source, error.what))
            continue
        sessions[session.id] = session
        places[session.id] = source
    if not sessions:
        raise UsageError(f"{path} holds no usable session", "name a directory or file of traces")
    found = tuple(sessions.values())
    return Corpus(path.resolve().name, found, fingerprint(found), tuple(skipped))


def fingerprint(sessions: Iterable[Session]) -> str:
    """Return 16 hex digits of SHA-256 over all that a replay of the sessions depends on.

    That is every field of ``model.Session`` but its notes, in corpus order; names of files, their
    compression and the ids that blocks had in them make no difference.
    """
    digest = hashlib.sha256()
    for session in sessions:
        head = (session.id, session.block_size, session.tool_tokens, session.system_tokens)
        digest.update(orjson.dumps((head, session.entries)))
        digest.update(session.blocks.parent.astype("<i4").tobytes())
    return digest.hexdigest()[:16]


def _session(source: str, raw: bytes | UsageError, places: dict[str, str]) -> Session:
    if isinstance(raw, UsageError):
        raise raw
    if not raw or raw.isspace():
        raise bad_trace(source, "this is empty")
    session = read_session(raw, source)
    if session.id in places:
        raise bad_trace(source, f"its id {session.id!r} is also that of {places[session.id]}")
    return session


def _trace_files(path: Path) -> list[Path]:
    if not path.exists():
        raise UsageError(f"{path} does not exist", "name a directory or file of traces")
    if not path.is_dir():
        return [_supported(path)]
    files = sorted((f for f in path.iterdir() if _looks_like_a_trace(f)), key=lambda f: f.name)
    if not files:
        raise UsageError(
            f"{path} holds no trace file", f"name a directory with {', '.join(_SUFFIXES)} files"
        )
    return [_supported(file) for file in files]


def _looks_like_a_trace(file: Path) -> bool:
    return file.name.endswith(_SUFFIXES + _ZSTANDARD_SUFFIXES) and file.name != _NOT_A_TRACE


def _supported(file: Path) -> Path:
    if file.name.endswith(_ZSTANDARD_SUFFIXES):
        raise UsageError(
            f"{file} is compressed with Zstandard, which is not read here",
            f"unpack it: zstd -d {file.name}",
        )
    if not file.name.endswith(_SUFFIXES):
        raise UsageError(
            f"{file} is not named like a trace", f"use a file ending in {', '.join(_SUFFIXES)}"
        )
    return file


def raw_sessions(path: Path) -> Iterator[tuple[str, bytes | UsageError]]:
    """Yield each session's bytes, or why there are none, with what messages call its place.

    Which files of ``path`` are read is as in ``read_corpus``; so is what is raised for the path.
    """
    for file in _trace_files(path):
        try:
            if file.name.endswith(_LINES_SUFFIXES):
                yield from _lines(file)
            else:
                yield str(file), _whole(file)
        except (OSError, EOFError, zlib.error) as error:
            yield str(file), bad_trace(str(file), f"it cannot be read ({error})")
        except UsageError as error:
            yield str(file), error


def _whole(file: Path) -> bytes:
    packed = file.name.endswith(".gz")
    with file.open("rb") as stream:
        raw = stream.read(MOST_SESSION_BYTES + 1)
    return _unpacked(raw, file) if packed else _bounded(raw, str(file))


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
    return cast("BinaryIO", gzip.open(file)) if file.name.endswith(".gz") else file.open("rb")


def _bounded(raw: bytes, source: str) -> bytes:
    _bounded_size(len(raw), source)
    return raw


def _bounded_size(size: int, source: str) -> None:
    if size > MOST_SESSION_BYTES:
        raise bad_trace(source, f"a session is larger than {MOST_SESSION_BYTES >> 20} MiB unpacked")

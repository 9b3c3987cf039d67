"""Many trace files into one: a session a line, compressed, in corpus order."""

import gzip
from pathlib import Path

import orjson

from agentx_replay.errors import UsageError
from agentx_replay.traces.files import raw_sessions
from agentx_replay.traces.weka import read_session


def pack_corpus(path: Path, file: Path) -> int:
    """Write every session of a corpus to ``file`` (.jsonl.gz); return how many.

    Nothing of a session is changed but its white space. Raises ``UsageError`` for a session that
    cannot be read, and where ``file`` exists or is named otherwise.
    """
    if not file.name.endswith(".jsonl.gz"):
        raise UsageError(
            "pack-name-unfit",
            f"{file} is not named like a packed corpus",
            "use a name in .jsonl.gz",
        )
    if file.exists():
        raise UsageError("pack-exists", f"{file} exists", "choose another name")
    lines = [_line(source, raw) for source, raw in raw_sessions(path)]
    try:
        # No time and no name in the file: packing again gives the same bytes.
        file.write_bytes(gzip.compress(b"".join(lines), compresslevel=6, mtime=0))
    except OSError as error:
        raise UsageError(
            "pack-unwritable", f"{file} cannot be written ({error.strerror})", "use another place"
        ) from None
    return len(lines)


def _line(source: str, raw: bytes | UsageError) -> bytes:
    if isinstance(raw, UsageError):
        raise raw
    read_session(raw, source)
    return orjson.dumps(orjson.loads(raw)) + b"\n"

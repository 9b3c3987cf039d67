"""A corpus from a path: its sessions, what was left out of it, and its fingerprint.

One session's JSON is in memory at a time. Which files hold sessions, and how they are unpacked, is
``files.py``'s; what a session's JSON means is ``weka.py``'s.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import orjson

from agentx_replay.errors import UsageError
from agentx_replay.traces.fields import bad_trace
from agentx_replay.traces.files import raw_sessions, write_sessions
from agentx_replay.traces.model import Corpus, Session
from agentx_replay.traces.weka import read_session


def read_corpus(path: Path, *, skip_bad: bool = False) -> Corpus:
    """Return the sessions of a trace file, or of a directory's trace files in order of name.

    With ``skip_bad`` an unusable session is left out and named in ``Corpus.skipped``; else it is a
    ``UsageError``. So is a path without any usable session, which names each that is not, and one
    session id in two places.
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
            skipped.append((_printable(source), _printable(error.what)))
            continue
        sessions[session.id] = session
        places[session.id] = source
    if not sessions:
        bad = "".join(f"\n  {why}" for _, why in skipped)
        raise UsageError(
            "corpus-without-session",
            f"{path} holds no usable session{bad}",
            "name a directory or file of traces",
        )
    found = tuple(sessions.values())
    return Corpus(path.resolve().name, found, fingerprint(found), tuple(skipped))


def _printable(text: str) -> str:
    """Escape what a file's name has that is not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


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


def pack_corpus(path: Path, file: Path, *, skip_bad: bool = False) -> int:
    """Write every session of a corpus to ``file`` (.jsonl.gz); return how many.

    Nothing of a session is changed but its white space. Raises ``UsageError`` for a session that
    cannot be read, which ``skip_bad`` leaves out, and if ``file`` exists or has another ending.
    """
    if not file.name.endswith(".jsonl.gz"):
        raise UsageError(
            "pack-name-unfit", f"{file} is not named like a packed corpus", "use a .jsonl.gz name"
        )
    if file.exists():
        raise UsageError("pack-exists", f"{file} exists", "choose another name")
    lines = []
    for source, raw in raw_sessions(path):
        try:
            _session(source, raw, {})
        except UsageError:
            if not skip_bad:
                raise
            continue
        lines.append(orjson.dumps(orjson.loads(cast("bytes", raw))))
    write_sessions(lines, file)
    return len(lines)

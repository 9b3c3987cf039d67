"""Files that are either whole or not there, whatever moment the machine dies at.

A file is written under a temporary name, made durable, renamed, and its directory made durable.
Faults of the disk come out as one clear sentence.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from agentx_replay.errors import UsageError

_FREE = "free some space; what was written so far stays"
_PERMISSIONS = "choose another --out or change its permissions"
FAULTS = {
    errno.ENOSPC: ("disk-full", "the disk is full", _FREE),
    errno.EDQUOT: ("disk-quota", "the disk quota is used up", _FREE),
    errno.EFBIG: ("file-size-limit", "a file grew over the limit", "raise the limit (ulimit -f)"),
    errno.EROFS: ("disk-read-only", "the file system is read-only", "choose another --out"),
    errno.EACCES: ("permission-denied", "permission was denied", _PERMISSIONS),
    errno.EPERM: ("permission-denied", "permission was denied", _PERMISSIONS),
    errno.ENOENT: (
        "directory-vanished",
        "the directory has vanished",
        "leave the results directory alone during a run",
    ),
    errno.ENOTDIR: ("path-through-file", "a part of the path is a file", "choose another --out"),
}


def explain(error: OSError, path: Path) -> UsageError:
    """Return what an error of the disk at ``path`` means to a person."""
    happened = error.strerror or str(error)
    other = ("disk-refuses", happened, "check the disk, or choose another --out")
    code, happened, way_out = FAULTS.get(error.errno or 0, other)
    return UsageError(code, f"cannot write {path}: {happened}", way_out)


@contextlib.contextmanager
def disk_faults_explained(path: Path) -> Iterator[None]:
    """Turn any ``OSError`` within into the ``UsageError`` that explains it."""
    try:
        yield
    except OSError as error:
        raise explain(error, path) from error


def write_durably(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write ``path`` whole or not at all: ``write`` fills a temporary file that then replaces it.

    Raises ``OSError``; the temporary file is gone then.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_bytes_durably(path: Path, body: bytes) -> None:
    """Write ``body`` to ``path`` whole or not at all. Raises ``OSError``."""

    def write(file: BinaryIO) -> None:
        file.write(body)

    write_durably(path, write)


def sync_directory(directory: Path) -> None:
    """Make renames within ``directory`` durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

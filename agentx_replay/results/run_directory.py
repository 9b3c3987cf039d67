"""A run directory: made, locked, marked, read back. What its files hold is decided elsewhere.

``sweep.json`` and each ``point.json`` are replaced whole, so that a reader at any moment, or after
a crash, sees a complete document. A point that says ``running`` and has no living run was killed.
"""

import atexit
import errno
import fcntl
import os
import secrets as random_texts
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any, Required, TypedDict

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from agentx_replay.errors import UsageError
from agentx_replay.given_files import read_given
from agentx_replay.results.documents import check_sweep, known
from agentx_replay.results.durable import disk_faults_explained, sync_directory, write_bytes_durably
from agentx_replay.results.layout import (
    Measurement,
    calibration_file,
    lock_file,
    measurement_of,
    point_directory,
    point_file,
    sweep_file,
    unfinished_directory,
)
from agentx_replay.results.records import StoredRows, Table, mark_of, read_mark
from agentx_replay.results.resume_command import NOT_KEPT, going_on
from agentx_replay.results.schema import INSTRUMENT, LEVEL_TABLES, PLAYS, POINTS, REQUESTS
from agentx_replay.secret_texts import without_secrets

_HELD = (errno.EACCES, errno.EAGAIN)
_MARK_BYTES = 8


class PointStatus(StrEnum):
    """How far a point has come."""

    RUNNING = "running"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class _Point(TypedDict, total=False):
    """What ``point.json`` says of where its records come from."""

    concurrency: Required[int]
    start: Required[int]
    status: Required[PointStatus]
    run_id: str
    plan_fingerprint: str
    attempt: int
    mark: str


@dataclass(frozen=True, slots=True)
class StoredPoint:
    """One point on disk: its level and ``start``, status and ``point.json``. Records are read as
    far as they were written.
    """

    directory: Path
    concurrency: int
    status: PointStatus
    document: Mapping[str, Any]
    start: int = 1

    @property
    def measurement(self) -> Measurement:
        return Measurement(self.concurrency, self.start)

    def requests(self, names: tuple[str, ...] | None = None) -> pa.Table:
        return REQUESTS.read(self.directory, names)

    def stored_requests(self) -> StoredRows:
        """Return its responses as they are on disk now, to be read more than once."""
        return REQUESTS.at(self.directory)

    def plays(self) -> pa.Table:
        return PLAYS.read(self.directory)

    def instrument(self) -> pa.Table:
        return INSTRUMENT.read(self.directory)


class RunDirectory:
    """Writes one run's files. ``secrets`` are texts that reach no file, whatever holds them."""

    def __init__(self, path: Path, secrets: Collection[str] = ()) -> None:
        self.path = path
        self._secrets = tuple(secret for secret in secrets if secret)

    @classmethod
    def create(
        cls, path: Path, *, resume: bool = False, secrets: Collection[str] = ()
    ) -> "RunDirectory":
        """Make the directory, this process's alone. One that holds anything is refused, unless
        ``resume``; one that another process writes into always.

        Raises ``UsageError`` for that, and if the disk fails.
        """
        with disk_faults_explained(path):
            if lock_file(path).exists():
                lock(path)
            _refuse_what_is_in_the_way(path)
            if path.exists() and any(entry != lock_file(path) for entry in path.iterdir()):
                _refuse_what_it_holds(path, resume=resume)
            existed = path.exists()
            _make(path)
            lock(path)
        atexit.register(_remove_unused, path, keep_directory=existed)
        return cls(path, secrets)

    def write_sweep(self, document: Mapping[str, Any]) -> None:
        self._write_json(sweep_file(self.path), document)

    def write_calibration(self, document: Mapping[str, Any]) -> None:
        self._write_json(calibration_file(self.path), document)

    def attempts(self, measurement: Measurement) -> int:
        """Return a number that no earlier attempt at it has, nor any below it."""
        file = point_file(point_directory(self.path, measurement))
        return int(read_json(file).get("attempt", 0)) + 1 if file.exists() else 0

    def start_point(self, measurement: Measurement, document: Mapping[str, Any]) -> Path:
        """Make the directory of a measurement, marked running, and return it.

        What an earlier attempt left there is set aside: its rows are not this one's.
        """
        directory = point_directory(self.path, measurement)
        with disk_faults_explained(directory):
            if directory.exists():
                self._set_aside(directory)
            directory.mkdir()
            sync_directory(self.path)
        self.write_point(measurement, PointStatus.RUNNING, document)
        return directory

    def _set_aside(self, point: Path) -> None:
        """Move an attempt to where no report looks; what it measured stays readable."""
        unfinished = unfinished_directory(self.path)
        unfinished.mkdir(exist_ok=True)
        names = (unfinished / f"{point.name}.attempt-{number}" for number in count())
        point.rename(next(name for name in names if not name.exists()))
        sync_directory(unfinished)

    def write_point(
        self, measurement: Measurement, status: PointStatus, document: Mapping[str, Any]
    ) -> None:
        """Replace ``point.json``; level, start, status and the level's mark are added."""
        directory = point_directory(self.path, measurement)
        known = {
            **measurement._asdict(),
            "status": status,
            "mark": mark_of(directory) or random_texts.token_hex(_MARK_BYTES),
        }
        self._write_json(point_file(directory), {**known, **document})

    def write_points(self, rows: Collection[Mapping[str, Any]]) -> None:
        """Replace ``points.parquet``: one mapping a point with the columns of ``POINTS``."""
        path = POINTS.whole(self.path)
        with disk_faults_explained(path):
            POINTS.write(path, [pa.Table.from_pylist(list(rows), POINTS.schema())])

    def _write_json(self, path: Path, document: Mapping[str, Any]) -> None:
        plain = orjson.loads(orjson.dumps(dict(document), option=orjson.OPT_SERIALIZE_NUMPY))
        body = orjson.dumps(without(plain, self._secrets), option=orjson.OPT_INDENT_2)
        with disk_faults_explained(path):
            write_bytes_durably(path, body + b"\n")


def _remove_unused(run: Path, *, keep_directory: bool) -> None:
    """Remove what ``RunDirectory.create`` made if this process wrote nothing into it."""
    with suppress(OSError):
        if [*run.iterdir()] == [lock_file(run)]:
            lock_file(run).unlink()
            if not keep_directory:
                run.rmdir()


def lock(run: Path) -> None:
    """Take an existing run directory for this process, until it ends, however it ends: a killed run
    never blocks another.

    Raises ``UsageError`` if another process has it. A file system without locks (some network
    ones) cannot tell, and refuses nobody. Raises ``OSError`` if the disk fails.
    """
    # Never closed: the end of any descriptor of the file would end the lock.
    descriptor = os.open(lock_file(run), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in _HELD:
            raise UsageError(
                "run-locked",
                f"another run is writing into {run}",
                "wait for it to end, or choose another --out",
            ) from None


def _refuse_what_is_in_the_way(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise UsageError(
            "out-not-a-directory",
            f"{path} is not a directory",
            "name a directory that is new or empty with --out",
        )
    if path.is_symlink() and not path.exists():
        raise UsageError(
            "out-a-dead-link",
            f"{path} is a link to what does not exist",
            "remove the link, or choose another --out",
        )


def _refuse_what_it_holds(path: Path, *, resume: bool) -> None:
    """Raise ``UsageError`` for a directory with anything in it but a run to go on with."""
    is_run = sweep_file(path).exists()
    if resume and not is_run:
        raise UsageError(
            "out-not-a-run",
            f"{path} holds something other than a run",
            "choose another --out; only a run of agentx-replay can be resumed",
        )
    if not resume:
        go_on = f"{going_on(read_sweep(path), path)}\nor " if is_run else ""
        raise UsageError(
            "out-not-empty", f"{path} exists and is not empty", f"{go_on}choose another --out"
        )


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError:  # its parents were made: it is a place like /proc
        raise UsageError(
            "out-cannot-be-made",
            f"{path} cannot be made: its place takes no directories",
            "choose another --out",
        ) from None


def without(value: Any, secrets: Collection[str]) -> Any:
    """Return a JSON value in which no text, key or value, contains any of ``secrets``."""
    if isinstance(value, str):
        return without_secrets(value, secrets, NOT_KEPT)
    if isinstance(value, list):
        return [without(item, secrets) for item in value]
    if isinstance(value, dict):
        return {without(k, secrets): without(v, secrets) for k, v in value.items()}
    return value


def read_sweep(path: Path) -> dict[str, Any]:
    """Return ``sweep.json`` of a run directory; fields that another version lacks are not there.

    Raises ``UsageError`` if there is none, or a field cannot be what it is.
    """
    if not sweep_file(path).exists():
        raise UsageError(
            "not-a-run",
            f"{path} is not a run directory: it has no sweep.json",
            "give the directory that --out named",
        )
    document = read_json(sweep_file(path))
    try:
        check_sweep(document)
    except ValueError as error:
        raise UsageError(
            "sweep-damaged",
            f"{sweep_file(path)} is damaged: {error}",
            "put back the one that the run wrote",
        ) from error
    return document


def read_points(path: Path) -> list[StoredPoint]:
    """Return the points of a run directory, finished or not, by rising concurrency and start.

    A directory that is not named as a level's or start's is no point, whatever it holds.
    """
    files = [file for file in path.glob("c*/point.json") if measurement_of(file.parent)]
    return sorted(map(_read_point, files), key=lambda point: point.measurement)


def _read_point(file: Path) -> StoredPoint:
    document = read_json(file)
    try:
        point = _checked_point(document)
    except ValueError as error:
        raise UsageError(
            "point-damaged", f"{file} is damaged: {error}", "move its directory away"
        ) from error
    level = point["concurrency"], point["status"]
    return StoredPoint(file.parent, *level, document, point["start"])


def _checked_point(document: dict[str, Any]) -> _Point:
    point = known(_Point, document, "point")
    if min(point["concurrency"], point["start"]) < 1:
        raise ValueError("point.concurrency or point.start not above 0")
    return point


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a run. Raises ``UsageError`` if there is none."""
    try:
        document = orjson.loads(read_given(path, str(path), "move it away"))
    except orjson.JSONDecodeError as error:
        raise UsageError(
            "json-unreadable", f"{path} cannot be read ({error})", "move it away"
        ) from error
    if not isinstance(document, dict):
        raise UsageError("json-not-object", f"{path} is not a JSON object", "move it away")
    return document


def check_place(point: StoredPoint) -> None:
    """Raise ``UsageError`` if a point lies in another's directory."""
    if measurement_of(point.directory) != point.measurement:
        raise UsageError(
            "point-of-other-level",
            f"{point_file(point.directory)} is of concurrency {point.measurement}",
            "move its directory away",
        )


def check_records(stored: StoredPoint) -> None:
    """Raise ``UsageError`` if a file in a level's directory is not what the level recorded, each
    response once. Damage within a file shows in its checksums when it is read.
    """
    for table in LEVEL_TABLES:
        for file in table.files(stored.directory):
            if read_mark(file) != stored.document.get("mark"):
                raise _refused(
                    "record-of-other-level", file, "has another mark than this level: it is not its"
                )
            for what in _of_another_level(table, file, stored.measurement):
                raise _refused("rows-of-other-level", file, what)
    groups = stored.stored_requests().groups(("request_id",))
    ids = pa.chunked_array([chunk for group in groups for chunk in group[0].chunks], pa.string())
    counts = pc.value_counts(ids)
    twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if len(twice):
        what = f"holds {len(twice)} responses more than once, as {twice[0]}"
        raise _refused("responses-twice", REQUESTS.parts(stored.directory), what)


def _of_another_level(table: Table, file: Path, measurement: Measurement) -> Iterator[str]:
    """Yield which other level or start rows of a file are of."""
    for rows in table.groups([file], ("concurrency", "start")):
        for name, own in measurement._asdict().items():
            for other in pc.unique(rows[name]).to_pylist():
                if other != own:
                    yield f"holds rows of {name} {other}, not {own}"


def _refused(code: str, file: Path, what: str) -> UsageError:
    return UsageError(code, f"{file} {what}", "set it aside")

"""A run directory: made, marked, read back. What its files hold is decided elsewhere.

``sweep.json`` and each ``point.json`` are replaced whole, so that a reader at any moment, or after
a crash, sees a complete document. A point that says ``running`` and has no living run was killed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from agentx_replay.errors import UsageError
from agentx_replay.given_files import read_given
from agentx_replay.results.compaction import play_files
from agentx_replay.results.durable import disk_faults_explained, sync_directory, write_bytes_durably
from agentx_replay.results.layout import (
    Measurement,
    calibration_file,
    instrument_file,
    instrument_parts,
    lock_file,
    measurement_of,
    point_directory,
    point_file,
    points_file,
    sweep_file,
    unfinished_directory,
)
from agentx_replay.results.lock import lock
from agentx_replay.results.parquet import read_parquet, write_parquet
from agentx_replay.results.requests import StoredRequests
from agentx_replay.results.resume_command import NOT_KEPT, going_on
from agentx_replay.results.rows import table_of
from agentx_replay.results.sample_parts import sample_files
from agentx_replay.results.schema import INSTRUMENT, PLAYS, POINTS, Column, arrow_schema
from agentx_replay.results.sweep_document import check_point, check_sweep
from agentx_replay.secret_texts import without_secrets


class PointStatus(StrEnum):
    """How far a point has come."""

    RUNNING = "running"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class StoredPoint:
    """One point on disk: its level, status and ``point.json``; ``start`` says which start of the
    level it is.
    """

    directory: Path
    concurrency: int
    status: PointStatus
    document: Mapping[str, Any]
    start: int = 1

    @property
    def measurement(self) -> Measurement:
        """Its level and start."""
        return Measurement(self.concurrency, self.start)

    def requests(self, names: tuple[str, ...] | None = None) -> pa.Table:
        """Return its responses, as far as they were written; only columns ``names``, if given."""
        return StoredRequests.of(self.directory).table(names)

    def stored_requests(self) -> StoredRequests:
        """Return its responses as they are on disk now, to be read more than once."""
        return StoredRequests.of(self.directory)

    def plays(self) -> pa.Table:
        """Return its plays, as far as they were written."""
        return read_parquet(play_files(self.directory), PLAYS)

    def instrument(self) -> pa.Table:
        """Return the samples of the client's own load, as far as they were written."""
        whole, parts = instrument_file(self.directory), instrument_parts(self.directory)
        return read_parquet(sample_files(whole, parts), INSTRUMENT)


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

        Raises ``UsageError`` for that, and where the disk refuses.
        """
        with disk_faults_explained(path):
            if lock_file(path).exists():
                lock(path)
            _refuse_what_is_in_the_way(path)
            if path.exists() and _holds_anything(path):
                _refuse_what_it_holds(path, resume=resume)
            _make(path)
            lock(path)
        return cls(path, secrets)

    def write_sweep(self, document: Mapping[str, Any]) -> None:
        """Replace ``sweep.json``."""
        self._write_json(sweep_file(self.path), document)

    def write_calibration(self, document: Mapping[str, Any]) -> None:
        """Replace ``calibration.json``."""
        self._write_json(calibration_file(self.path), document)

    def start_point(self, concurrency: int, document: Mapping[str, Any], start: int = 1) -> Path:
        """Make the directory of a level's ``start``, marked running, and return it.

        What an earlier attempt left there is set aside: its rows are not this one's.
        """
        directory = point_directory(self.path, concurrency, start)
        with disk_faults_explained(directory):
            if directory.exists():
                self._set_aside(directory)
            directory.mkdir()
            sync_directory(self.path)
        self.write_point(concurrency, PointStatus.RUNNING, document, start)
        return directory

    def _set_aside(self, point: Path) -> None:
        """Move an attempt to where no report looks; what it measured stays readable."""
        unfinished = unfinished_directory(self.path)
        unfinished.mkdir(exist_ok=True)
        names = (unfinished / f"{point.name}.attempt-{number}" for number in count())
        point.rename(next(name for name in names if not name.exists()))
        sync_directory(unfinished)

    def write_point(
        self,
        concurrency: int,
        status: PointStatus,
        document: Mapping[str, Any],
        start: int = 1,
    ) -> None:
        """Replace ``point.json``; level, start and status are added to the document."""
        path = point_file(point_directory(self.path, concurrency, start))
        known = {"concurrency": concurrency, "start": start, "status": status}
        self._write_json(path, {**known, **document})

    def write_points(self, rows: Collection[Mapping[str, Any]]) -> None:
        """Replace ``points.parquet``: one mapping a point with the columns of ``POINTS``."""
        names = [column.name for column in POINTS]
        ordered = [tuple(row[name] for name in names) for row in rows]
        self._write_table(points_file(self.path), POINTS, ordered)

    def _write_table(
        self, path: Path, columns: tuple[Column, ...], rows: Collection[tuple[Any, ...]]
    ) -> None:
        schema = arrow_schema(columns)
        with disk_faults_explained(path):
            write_parquet(path, schema, [table_of(schema, list(rows))])

    def _write_json(self, path: Path, document: Mapping[str, Any]) -> None:
        plain = orjson.loads(orjson.dumps(dict(document), option=orjson.OPT_SERIALIZE_NUMPY))
        body = orjson.dumps(without(plain, self._secrets), option=orjson.OPT_INDENT_2)
        with disk_faults_explained(path):
            write_bytes_durably(path, body + b"\n")


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


def _holds_anything(directory: Path) -> bool:
    return any(entry != lock_file(directory) for entry in directory.iterdir())


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

    Raises ``UsageError`` where there is none, or a field cannot be what it is.
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


def check_place(point: StoredPoint) -> None:
    """Raise ``UsageError`` where a point lies in another's directory."""
    if measurement_of(point.directory) != point.measurement:
        raise UsageError(
            "point-of-other-level",
            f"{point_file(point.directory)} is of concurrency {point.measurement}",
            "move its directory away",
        )


def _read_point(file: Path) -> StoredPoint:
    document = read_json(file)
    concurrency, status = document.get("concurrency"), document.get("status")
    if type(concurrency) is not int or concurrency < 1 or status not in list(PointStatus):
        raise UsageError(
            "point-without-level",
            f"{file} lacks a usable concurrency or status",
            "move its directory away",
        )
    start = document.get("start")
    if type(start) is not int or start < 1:
        raise UsageError(
            "point-without-start", f"{file} lacks a usable start", "move its directory away"
        )
    try:
        check_point(document)
    except ValueError as error:
        raise UsageError(
            "point-damaged", f"{file} is damaged: {error}", "move its directory away"
        ) from error
    return StoredPoint(file.parent, concurrency, PointStatus(status), document, start)


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a run. Raises ``UsageError`` where there is none."""
    try:
        document = orjson.loads(read_given(path, str(path), "move it away"))
    except orjson.JSONDecodeError as error:
        raise UsageError(
            "json-unreadable", f"{path} cannot be read ({error})", "move it away"
        ) from error
    if not isinstance(document, dict):
        raise UsageError("json-not-object", f"{path} is not a JSON object", "move it away")
    return document

"""The JSON objects of a log, a line at a time, and the fields of one object.

A damaged line is left out and counted; the lines around it are read. No line is held that is
longer than ``MOST_LINE_BYTES``.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import orjson

from agentx_replay.errors import UsageError, shown
from agentx_replay.traces.fields import MOST_TOKENS
from agentx_replay.traces.files import opened
from agentx_replay.traces.importing.record import Ledger

MOST_LINE_BYTES = 64 * 2**20
"""A pasted image makes a line of some MB; nothing that a log holds needs more."""

LOG_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".ndjson")

_Row = TypeVar("_Row")

CUT_OFF = "last line cut off"
NOT_JSON = "line that is not a JSON object"
TOO_LONG = f"line longer than {MOST_LINE_BYTES >> 20} MiB"


def objects(file: Path, ledger: Ledger) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, object) of each line of ``file``; what cannot be read goes to the ledger."""
    try:
        with opened(file) as stream:
            yield from _objects(stream, file, ledger)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        ledger.leave_out("file that cannot be read to its end", f"{file} ({error})")


def _objects(stream: BinaryIO, file: Path, ledger: Ledger) -> Iterator[tuple[str, dict[str, Any]]]:
    number = 0
    while line := stream.readline(MOST_LINE_BYTES + 1):
        number += 1
        ledger.read_bytes(len(line))
        if len(line) > MOST_LINE_BYTES:
            ledger.leave_out(TOO_LONG, f"{file}:{number}")
            _pass_over_line(stream, ledger)
            continue
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            if line.strip():
                what = NOT_JSON if line.endswith(b"\n") else CUT_OFF
                ledger.leave_out(what, f"{file}:{number}")
            continue
        if isinstance(value, dict):
            yield f"{file}:{number}", value
        else:
            ledger.leave_out(NOT_JSON, f"{file}:{number}")


def _pass_over_line(stream: BinaryIO, ledger: Ledger) -> None:
    while part := stream.readline(2**20):
        ledger.read_bytes(len(part))
        if part.endswith(b"\n"):
            return


def rows(
    files: Sequence[Path], ledger: Ledger, read: Callable[[str, dict[str, Any]], _Row | None]
) -> Iterator[_Row]:
    """Yield what ``read`` makes of every object of files; one that it refuses is left out."""
    for file in files:
        for place, value in objects(file, ledger):
            try:
                row = read(place, value)
            except UsageError as error:
                ledger.leave_out("row with a field that cannot be read", error.what)
                continue
            if row is not None:
                yield row


def milliseconds(text: object) -> int | None:
    """Return an ISO 8601 instant in ms since 1970, None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def tokens(values: dict[str, Any], key: str, place: str) -> int:
    """Return a count of tokens, 0 if it is absent. Raises ``UsageError`` for what is no count."""
    value = values.get(key)
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        raise bad_field(place, key, value, "a number of tokens")
    return value


def bad_field(place: str, key: str, value: object, wanted: str) -> UsageError:
    """Return the error for a field whose value is not what its format has there."""
    return UsageError(
        "import-field-malformed",
        f"{place}: {key} is {shown(value)}, not {wanted}",
        "correct the file and import it again",
    )


def record(values: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the object under ``key``, empty if there is none."""
    value = values.get(key)
    return value if isinstance(value, dict) else {}


def records(values: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects of the list under ``key``, empty if there is none."""
    value = values.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text(values: dict[str, Any], key: str) -> str:
    """Return the string under ``key``, empty if there is none."""
    value = values.get(key)
    return value if isinstance(value, str) else ""

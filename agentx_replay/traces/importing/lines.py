"""The JSON objects of a log, a line at a time, and the fields of one object.

A damaged line is left out and counted; the lines around it are read. No line is held that is
longer than ``MOST_LINE_BYTES``.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from agentx_replay.errors import UsageError, shown
from agentx_replay.traces.fields import MOST_SECONDS, MOST_TOKENS
from agentx_replay.traces.files import LINES_SUFFIXES, opened
from agentx_replay.traces.importing.record import Ledger

MOST_LINE_BYTES = 64 * 2**20
"""A pasted image makes a line of some MB; nothing that a log holds needs more."""

LOG_SUFFIXES = (*LINES_SUFFIXES, ".json", ".ndjson")

Place = tuple[Path, int]
"""A file and the number of a line in it."""

_Line = TypeVar("_Line")
_Row = TypeVar("_Row")

_REPORTED_BYTES = 2**20
"""How often reading is reported."""
_BEGINNING_BYTES = 512
_LINES_THAT_TELL = 50
"""Some logs begin with lines that any format could have."""
_OBJECTS = msgspec.json.Decoder(dict[str, Any])

CUT_OFF = "last line cut off"
NOT_JSON = "line that is not JSON, or not as its format has it"
TOO_LONG = f"line longer than {MOST_LINE_BYTES >> 20} MiB"


def objects(file: Path, ledger: Ledger) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield place and object of each line of ``file``; what cannot be read goes to the ledger."""
    return decoded(file, ledger, _OBJECTS)


def first_objects(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of the first lines of ``file``, which tell its format and its name."""
    return (line for _, line in islice(objects(file, Ledger()), _LINES_THAT_TELL))


def decoded(
    file: Path,
    ledger: Ledger,
    decoder: msgspec.json.Decoder[_Line],
    key: bytes = b"",
    passed_over: tuple[bytes, ...] = (),
) -> Iterator[tuple[Place, _Line]]:
    """Yield place and value of each line of ``file``; what cannot be read goes to the ledger.

    Lines that have ``key`` near their beginning and then any of ``passed_over`` are not decoded.
    """
    try:
        with opened(file) as stream:
            yield from _decoded(stream, file, ledger, decoder.decode, key, passed_over)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        ledger.leave_out("file that cannot be read to its end", f"{file} ({error})")


def _decoded(
    stream: BinaryIO,
    file: Path,
    ledger: Ledger,
    decode: Callable[[bytes], _Line],
    key: bytes,
    passed_over: tuple[bytes, ...],
) -> Iterator[tuple[Place, _Line]]:
    number = unreported = 0
    while raw := stream.readline(MOST_LINE_BYTES + 1):
        number += 1
        unreported += len(raw)
        if unreported > _REPORTED_BYTES:
            ledger.read_bytes(unreported)
            unreported = 0
        if len(raw) > MOST_LINE_BYTES:
            ledger.leave_out(TOO_LONG, (file, number))
            _pass_over_line(stream, ledger)
            continue
        at = raw.find(key, 0, _BEGINNING_BYTES)
        if at >= 0 and raw.startswith(passed_over, at + len(key)):
            continue
        try:
            line = decode(raw)
        except (ValueError, RecursionError):
            if not raw.isspace():
                what = NOT_JSON if raw.endswith(b"\n") else CUT_OFF
                ledger.leave_out(what, (file, number))
        else:
            yield (file, number), line
    ledger.read_bytes(unreported)


def _pass_over_line(stream: BinaryIO, ledger: Ledger) -> None:
    while part := stream.readline(2**20):
        ledger.read_bytes(len(part))
        if part.endswith(b"\n"):
            return


def rows(
    files: Sequence[Path], ledger: Ledger, read: Callable[[Place, dict[str, Any]], _Row | None]
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


def tokens(values: dict[str, Any], key: str, place: Place) -> int:
    """Return a count of tokens, 0 if it is absent. Raises ``UsageError`` for what is no count."""
    return count(place, key, values.get(key))


def count(place: Place, key: str, value: Any) -> int:
    """Return ``value``, the field ``key``, as a count of tokens, in the same way."""
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        raise bad_field(place, key, value, "a number of tokens")
    return value


def span_ms(place: Place, key: str, value: Any, ms_per_unit: int = 1) -> int:
    """Return ``value``, the field ``key``, a span or an instant of any unit, in whole ms."""
    if type(value) not in (int, float) or not 0 <= value * ms_per_unit <= MOST_SECONDS * 1000:
        raise bad_field(place, key, value, "a time")
    whole: int = round(value * ms_per_unit)
    return whole


def bad_field(place: Place, key: str, value: object, wanted: str) -> UsageError:
    """Return the error for a field whose value is not what its format has there."""
    return UsageError(
        "import-field-malformed",
        f"{place[0]}:{place[1]}: {key} is {shown(value)}, not {wanted}",
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

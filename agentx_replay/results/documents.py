"""JSON documents of a run, each field held to its declared type when it is read.

msgspec is imported when a document is read: a start does without. Not for: whether the values make
sense together, or whether a run is another's equal.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict, TypeVar, get_type_hints

from agentx_replay.scenario import Scenario

T = TypeVar("T")

_MOST = 10_000
"""Lanes of a level, and starts of one: what the command line takes at most."""
_MOST_UNIX_S = 2.0**35
"""The year 3058; calendars end not much later."""

_Rules = TypedDict("_Rules", get_type_hints(Scenario), total=False)  # type: ignore[misc]


class _Corpus(TypedDict, total=False):
    """What was replayed."""

    name: str
    fingerprint: str
    sessions: int
    played: tuple[str, ...]


class _Target(TypedDict, total=False):
    """What was measured."""

    kind: str
    model: str | None
    url: str | tuple[str, ...]


class _Sweep(TypedDict, total=False):
    """``sweep.json``. Other versions may lack fields, or add some."""

    command: tuple[str, ...]
    started_unix_s: float
    versions: dict[str, str]
    host: dict[str, Any]
    scenario: _Rules
    corpus: _Corpus
    source: dict[str, Any]
    plans: dict[str, str]
    levels: tuple[int, ...]
    starts: int
    gpus: int | None
    system: dict[str, Any]
    salt: str
    tool_messages: bool
    live_history: bool
    calibration: dict[str, Any]
    target: _Target
    timestamps: str
    settings: dict[str, Any]
    resumed: tuple[dict[str, Any], ...]


def check_sweep(document: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` that names a field of ``sweep.json`` which cannot be what it is."""
    found = known(_Sweep, document, "sweep")
    numbers = [*found.get("levels", ()), found.get("starts", 1)]
    for holds, what in (
        (1 <= min(numbers) <= max(numbers) <= _MOST, f"levels or starts not from 1 to {_MOST:,}"),
        ((found.get("gpus") or 1) >= 1, "gpus not above 0"),
        (0.0 <= found.get("started_unix_s", 0.0) <= _MOST_UNIX_S, "started_unix_s not a time"),
    ):
        if not holds:
            raise ValueError(f"sweep.{what}")


def typed(kind: type[T], value: object, name: str) -> T:
    """Return a JSON value as ``kind``: a dataclass of numbers, texts, paths, literals, dataclasses,
    tuples and mappings.

    Raises ``ValueError``, whose text names the field, counted from ``name``, and what is wrong with
    it; also for a field that ``kind`` does not have.
    """
    import msgspec

    found = known(kind, value, name)
    more = next(_unknown(value, msgspec.to_builtins(found, enc_hook=str), name), None)
    if more is not None:
        raise ValueError(f"{more}: not known to this version")
    return found


def known(kind: type[T], value: object, name: str) -> T:
    """Return the same, but for fields that ``kind`` does not have: those pass."""
    import msgspec

    try:
        return msgspec.convert(value, kind, dec_hook=_path)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        raise ValueError(f"{name}{place.rstrip('`')}: {what[0].lower()}{what[1:]}") from error


def _path(kind: type, value: object) -> Path:
    if kind is not Path or not isinstance(value, str):
        raise TypeError("Expected `path`")
    return Path(value)


def _unknown(given: Any, kept: Any, name: str) -> Iterator[str]:
    """Yield the fields of a JSON value that were not kept."""
    if isinstance(given, dict):
        for key, value in given.items():
            if key in kept:
                yield from _unknown(value, kept[key], f"{name}.{key}")
            else:
                yield f"{name}.{key}"
    elif isinstance(given, list):
        for number, (value, held) in enumerate(zip(given, kept, strict=True)):
            yield from _unknown(value, held, f"{name}[{number}]")

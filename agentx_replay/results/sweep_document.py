"""What ``sweep.json`` says, and ``point.json`` of its run, held to its kind when it is read.

Fields that other versions lack or add pass. Not for: whether a run is another's equal.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentx_replay.results.typed import check_known
from agentx_replay.scenario import Scenario

_MOST = 10_000
"""Lanes of a level, and starts of one: what the command line takes at most."""
_MOST_UNIX_S = 2.0**35
"""The year 3058; calendars end not much later."""


@dataclass(frozen=True, slots=True)
class _Corpus:
    name: str
    fingerprint: str
    sessions: int
    played: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Target:
    kind: str
    model: str | None
    url: object


@dataclass(frozen=True, slots=True)
class _Sweep:
    command: tuple[str, ...]
    started_unix_s: float
    versions: dict[str, str]
    host: dict[str, object]
    scenario: Scenario
    corpus: _Corpus
    source: dict[str, object]
    plans: dict[str, str]
    levels: tuple[int, ...]
    starts: int
    gpus: int | None
    salt: str
    tool_messages: bool
    live_history: bool
    calibration: dict[str, object]
    target: _Target
    timestamps: str
    settings: dict[str, object]
    resumed: tuple[dict[str, object], ...]


@dataclass(frozen=True, slots=True)
class _Point:
    run_id: str
    plan_fingerprint: str
    attempt: int
    mark: str


def check_sweep(document: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` that names a field of ``sweep.json`` which cannot be what it is."""
    check_known(_Sweep, document, "sweep")
    url = document.get("target", {}).get("url", "")
    numbers = [*document.get("levels", ()), document.get("starts", 1)]
    gpus, started_s = document.get("gpus"), document.get("started_unix_s", 0.0)
    for holds, what in (
        (all(map(_is_text, url if isinstance(url, list) else [url])), "target.url is no address"),
        (
            1 <= min(numbers) <= max(numbers) <= _MOST,
            f"levels or starts is not from 1 to {_MOST:,}",
        ),
        (gpus is None or gpus >= 1, "gpus is not above 0"),
        (0.0 <= started_s <= _MOST_UNIX_S, "started_unix_s is no time"),
    ):
        if not holds:
            raise ValueError(f"sweep.{what}")


def check_point(document: Mapping[str, Any]) -> None:
    """Raise the same for what a ``point.json`` says of where its records come from."""
    check_known(_Point, document, "point")


def _is_text(value: object) -> bool:
    return isinstance(value, str)

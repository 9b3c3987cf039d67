"""Going on with a run: which levels stand, and whether what follows is still the same experiment.

Two sweep documents are compared value by value; what may differ without harm (when and on which
machine it ran, the port of a simulator) is not looked at. Not for: moving or reading records.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from agentx_replay.errors import UsageError
from agentx_replay.experiment.settings import Settings, settings_of
from agentx_replay.prompts.calibration import from_document
from agentx_replay.results.layout import Measurement, calibration_file, sweep_file
from agentx_replay.results.resume_command import NOT_KEPT, going_on
from agentx_replay.results.run_directory import (
    PointStatus,
    StoredPoint,
    check_place,
    read_json,
    read_points,
    read_sweep,
)
from agentx_replay.scenario import NOT_RULES

_MOST_SHOWN = 60
_MAY_CHANGE = ("metrics", "keep_alive_s")
_SETTINGS = (
    "endpoint", "header", "body", "session_headers", "keepalive", "timeout", "max_context",
    "max_context_policy", "keep_one_of_duplicates",
)  # fmt: skip
_OPTIONS = ("gpus", "salt", "tool_messages", "live_history")
"""What a run is compared by beside its corpus, rules and server: in its settings and beside."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A run as it was left: its ``sweep.json``, the settings in it, its complete points by rising
    concurrency and start, and those that were ``begun`` and not completed.
    """

    path: Path
    document: Mapping[str, Any]
    settings: Settings
    complete: tuple[StoredPoint, ...]
    begun: tuple[Measurement, ...] = ()

    @property
    def planned(self) -> list[Measurement]:
        """Every start of every level that the run was asked for."""
        starts, levels = range(1, self.settings.starts + 1), self.settings.concurrency
        return [Measurement(level, start) for start in starts for level in levels]


def earlier_run(path: Path) -> Earlier:
    """Return what there is to resume. Raises ``UsageError`` where there is no run, where its
    ``sweep.json`` is damaged, or where a level lies in another's directory.
    """
    document = read_sweep(path)
    try:
        settings = settings_of(document, path)
    except (KeyError, ValueError) as error:
        raise UsageError(
            "resume-settings-damaged",
            f"{sweep_file(path)} cannot be gone on from: {error}",
            "choose another --out",
        ) from None
    points = read_points(path)
    for point in points:
        check_place(point)
    complete = tuple(point for point in points if point.status is PointStatus.COMPLETE)
    begun = tuple(point.measurement for point in points if point not in complete)
    calibration = _calibration(path) or settings.calibration
    return Earlier(path, document, replace(settings, calibration=calibration), complete, begun)


def _calibration(path: Path) -> Path | None:
    """Return a run's calibration, to be proven anew; None if words and template were assumed."""
    file = calibration_file(path)
    if not file.exists() or from_document(read_json(file), str(file)).cost.assumed:
        return None
    return file


def resumed(earlier: Earlier, now: Mapping[str, Any], *, accept: bool) -> dict[str, Any]:
    """Return the document of the run that goes on: as it is now, with what went before.

    Raises ``UsageError`` naming every difference, unless they are to be ``accept``-ed; then they
    are on record.
    """
    found = refuse_differences(earlier, now, accept=accept)
    before = earlier.document
    begun = {key: before[key] for key in ("command", "started_unix_s", "probes") if key in before}
    kept = {str(point.measurement) for point in earlier.complete}
    plans = {name: plan for name, plan in now["plans"].items() if name not in kept}
    again = {"command": now["command"], "unix_s": now["started_unix_s"], "differences": found}
    return {
        **now,
        **begun,
        "levels": sorted({*before["levels"], *now["levels"]}),
        "starts": max(before["starts"], now["starts"]),
        "plans": {**before.get("plans", {}), **plans},
        "resumed": [*before.get("resumed", []), again],
    }


def refuse_differences(earlier: Earlier, now: Mapping[str, Any], *, accept: bool) -> list[str]:
    """Return every difference of a sweep document from the run's; raise ``UsageError`` naming them
    unless they are to be ``accept``-ed.
    """
    found = differences(earlier.document, now)
    if found and not accept:
        raise UsageError(
            "resume-differs",
            f"{earlier.path} cannot be resumed as the same experiment: {'; '.join(found)}",
            f"{going_on(earlier.document, earlier.path)}\nchoose another --out, or add --override "
            "alone to mix them on record",
        )
    return found


def with_options(document: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return a run's document with the options of ``settings`` in place of its own: what can be
    compared before the corpus has been read and the server asked.
    """
    options = {name: getattr(settings, name) for name in _OPTIONS}
    return {**document, **options, "settings": settings.document()}


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return what makes two sweep documents different experiments, each as one clause."""
    old, new = dict(_facts(before)), dict(_facts(now))
    return [
        f"{name} was {_shown(name, old.get(name))} and is {_shown(name, new.get(name))}"
        for name in {**old, **new}
        if _plain(old.get(name)) != _plain(new.get(name)) and NOT_KEPT not in str(old.get(name))
    ]


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "the version", document.get("versions", {}).get("agentx-replay")
    corpus = document.get("corpus", {})
    yield "the corpus", corpus.get("fingerprint")
    played = corpus.get("played")
    yield "the sessions played", played and f"{len(played)} ({_digest(played)})"
    for rule, value in document.get("scenario", {}).items():
        if rule not in (*NOT_RULES, "comparable"):
            yield f"the rule {rule}", value
    target = document.get("target", {})
    for fact, value in target.items():
        embedded = fact == "url" and target.get("kind") != "server"
        if fact not in _MAY_CHANGE and not embedded:
            yield f"the server's {fact}", value
    yield "the clock of arrivals", document.get("timestamps")
    yield "the template's cost", document.get("calibration", {}).get("cost")
    for names, values in ((_SETTINGS, document.get("settings", {})), (_OPTIONS, document)):
        for name in names:
            yield f"--{name.replace('_', '-')}", values.get(name)


def _plain(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _digest(names: Any) -> str:
    return hashlib.sha256(_plain(names)).hexdigest()[:8]


def _shown(name: str, value: Any) -> str:
    """Return a value as a person would type or say it."""
    option = name.startswith("--")
    if value is None or (option and value in (False, [], ())):
        return "not given" if option else "not known"
    if isinstance(value, bool):
        return "given" if option else "yes" if value else "no"
    if isinstance(value, Mapping):
        text = ", ".join(f"{key} {each}" for key, each in value.items())
    elif isinstance(value, list | tuple):
        text = ", ".join(map(str, value))
    else:
        text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + "…"

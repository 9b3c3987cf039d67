"""Going on with a run: which levels stand, and whether what follows is still the same experiment.

Two sweep documents are compared value by value; what may differ without harm (when and on which
machine it ran, the port of a simulator) is not looked at. Not for: moving or reading records.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from agentx_replay.errors import UsageError
from agentx_replay.prompts.calibration import from_document
from agentx_replay.results.going_on import going_on
from agentx_replay.results.layout import calibration_file, sweep_file
from agentx_replay.results.run_directory import (
    PointStatus,
    StoredPoint,
    check_place,
    read_json,
    read_points,
    read_sweep,
)

_MOST_SHOWN = 60
_NOT_RULES = ("name", "fingerprint", "overridden", "comparable")
_MAY_CHANGE = ("metrics", "keep_alive_s")
_NEEDED = (
    ("command",), ("started_unix_s",), ("versions", "agentx-replay"), ("scenario",),
    ("corpus", "fingerprint", "played"), ("plans",), ("levels",), ("starts",), ("gpus",), ("salt",),
    ("calibration", "cost"), ("target", "kind"),
)  # fmt: skip
"""What a run is compared by, or goes on from."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A run as it was left: its ``sweep.json``, and its complete points by rising concurrency
    and start.
    """

    path: Path
    document: Mapping[str, Any]
    complete: tuple[StoredPoint, ...]

    @property
    def salt(self) -> str:
        """What its prompts were made from."""
        return str(self.document["salt"])

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels it was to run."""
        return tuple(self.document["levels"])

    @property
    def starts(self) -> int:
        """How many starts of each level it was to measure."""
        return int(self.document["starts"])

    @property
    def api(self) -> str:
        """The API that it asked."""
        return _api(self.document)

    @property
    def calibration(self) -> Path | None:
        """Its calibration, to be proven anew; None where words and template were assumed."""
        path = calibration_file(self.path)
        if not path.exists() or from_document(read_json(path), str(path)).cost.assumed:
            return None
        return path


def earlier_run(path: Path) -> Earlier:
    """Return what there is to resume. Raises ``UsageError`` where there is no run, where its
    ``sweep.json`` lacks something, or where a level lies in another's directory.
    """
    document = read_sweep(path)
    for part, *fields in _NEEDED:
        lacking = [part] if part not in document else [f for f in fields if f not in document[part]]
        if lacking:
            where = sweep_file(path) if lacking == [part] else f"{part} in {sweep_file(path)}"
            raise UsageError(
                "resume-file-missing",
                f"{where} has no {lacking[0]}, so its run cannot be resumed",
                "choose another --out",
            )
    points = read_points(path)
    for point in points:
        check_place(point)
    complete = tuple(point for point in points if point.status is PointStatus.COMPLETE)
    return Earlier(path, document, complete)


def resumed(earlier: Earlier, now: Mapping[str, Any], *, accept: bool) -> dict[str, Any]:
    """Return the document of the run that goes on: as it is now, with what went before.

    Raises ``UsageError`` naming every difference, unless they are to be ``accept``-ed; then they
    are on record.
    """
    found = differences(earlier.document, now)
    if found and not accept:
        raise UsageError(
            "resume-differs",
            f"{earlier.path} cannot be resumed as the same experiment: {'; '.join(found)}",
            f"{going_on(earlier.document, earlier.path)}\nchoose another --out, or add --override "
            "alone to mix them on record",
        )
    before = earlier.document
    begun = {key: before[key] for key in ("command", "started_unix_s")}
    kept = {str(point.measurement) for point in earlier.complete}
    plans = {name: plan for name, plan in now["plans"].items() if name not in kept}
    again = {"command": now["command"], "unix_s": now["started_unix_s"], "differences": found}
    return {
        **now,
        **begun,
        "levels": sorted({*before["levels"], *now["levels"]}),
        "starts": max(earlier.starts, now["starts"]),
        "plans": {**before["plans"], **plans},
        "resumed": [*before.get("resumed", []), again],
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return what makes two sweep documents different experiments, each as one clause."""
    old, new = dict(_facts(before)), dict(_facts(now))
    return [
        f"{name} was {_shown(old.get(name))} and is {_shown(new.get(name))}"
        for name in {**old, **new}
        if _plain(old.get(name)) != _plain(new.get(name))
    ]


def _api(document: Mapping[str, Any]) -> str:
    return str(document["calibration"].get("api", "chat"))


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "the version", document["versions"]["agentx-replay"]
    yield "the corpus", document["corpus"]["fingerprint"]
    yield "the sessions played", document["corpus"]["played"]
    for rule, value in document["scenario"].items():
        if rule not in _NOT_RULES:
            yield f"the rule {rule}", value
    target = document["target"]
    for fact, value in target.items():
        embedded = fact == "url" and target["kind"] != "server"
        if fact not in _MAY_CHANGE and not embedded:
            several = fact == "url" and isinstance(value, list)
            yield f"the server's {fact}", ", ".join(value) if several else value
    yield "the API", _api(document)
    yield "sending tool messages", document.get("tool_messages", False)
    yield "the template's cost", document["calibration"]["cost"]
    yield "the salt", document["salt"]
    yield "feeding live output back", document.get("live_history", False)
    yield "the number of GPUs", document["gpus"]


def _plain(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    text = str(value)
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + "…"

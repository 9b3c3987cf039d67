"""Whether runs that are compared did the same work, and at which levels they can have.

Fingerprints decide: of the corpus, of the rules, and of the plan of each level. Not for what the
runs completed of it, which differs with their speed.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentx_replay.analysis.run import Run
from agentx_replay.results.layout import Measurement
from agentx_replay.results.schema import REQUESTS

PLAN = "plan"
_Plans = Mapping[int, str | None]
"""The plan fingerprints of a level, by start."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that decides whether runs did the same work. ``same`` is None where it is not
    known of all.
    """

    name: str
    same: bool | None
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlansAgainst:
    """The concurrencies on the curves of the first run and another one: where both have the same
    plan at every start that both have, where they have not or it is not known, and which one of
    the two has alone.
    """

    same: frozenset[int]
    different: frozenset[int]
    first_alone: frozenset[int]
    other_alone: frozenset[int]

    @property
    def same_where_shared(self) -> bool:
        """Whether they share a level, and have the same plan at each that they share."""
        return bool(self.same) and not self.different


def plans_against(first: Run, other: Run) -> PlansAgainst:
    a, b = _plans(first), _plans(other)
    shared = a.keys() & b.keys()
    same = frozenset(level for level in shared if _same(a[level], b[level]))
    return PlansAgainst(
        same,
        frozenset(shared) - same,
        frozenset(a.keys() - b.keys()),
        frozenset(b.keys() - a.keys()),
    )


def _same(one: _Plans, other: _Plans) -> bool:
    both = one.keys() & other.keys()
    return bool(both) and all(one[start] == other[start] is not None for start in both)


def same_records(first: Run, other: Run) -> bool:
    """Whether two runs have the very same records on their curves: equal run ids, and responses
    that are equal to the last byte.
    """
    a, b = _directories(first), _directories(other)
    return bool(a) and a.keys() == b.keys() and all(_digest(a[of]) == _digest(b[of]) for of in a)


def _directories(run: Run) -> dict[tuple[Measurement, str], Path]:
    return {
        (point.measurement, str(point.stored.document.get("run_id"))): point.stored.directory
        for point in run.curve_points
        if point.stored is not None
    }


def _digest(level: Path) -> bytes:
    digest = hashlib.sha256()
    for file in REQUESTS.files(level):
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.digest()


def _plans(run: Run) -> Mapping[int, _Plans]:
    found: dict[int, dict[int, str | None]] = {}
    for point in run.curve_points:
        found.setdefault(point.concurrency, {})[point.facts.start] = point.plan_fingerprint
    return found


def same_work(runs: Sequence[Run], plans: Sequence[PlansAgainst]) -> list[Fact]:
    """Return whether the runs replayed the same corpus by the same rules and plans, and in
    messages of the same kind. ``plans`` are those of each run but the first against the first.
    """
    corpora = [_said(run.sweep, "corpus", "fingerprint") for run in runs]
    scenarios = [_scenario(run.sweep) for run in runs]
    same_plan: bool | None = all(each.same_where_shared for each in plans)
    if not all(each.same or each.different for each in plans):
        same_plan = None
    return [
        _fact("corpus", corpora),
        _fact("scenario", scenarios),
        Fact(PLAN, same_plan, tuple(map(_said_of_plans, plans))),
        *_asked(runs, "tool_messages", "tool messages", "sent"),
        *_asked(runs, "live_history", "answers", "fed back"),
    ]


def _said_of_plans(plans: PlansAgainst) -> str:
    if not plans.same and not plans.different:
        return "no common concurrency"
    parts = [
        ("same at", plans.same),
        ("different at", plans.different),
        ("in one alone:", plans.first_alone | plans.other_alone),
    ]
    return "; ".join(f"{what} {listed(levels)}" for what, levels in parts if levels)


def alone_said(plans: PlansAgainst) -> str:
    """Return at which levels two runs have the same plan, if one of them has others beside."""
    return _said_of_plans(plans) if plans.first_alone or plans.other_alone else ""


def listed(levels: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(levels)))


def _asked(runs: Sequence[Run], key: str, name: str, done: str) -> list[Fact]:
    """Return whether the runs were asked for what ``sweep.json`` has under ``key``; nothing where
    none was.
    """
    asked = [run.sweep.get(key) is True for run in runs]
    said = tuple(done if each else f"not {done}" for each in asked)
    return [Fact(name, all(asked), said)] if any(asked) else []


def _said(document: Mapping[str, object], part: str, key: str) -> str | None:
    inner = document.get(part)
    value = inner.get(key) if isinstance(inner, Mapping) else None
    return None if value is None else str(value)


def _scenario(document: Mapping[str, object]) -> str | None:
    """Return the scenario's name and the fingerprint of its rules."""
    fingerprint = _said(document, "scenario", "fingerprint")
    name = _said(document, "scenario", "name")
    return fingerprint and " ".join(filter(None, [name, fingerprint]))


def _fact(name: str, said: Sequence[str | None]) -> Fact:
    same = None if None in said else len(set(said)) == 1
    return Fact(name, same, tuple(each or "not recorded" for each in said))


def common_levels(runs: Sequence[Run]) -> list[int]:
    levels = [{point.concurrency for point in run.curve_points} for run in runs]
    return sorted(set.intersection(*levels))

"""What is known of measured systems beside their numbers: the five questions, what differs."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentx_replay.analysis.run import Run
from agentx_replay.results.system_facts import FACTS, System

Name = Literal["latency", "reuse", "unit", "repeatability", "origin"]
_OF_FACTS: tuple[Name, ...] = ("unit", "repeatability", "origin")
CACHED_TOKENS = "cached tokens"
RESPONSES = "responses"


@dataclass(frozen=True, slots=True)
class Question:
    """One of the five that a number needs answered to be evidence; ``missing`` names the facts
    without which it is not: keys, with "or" between those of which one is enough.
    """

    name: Name
    missing: tuple[str, ...]

    @property
    def answered(self) -> bool:
        return not self.missing


def five_questions(run: Run) -> tuple[Question, ...]:
    """Return how latency is defined, whether reused input counts and how much there was, per what,
    whether it can be repeated, and who measured when.
    """
    measured = [point.summary for point in run.points if point.summary is not None]
    hits = any(summary.cache_hit is not None for summary in measured)
    not_measured = () if measured else (RESPONSES,)
    system = run.system
    if run.gpus is not None:
        system = System({**system.facts, "gpus": run.gpus})
    return (
        Question("latency", not_measured),
        Question("reuse", not_measured or (() if hits else (CACHED_TOKENS,))),
        *(Question(name, _missing(system, name)) for name in _OF_FACTS),
    )


def _missing(system: System, question: Name) -> tuple[str, ...]:
    needs: dict[str, list[str]] = {}
    for key, fact in FACTS.items():
        if fact.answers.startswith(question):
            needs.setdefault(fact.answers, []).append(key)
    return tuple(" or ".join(keys) for keys in needs.values() if not any(map(system.get, keys)))


def answered(questions: Sequence[Question]) -> int:
    return sum(each.answered for each in questions)


def directional_only(questions: Sequence[Question]) -> bool:
    """Whether so few are answered, under half, that a number shows no more than a direction."""
    return 2 * answered(questions) < len(questions)


def configuration(system: System) -> dict[str, Any]:
    """Return the given facts of how a system is set up, by their keys."""
    return {
        key: system.get(key)
        for key, fact in FACTS.items()
        if fact.configures and system.get(key) is not None
    }


_NO_DIFFERENCE = ("name", "notes")
"""What is written about a system, and is nothing of it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact in which systems differ, with the value of each (None: not given), at certain
    ``levels`` or, where those are empty, at all.
    """

    key: str
    values: tuple[Any, ...]
    levels: tuple[int, ...] = ()


def differences(systems: Sequence[System], levels: Collection[int]) -> list[Difference]:
    """Return in which facts systems differ: as wholes, then at those of the ``levels`` that have
    facts of their own.
    """
    found = list(_unlike(systems, ()))
    whole = {(each.key, each.values) for each in found}
    at: dict[tuple[str, tuple[Any, ...]], list[int]] = {}
    own = {level for system in systems for of, _ in system.levels for level in of}
    for level in sorted(own & {*levels}):
        for each in _unlike([system.at(level) for system in systems], (level,)):
            at.setdefault((each.key, each.values), []).append(level)
    new = (Difference(*of, tuple(at[of])) for of in at if of not in whole)
    return found + list(new)


def _unlike(systems: Sequence[System], levels: tuple[int, ...]) -> Iterator[Difference]:
    others = sorted({key for system in systems for key in system.facts} - FACTS.keys())
    for key in (*FACTS, *others):
        values = tuple(system.get(key) for system in systems)
        if key not in _NO_DIFFERENCE and len(set(values)) > 1:
            yield Difference(key, values, levels)

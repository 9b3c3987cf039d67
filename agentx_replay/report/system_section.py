"""The facts of a system on the page and under ``--full``: what it is, and five questions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentx_replay.analysis.curve import Curve, TargetValue
from agentx_replay.analysis.run import Run
from agentx_replay.analysis.system import (
    CACHED_TOKENS,
    RESPONSES,
    Question,
    answered,
    differences,
    directional_only,
    five_questions,
)
from agentx_replay.report.disclosure import part_of, plainly, started
from agentx_replay.report.numerals import agents, capital, share, speed
from agentx_replay.report.run_sections import uncertainty
from agentx_replay.report.tables import Section
from agentx_replay.results.system_facts import System

NOT_GIVEN = "not given (--system)"
_ASKED = {
    "latency": "What is latency?",
    "reuse": "Is reused input counted, and how much was there?",
    "unit": "Per what?",
    "repeatability": "Can it be repeated?",
    "origin": "Who measured, and when?",
}
_LATENCY = (
    "P90 over responses of the mean gap between a response's tokens, first token excluded, "
    "linear interpolation between ranks. Interactivity is its inverse. Token ITL, over all "
    "tokens, is shown beside it and never mixed with it."
)
_TOKENS = (
    "Input and output tokens of responses that ended well, as the server counts them, reused input "
    "included. The tables give the same without reused input, and output alone."
)
_ASSUMED = ("price.", "power.")
_WHY = {CACHED_TOKENS: "the server tells no cached tokens", RESPONSES: "no level was measured"}


def system_sections(run: Run, curve: Curve) -> list[Section]:
    """Return the facts of the system and what costs rest on, if there are any, and the five
    questions.
    """
    system = run.system
    assumed = [key for key in system.facts if key.startswith(_ASSUMED)]
    rows = [(label(key), fact(key, x)) for key, x in system.facts.items() if key not in assumed]
    rows += [
        (f"at {', '.join(map(str, levels))} agents", in_short(System(own)))
        for levels, own in system.levels
    ]
    notes = [
        f"at {speed(value.target)} tok/s/user: {line}"
        for value in curve.values
        for line in several_configurations(run, value)
    ]
    costs = [(label(key), fact(key, system.get(key))) for key in assumed]
    return [
        Section("The system", facts=rows, notes=notes),
        Section("Assumptions of costs", facts=costs),
        _questions_section(run, curve),
    ]


def several_configurations(run: Run, value: TargetValue) -> list[str]:
    """Return that a value was read off levels of a system that was configured in several ways,
    naming each in full.
    """
    levels = list(value.between or ())
    own = [run.system.at(level) for level in levels]
    keys = [each.key for each in differences(own, ())]
    if not keys:
        return []
    ends = (f"{agents([of])} ({in_short(at, keys)})" for of, at in zip(levels, own, strict=True))
    return [f"read off several configurations: {', '.join(ends)}"]


def in_short(system: System, keys: Sequence[str] = ()) -> str:
    """Return facts in a line, those of ``keys`` or all: ``tp 8, draft tokens 3``."""
    shown = {key: system.get(key) for key in keys or system.facts}
    return ", ".join(f"{label(key)} {fact(key, value)}" for key, value in shown.items())


def label(key: str) -> str:
    """Return the name of a fact in words: ``price, usd per gpu hour``."""
    return key.replace(".", ", ").replace("_", " ")


def fact(key: str, value: Any) -> str:
    """Return a fact's value in words."""
    if value is None:
        return "not given"
    return str(value) if key == "launch" else plainly(value)


def _questions_section(run: Run, curve: Curve) -> Section:
    found = five_questions(run)
    return Section(
        "Five questions",
        lead=[questions_count(found)],
        facts=[(_ASKED[each.name], _answer(each, run, curve)) for each in found],
    )


def questions_count(questions: Sequence[Question]) -> str:
    said = f"{answered(questions)} of {len(questions)} answered"
    return f"{said}, under half: directional only" if directional_only(questions) else said


def questions_line(run: Run) -> str:
    """Return how many of the five a run answers, and what the others lack."""
    found = five_questions(run)
    lacking = [f"{_ASKED[each.name]} {_lacking(each)}" for each in found if not each.answered]
    return "; ".join([questions_count(found), *lacking])


def questions_json(run: Run) -> list[dict[str, Any]]:
    return [
        {"question": each.name, "answered": each.answered, "missing": each.missing}
        for each in five_questions(run)
    ]


def _lacking(question: Question) -> str:
    why = [_WHY.get(each, "") for each in question.missing]
    return why[0] or f"{NOT_GIVEN}: {', '.join(question.missing)}"


def _answer(question: Question, run: Run, curve: Curve) -> str:
    parts = list(_PARTS[question.name](run))
    if question.name == "latency":
        parts.append(uncertainty([curve]))
    if question.missing:
        parts.append(f"{capital(_lacking(question))}.")
    return " ".join(parts)


def _hits(run: Run) -> Iterator[str]:
    yield _TOKENS
    hits = [
        f"{point.name}: {share(point.summary.cache_hit)} / "
        f"{share(point.summary.cache_hit_theoretical)}"
        for point in run.points
        if point.summary is not None
    ]
    yield f"Cache hit, measured / with an unlimited cache, %: {'; '.join(hits) or 'none'}."


def _unit(run: Run) -> Iterator[str]:
    kind = run.system.get("hw")
    if run.gpus is None:
        yield "Per system: no GPU count was given (--gpus)."
    else:
        yield f"Per GPU, of {run.gpus}{f' {kind}' if kind else ''}."
    for what, number in (("price", "usd_per_gpu_hour"), ("power", "watts_per_gpu")):
        facts = {key: fact(key, each) for key, each in _table(run.system, what).items()}
        said = ", ".join(f"{label(key)} {each}" for key, each in facts.items())
        yield f"{what.capitalize()}: {said if number in facts else NOT_GIVEN}."


def _table(system: System, table: str) -> Mapping[str, Any]:
    """Return the facts of a table by their names in it."""
    return {
        key.removeprefix(f"{table}."): value
        for key, value in system.facts.items()
        if key.startswith(f"{table}.")
    }


_REPEATED = ("framework", "image", "engine_commit", "launch", "recipe", "precision", "model")


def _repeatability(run: Run) -> Iterator[str]:
    given = [key for key in _REPEATED if run.system.get(key) is not None]
    if given:
        yield f"{in_short(run.system, given)}."
    scenario = part_of(run.sweep, "scenario")
    corpus = part_of(run.sweep, "corpus").get("fingerprint", "unknown")
    yield (
        f"Scenario {scenario.get('name', 'unknown')} ({scenario.get('fingerprint', '?')}), seed "
        f"{scenario.get('seed', 'unknown')}, corpus {corpus}, salt "
        f"{run.sweep.get('salt', 'unknown')}."
    )


def _origin(run: Run) -> Iterator[str]:
    version = part_of(run.sweep, "versions").get("agentx-replay", "unknown version")
    who, day = run.system.get("measured_by"), run.system.get("snapshot")
    yield (
        f"{f'{who}, ' if who else ''}{started(run, '%Y-%m-%d %H:%M:%S UTC') or 'day unknown'}, "
        f"by agentx-replay {version}{f'; configuration of {day}' if day else ''}."
    )


_PARTS = {
    "latency": lambda _: [_LATENCY],
    "reuse": _hits,
    "unit": _unit,
    "repeatability": _repeatability,
    "origin": _origin,
}

"""What is said before the first request: corpus, what was left out, plans, where results go."""

from collections.abc import Sequence
from pathlib import Path

from agentx_replay.plan.plan import Plan
from agentx_replay.plan.selection import Selection
from agentx_replay.scenario import Scenario
from agentx_replay.traces.model import Corpus
from agentx_replay.traces.statistics import duplicate_families

_NAMED = 4
"""How many sessions of a family are named."""


def corpus_lines(corpus: Corpus, selection: Selection, scenario: Scenario) -> list[str]:
    """Return what is played under which rules; nothing that was dropped goes unsaid."""
    played = len(selection.sessions)
    requests = sum(len(session.requests()) for session in selection.sessions)
    changed = f", overridden: {', '.join(scenario.overridden)}" if scenario.overridden else ""
    return [
        f"corpus {corpus.name} ({corpus.fingerprint}): {played} of {len(corpus.sessions)} sessions,"
        f" {requests:,} requests",
        *(f"  skipped {name}: {reason}" for name, reason in corpus.skipped),
        *(
            f"  left out {out.sessions} sessions, {out.requests:,} requests: {out.reason}"
            for out in selection.left_out
        ),
        *family_lines(duplicate_families(selection.sources)),
        f"scenario {scenario.name} ({scenario.fingerprint}){changed}",
    ]


def family_lines(families: Sequence[Sequence[str]]) -> list[str]:
    """Return which sessions that are played repeat one another, by family."""
    return [
        f"  near-duplicates, all played (--keep-one-of-duplicates: the first alone): "
        f"{', '.join(family[:_NAMED])}"
        + (f" and {len(family) - _NAMED} more" if len(family) > _NAMED else "")
        for family in families
    ]


def wrapping(plan: Plan) -> str | None:
    """Return that sessions repeat across lanes, where they do."""
    played = len(plan.library.selection.sessions)
    if plan.concurrency <= played:
        return None
    return f"{played} sessions over {plan.concurrency} lanes"


def sweep_lines(
    corpus: Corpus, selection: Selection, plans: Sequence[Plan], out: Path
) -> list[str]:
    """Return what is said before a sweep, wrapped sessions included."""
    return [
        *corpus_lines(corpus, selection, plans[0].scenario),
        *(", ".join(filter(None, (_plan_line(plan), wrapping(plan)))) for plan in plans),
        f"results in {out}",
    ]


def _plan_line(plan: Plan) -> str:
    return f"  concurrency {plan.concurrency}: plan {plan.fingerprint}"

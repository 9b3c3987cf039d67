"""What is said before the first request: corpus, what was left out, plans, where results go."""

from collections.abc import Sequence
from pathlib import Path

from agentx_replay.plan.plan import Plan
from agentx_replay.plan.selection import Selection
from agentx_replay.report.replica_lines import uneven_share
from agentx_replay.results.layout import Measurement
from agentx_replay.scenario import Scenario
from agentx_replay.traces.model import Corpus
from agentx_replay.traces.statistics import duplicate_families
from agentx_replay.wording import counted

_NAMED = 4
"""How many sessions of a family are named."""


def corpus_lines(corpus: Corpus, selection: Selection, scenario: Scenario) -> list[str]:
    """Return what is played under which rules; nothing that was dropped goes unsaid."""
    played = len(selection.sessions)
    requests = sum(len(session.requests()) for session in selection.sessions)
    changed = f", overridden: {', '.join(scenario.overridden)}" if scenario.overridden else ""
    return [
        f"corpus {corpus.name} ({corpus.fingerprint}): {played} of "
        f"{counted(len(corpus.sessions), 'session')}, {counted(requests, 'request')}",
        *(f"  skipped {name}: {reason}" for name, reason in corpus.skipped),
        *(
            f"  left out {counted(out.sessions, 'session')}, {counted(out.requests, 'request')}: "
            f"{out.reason}"
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
    return f"{counted(played, 'session')} over {counted(plan.concurrency, 'lane')}"


def sweep_lines(
    corpus: Corpus,
    selection: Selection,
    scenario: Scenario,
    plans: Sequence[Plan],
    out: Path,
    servers: int = 1,
) -> list[str]:
    """Return what is said before a sweep of these ``plans`` on so many servers, wrapped sessions
    included.
    """
    return [
        *corpus_lines(corpus, selection, scenario),
        *(line for plan in plans for line in _plan_lines(plan, servers)),
        f"results in {out}",
    ]


def _plan_lines(plan: Plan, servers: int) -> list[str]:
    named = f"  concurrency {Measurement(plan.concurrency, plan.start)}: plan {plan.fingerprint}"
    share = uneven_share(plan.concurrency, servers)
    lines = [", ".join(filter(None, (named, wrapping(plan))))]
    return lines if share is None else [*lines, f"    {share}"]

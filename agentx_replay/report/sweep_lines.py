"""What is said before the first request: corpus, what was left out, plans, where results go."""

from collections.abc import Sequence
from pathlib import Path

from agentx_replay.plan.plan import Plan
from agentx_replay.plan.selection import Selection
from agentx_replay.scenario import Scenario
from agentx_replay.traces.model import Corpus


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
        f"scenario {scenario.name} ({scenario.fingerprint}){changed}",
    ]


def sweep_lines(
    corpus: Corpus, selection: Selection, plans: Sequence[Plan], out: Path
) -> list[str]:
    """Return what is said before a sweep, wrapped sessions included."""
    played = len(selection.sessions)
    return [
        *corpus_lines(corpus, selection, plans[0].scenario),
        *(
            f"  concurrency {plan.concurrency}: plan {plan.fingerprint}"
            + (
                f", {played} sessions over {plan.concurrency} lanes"
                if plan.concurrency > played
                else ""
            )
            for plan in plans
        ),
        f"results in {out}",
    ]

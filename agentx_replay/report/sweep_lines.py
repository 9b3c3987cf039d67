"""What is said before the first request: corpus, what was left out, plans, where results go."""

from collections.abc import Sequence
from pathlib import Path

from agentx_replay.plan.plan import Plan
from agentx_replay.plan.selection import Selection
from agentx_replay.traces.model import Corpus


def sweep_lines(
    corpus: Corpus, selection: Selection, plans: Sequence[Plan], out: Path
) -> list[str]:
    """Return the lines; nothing that was dropped, wrapped or repeated goes unsaid."""
    scenario = plans[0].scenario
    played = len(selection.sessions)
    requests = sum(len(session.requests()) for session in selection.sessions)
    lines = [
        f"corpus {corpus.name} ({corpus.fingerprint}): {played} of {len(corpus.sessions)} sessions,"
        f" {requests:,} requests"
    ]
    lines += [f"  skipped {name}: {reason}" for name, reason in corpus.skipped]
    lines += [
        f"  left out {out.sessions} sessions, {out.requests:,} requests: {out.reason}"
        for out in selection.left_out
    ]
    changed = f", overridden: {', '.join(scenario.overridden)}" if scenario.overridden else ""
    lines.append(f"scenario {scenario.name} ({scenario.fingerprint}){changed}")
    lines += [
        f"  concurrency {plan.concurrency}: plan {plan.fingerprint}"
        + (
            f", {played} sessions over {plan.concurrency} lanes"
            if plan.concurrency > played
            else ""
        )
        for plan in plans
    ]
    return [*lines, f"results in {out}"]

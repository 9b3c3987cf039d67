"""The fidelity report of a point in a line or two, for the notes under the table of points.

What each figure means is in docs/protocol.md; all of them are on the page and in ``point.json``.
"""

from agentx_replay.analysis.fidelity import Fidelity, LengthErrors
from agentx_replay.analysis.findings import fidelity as broken
from agentx_replay.wording import counted


def kept_line(fidelity: Fidelity) -> str:
    """Return what a replay kept of its recording, and how nearly."""
    of = fidelity.conformity
    parts = _lengths(fidelity)
    if fidelity.reuse_sent is not None and fidelity.reuse_recorded is not None:
        sent, recorded = f"{fidelity.reuse_sent:.1%}", f"{fidelity.reuse_recorded:.1%}"
        # The recording also had prompts that a play did not send, or not yet.
        why = " (all kept that its play had sent)" if sent != recorded and not of.prefixes else ""
        parts.append(f"reuse {sent} of {recorded}{why}")
    if of.prefixes is None:
        parts += [answers_line(fidelity), "prefixes not compared (--live-history)"]
    elif of.resets_sent != of.resets_recorded:
        parts.append(f"resets {of.resets_sent} of {of.resets_recorded}")
    if of.gaps is not None:
        parts.append(f"gaps late {of.gaps.p99_ms:.1f} ms P99")
    if not any(broken(fidelity)):
        parts.append("order, joins, isolation kept")
    return ", ".join(parts)


def answers_line(fidelity: Fidelity) -> str:
    """Return how many answers a replay with live history said again, of those it was to say."""
    return f"answers fed back: {fidelity.answers_fed_back} of {fidelity.answers_due}"


def counted_line(fidelity: Fidelity) -> str | None:
    """Return what was clamped, dropped, repeated or skipped; None where nothing was."""
    parts = [counted(number, *of) for number, *of in _counted(fidelity) if number]
    system_s, tree_s = fidelity.system_skipped_s or 0.0, fidelity.tree_skipped_s or 0.0
    if system_s or tree_s:
        parts.append(
            f"idle skipped: {system_s:,.1f} s by all lanes together, {tree_s:,.1f} s by single "
            "sessions"
        )
    return "; ".join(parts) or None


def _lengths(fidelity: Fidelity) -> list[str]:
    prompts, outputs = fidelity.prompt_lengths, fidelity.output_lengths
    if prompts is not None and outputs is not None and _exact(prompts) and _exact(outputs):
        return ["lengths exact"]
    return [
        f"{name} lengths {_errors(errors)}"
        for name, errors in (("prompt", prompts), ("output", outputs))
        if errors is not None
    ]


def _exact(errors: LengthErrors) -> bool:
    return errors.share_exact == 1.0


def _errors(errors: LengthErrors) -> str:
    if _exact(errors):
        return "exact"
    return (
        f"{errors.share_exact:.1%} exact, off by {errors.least:+d} to {errors.greatest:+d} "
        f"({errors.aggregate:+.2%} in all)"
    )


def _counted(fidelity: Fidelity) -> tuple[tuple[int, str, str], ...]:
    of = fidelity.conformity
    return (
        (fidelity.plays - fidelity.sessions, "play repeats a session", "plays repeat a session"),
        (
            fidelity.raised_outputs,
            "output of no token asked as 1",
            "outputs of no token asked as 1",
        ),
        (
            fidelity.lengthened_prompts,
            "prompt lengthened to what the chat template costs",
            "prompts lengthened to what the chat template costs",
        ),
        (of.repeated_prompts, "prompt sent again whole", "prompts sent again whole"),
        (
            of.dropped_requests,
            "request dropped by the scenario's reading",
            "requests dropped by the scenario's reading",
        ),
        (
            of.abandoned_requests,
            "request not sent after an overflow",
            "requests not sent after an overflow",
        ),
        (of.negative_gaps, "negative gap taken as 0", "negative gaps taken as 0"),
        (
            of.missing_durations,
            "duration missing and taken as 0",
            "durations missing and taken as 0",
        ),
        (of.short_block_lists, "block list too short", "block lists too short"),
        (of.empty_subagents, "subagent without a request", "subagents without a request"),
        (
            of.unawaited_streams,
            "agent that no request waits for",
            "agents that no request waits for",
        ),
    )

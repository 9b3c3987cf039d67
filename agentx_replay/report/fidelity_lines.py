"""The fidelity report of a point in a line or two, for the notes under the table of points."""

from agentx_replay.analysis.fidelity import Fidelity, LengthErrors


def fidelity_lines(fidelity: Fidelity) -> list[str]:
    """Return what a replay kept of its recording, what it did not, and what was clamped, dropped
    or repeated; each line begins with its topic.
    """
    lines = [f"kept: {'; '.join(_kept(fidelity))}"]
    broken = [f"{number} {what}" for what, number in fidelity.violations]
    if broken:
        lines.append(f"NOT KEPT: {'; '.join(broken)}")
    counted = [f"{number} {what}" for what, number in _counted(fidelity) if number]
    if counted:
        lines.append(f"counted: {'; '.join(counted)}")
    if fidelity.system_skipped_s or fidelity.tree_skipped_s:
        lines.append(
            f"idle time skipped: {fidelity.system_skipped_s:,.1f} s by all lanes together, "
            f"{fidelity.tree_skipped_s:,.1f} s by single sessions"
        )
    return lines


def _kept(fidelity: Fidelity) -> list[str]:
    of = fidelity.conformity
    parts = []
    if fidelity.prompt_lengths is not None:
        parts.append(f"prompt lengths {_errors(fidelity.prompt_lengths)}")
    if fidelity.output_lengths is not None:
        parts.append(f"output lengths {_errors(fidelity.output_lengths)}")
    if fidelity.reuse_sent is not None and fidelity.reuse_recorded is not None:
        parts.append(
            f"reuse {fidelity.reuse_sent:.2%} sent, {fidelity.reuse_recorded:.2%} recorded"
        )
    parts.append(f"resets {of.resets_sent} of {of.resets_recorded}")
    if of.gaps is not None:
        parts.append(f"gaps late by {of.gaps.p50_ms:.1f} ms (P50), {of.gaps.p99_ms:.1f} ms (P99)")
    if not fidelity.violations:
        parts.append(
            f"order, joins and prefixes of {of.requests:,} requests; "
            f"{fidelity.trees_least} trees alive throughout; no block shared between plays"
        )
    return parts


def _errors(errors: LengthErrors) -> str:
    if errors.share_exact == 1.0:
        return "exact"
    return (
        f"{errors.share_exact:.1%} exact, off by {errors.least:+d} to {errors.greatest:+d} "
        f"({errors.aggregate:+.2%} in all)"
    )


def _counted(fidelity: Fidelity) -> tuple[tuple[str, int], ...]:
    of = fidelity.conformity
    return (
        ("plays repeat a session", fidelity.plays - fidelity.sessions),
        ("outputs of no token asked as 1", fidelity.raised_outputs),
        ("prompts lengthened to what the chat template costs", fidelity.lengthened_prompts),
        ("prompts sent again whole", of.repeated_prompts),
        ("requests dropped by the scenario's reading", of.dropped_requests),
        ("requests not sent after an overflow", of.abandoned_requests),
        ("negative gaps taken as 0", of.negative_gaps),
        ("durations missing and taken as 0", of.missing_durations),
        ("block lists too short", of.short_block_lists),
        ("subagents without a request", of.empty_subagents),
        ("agents that no request waits for", of.unawaited_streams),
    )

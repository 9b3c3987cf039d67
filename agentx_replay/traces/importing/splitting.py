"""Cutting a session in two where nothing was in flight for long, as over a night."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from agentx_replay.traces.importing.record import ImportedSession, Notes


def split_at_pauses(
    session: ImportedSession, most_pause_ms: int | None
) -> Iterator[ImportedSession]:
    """Yield the parts of a session between pauses longer than ``most_pause_ms``; None never cuts.

    A part goes on from no request of an earlier one: its first prompt is new.
    """
    cuts_ms = [] if most_pause_ms is None else _cuts_ms(session, most_pause_ms)
    bounds = [float("-inf"), *cuts_ms, float("inf")]
    for number, (low, high) in enumerate(itertools.pairwise(bounds)):
        requests = tuple(each for each in session.requests if low <= each.start_ms < high)
        if not requests:
            continue
        yield replace(
            session,
            name=f"{session.name} {number}" if number else session.name,
            requests=requests,
            notes=Notes() if number else session.notes,
            subagents=tuple(
                agent for agent in session.subagents if low <= agent.requests[0].start_ms < high
            ),
        )


def _cuts_ms(session: ImportedSession, most_pause_ms: int) -> list[int]:
    """Return the starts before which nothing had been in flight for longer than the pause."""
    cuts_ms: list[int] = []
    busy_until_ms: int | None = None
    spans = [(each.start_ms, each.end_ms or each.start_ms) for each in session.requests]
    spans += [
        (agent.requests[0].start_ms, max(each.end_ms or each.start_ms for each in agent.requests))
        for agent in session.subagents
    ]
    for start_ms, end_ms in sorted(spans):
        if busy_until_ms is not None and start_ms - busy_until_ms > most_pause_ms:
            cuts_ms.append(start_ms)
        busy_until_ms = max(end_ms, busy_until_ms or end_ms)
    return cuts_ms

"""TraceLab's rounds: one row a request, of Claude Code and Codex alike, many sessions a file.

Which child a session spawned is not in the rows. Rows of one session are ordered by round, then by
place in the file: 514 pairs of (session, round) occur twice in the published set.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agentx_replay.traces.importing.lines import Place, milliseconds, records, rows, text, tokens
from agentx_replay.traces.importing.record import ImportedSession, Ledger, grouped
from agentx_replay.traces.importing.sharing import Call, by_cache, by_turns, one_stream

_INPUT_EVENTS = ("user_message", "tool_result")
_Row = tuple[int, Call]

ATTRIBUTION = (
    "TraceLab, SyFI Lab, University of Washington (CC BY 4.0), https://tracelab.cs.washington.edu"
)


def read_tracelab(files: Sequence[Path], ledger: Ledger) -> Iterator[ImportedSession]:
    """Yield the sessions of rows of rounds, in order of their first instant."""
    by_session = grouped(rows(files, ledger, _row))
    ledger.remarks.append(f"credit the data: {ATTRIBUTION}")
    sessions = [
        (provider, name, _in_rounds(found)) for (provider, name), found in by_session.items()
    ]
    for provider, name, calls in sorted(sessions, key=lambda session: session[2][0].start_ms):
        yield one_stream(name, calls, by_turns if provider == "codex" else by_cache)


def _row(place: Place, row: dict[str, Any]) -> tuple[tuple[str, str], _Row] | None:
    """Return the session and the call of a row; None without a prompt.

    A round without events starts and ends at 0 here: ``_in_rounds`` knows the one before.
    """
    events = records(row, "timing_events")
    inputs_ms = _instants_ms(each for each in events if each.get("event_type") in _INPUT_EVENTS)
    others_ms = _instants_ms(each for each in events if each.get("event_type") not in _INPUT_EVENTS)
    whole = tokens(row, "input_tokens_total", place)
    if not whole:
        return None
    call = Call(
        start_ms=max(inputs_ms, default=0),
        end_ms=max(others_ms, default=0),
        input_tokens=whole,
        output_tokens=tokens(row, "output_tokens", place),
        model=text(row, "model"),
        cached_tokens=tokens(row, "prefix_tokens", place),
        written_tokens=tokens(row, "claude_cache_creation_input_tokens", place),
        new_turn=row.get("first_input_event_type") == "user_message",
    )
    key = text(row, "provider"), text(row, "session_id")
    return key, (tokens(row, "round_index", place), call)


def _instants_ms(events: Iterable[dict[str, Any]]) -> list[int]:
    found = (milliseconds(each.get("timestamp")) for each in events)
    return [ms for ms in found if ms is not None]


def _in_rounds(rows_of_session: Sequence[_Row]) -> list[Call]:
    """Return a session's calls in order of rounds: without an input one starts at the end ahead."""
    calls: list[Call] = []
    for _, call in sorted(rows_of_session, key=lambda row: row[0]):
        before = calls[-1] if calls else None
        ended_ms = (before.end_ms or before.start_ms) if before else 0
        start_ms = call.start_ms or ended_ms or call.end_ms or 0
        calls.append(replace(call, start_ms=start_ms, end_ms=call.end_ms or start_ms))
    return calls

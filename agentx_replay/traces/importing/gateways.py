"""Logs of servers' front ends that count tokens and tell sessions apart: LiteLLM's spend logs, and
the public trace of GitHub Copilot's coding agent.

Written by their published schemas; no real file was read. The texts that they may hold are not.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agentx_replay.traces.importing.lines import (
    Place,
    bad_field,
    milliseconds,
    objects,
    record,
    records,
    rows,
    span_ms,
    text,
    tokens,
)
from agentx_replay.traces.importing.record import (
    ImportedSession,
    Ledger,
    Notes,
    grouped,
)
from agentx_replay.traces.importing.sharing import GOES_ON, Call, by_turns, conversation

_COMPLETIONS = (
    "completion", "acompletion", "text_completion", "atext_completion", "anthropic_messages",
    "responses", "aresponses", "generate_content", "agenerate_content",
)  # fmt: skip
_END_USER = "session told by end_user alone: its calls may be of several tasks"


def read_litellm(files: Sequence[Path], ledger: Ledger) -> Iterator[ImportedSession]:
    """Yield the sessions of spend logs: by session id, else by trace, else by end user."""
    found = rows(files, ledger, lambda place, row: _litellm_row(place, row, ledger))
    by_session = grouped(sorted(found, key=lambda of: of[1].start_ms))
    for (name, by_user), calls in by_session.items():
        notes = Notes()
        if by_user:
            notes.assumed[_END_USER] += 1
        requests = conversation(calls, by_turns, notes).requests
        yield ImportedSession(name=name, requests=requests, notes=notes)


def _litellm_row(
    place: Place, row: dict[str, Any], ledger: Ledger
) -> tuple[tuple[str, bool], Call] | None:
    if row.get("status") not in (None, "success"):
        ledger.leave_out("failed call")
        return None
    if row.get("call_type") not in _COMPLETIONS:
        ledger.leave_out("call that is no completion")
        return None
    usage = record(record(row, "metadata"), "usage_object")
    cached = tokens(record(usage, "prompt_tokens_details"), "cached_tokens", place)
    prompt = tokens(row, "prompt_tokens", place)
    if not prompt:
        return None
    session = text(row, "litellm_session_id") or text(row, "trace_id")
    call = Call(
        start_ms=_instant(place, row, "startTime"),
        end_ms=_instant(place, row, "endTime"),
        # Some versions leave Anthropic's cached tokens out of the prompt's.
        input_tokens=prompt + cached if cached > prompt else prompt,
        output_tokens=tokens(row, "completion_tokens", place),
        model=text(row, "model"),
        cached_tokens=cached,
    )
    return (session or text(row, "end_user"), not session), call


def _instant(place: Place, row: dict[str, Any], key: str) -> int:
    value = row.get(key)
    if isinstance(value, int | float):
        return span_ms(place, key, value, 1000)
    if (ms := milliseconds(value)) is None:
        raise bad_field(place, key, value, "an instant")
    return ms


def read_copilot_azure(files: Sequence[Path], ledger: Ledger) -> Iterator[ImportedSession]:
    """Yield the sessions of shards: a line each, with turns of calls."""
    for file in files:
        sessions: list[tuple[str, list[Call]]] = []
        for place, line in objects(file, ledger):
            with ledger.refusing():
                calls = sorted(_copilot_calls(place, line, ledger), key=lambda call: call.start_ms)
                if calls:
                    sessions.append((text(line, "session_id") or f"{place}", calls))
        are_ends = _timestamps_are_ends([calls for _, calls in sessions])
        for name, calls in sessions:
            notes = Notes()
            timed = [_shifted(call) for call in calls] if are_ends else calls
            requests = conversation(timed, _by_parts, notes).requests
            yield ImportedSession(name=name, requests=requests, notes=notes)


def _copilot_calls(place: Place, line: dict[str, Any], ledger: Ledger) -> Iterator[Call]:
    """Yield the calls of a session as if timestamps were starts."""
    for turn in records(line, "turns"):
        for call in records(turn, "llm_calls"):
            if call.get("result") != "Success":
                ledger.leave_out("failed call")
                continue
            counts = record(call, "tokens")
            start_ms = _instant(place, call, "timestamp")
            duration_ms = span_ms(place, "duration_ms", call.get("duration_ms") or 0)
            prompt = tokens(counts, "prompt", place)
            if prompt:
                yield Call(
                    start_ms=start_ms,
                    end_ms=start_ms + duration_ms,
                    input_tokens=prompt,
                    output_tokens=tokens(counts, "completion", place),
                    model=text(call, "model"),
                    cached_tokens=tokens(counts, "cached", place),
                    parts=tuple(
                        (text(part, "type"), text(part, "role"), tokens(part, "token_len", place))
                        for part in records(call, "message_metadata")
                    ),
                )


def _timestamps_are_ends(sessions: Sequence[Sequence[Call]]) -> bool:
    """Whether calls overlap less if their timestamps are ends: the schema does not say."""
    as_starts = as_ends = 0
    for calls in sessions:
        for before, after in pairwise(calls):
            as_starts += after.start_ms < (before.end_ms or 0)
            as_ends += after.start_ms - _duration_ms(after) < before.start_ms
    return as_ends < as_starts


def _duration_ms(call: Call) -> int:
    return (call.end_ms or call.start_ms) - call.start_ms


def _shifted(call: Call) -> Call:
    return replace(call, start_ms=call.start_ms - _duration_ms(call), end_ms=call.start_ms)


def _by_parts(before: Call, call: Call) -> tuple[int, str]:
    """Return the tokens of the parts that both prompts begin with, in the server's own count."""
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(before.parts, call.parts, strict=False))
    same = sum(part[2] for part, _ in equal)
    whole = sum(part[2] for part in call.parts)
    counted = same * call.input_tokens // whole if whole else 0
    return max(counted, call.cached_tokens), GOES_ON

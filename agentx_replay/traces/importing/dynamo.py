"""Dynamo's request trace: rows of ended requests with the block hashes that the server itself used.

Written by its published schema; no real file was read. Fields marked so in its description may be
absent: then a request has no duration, or no blocks.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentx_replay.traces.importing.lines import (
    Place,
    bad_field,
    record,
    rows,
    span_ms,
    text,
    tokens,
)
from agentx_replay.traces.importing.record import (
    BLOCK_TOKENS,
    ImportedSession,
    ImportedSubagent,
    Ledger,
    Notes,
    Request,
    grouped,
    root_of,
)
from agentx_replay.traces.importing.sharing import Call, by_turns, conversation

_MOST_BLOCK_TOKENS = 65_536
_NO_DURATION = "request without a duration: it ends as it starts"
_NO_BLOCKS = "request without block hashes: taken to go on from the one before"


@dataclass(frozen=True, slots=True)
class _Row:
    call: Call
    stream: str
    parent: str
    block_tokens: int
    blocks: Sequence[int]


def read_dynamo(files: Sequence[Path], ledger: Ledger) -> Iterator[ImportedSession]:
    """Yield each root session or trajectory, those that name it as a parent as its subagents."""
    ordered = sorted(rows(files, ledger, _row), key=lambda row: row.call.start_ms)
    streams = grouped((row.stream, row) for row in ordered)
    parents = {name: found[0].parent for name, found in streams.items()}
    families = grouped((root_of(name, parents), name) for name in streams)
    for root, family in families.items():
        sizes = {row.block_tokens for name in family for row in streams[name]} - {0}
        if len(sizes) > 1:
            ledger.leave_out("session with blocks of several sizes")
        else:
            yield _session(root, family, streams, max(sizes, default=BLOCK_TOKENS))


def _session(
    root: str, family: Sequence[str], streams: Mapping[str, Sequence[_Row]], block_tokens: int
) -> ImportedSession:
    notes = Notes()
    has_blocks = all(row.blocks for name in family for row in streams[name])
    main = _requests(streams[root], notes, has_blocks=has_blocks)
    children = [
        _requests(streams[name], notes, has_blocks=has_blocks) for name in family if name != root
    ]
    return ImportedSession(
        name=root,
        requests=main,
        subagents=tuple(subagent(child, main) for child in children),
        block_tokens=block_tokens if has_blocks else BLOCK_TOKENS,
        notes=notes,
    )


def subagent(requests: tuple[Request, ...], main: Sequence[Request]) -> ImportedSubagent:
    """Return an agent that was spawned at its first start: joined by the next main request, unless
    the main agent went on in the meantime.
    """
    spawn_ms = requests[0].start_ms
    ended_ms = max(each.end_ms or each.start_ms for each in requests)
    later_ms = [each.start_ms for each in main if each.start_ms > spawn_ms]
    is_awaited = bool(later_ms) and min(later_ms) >= ended_ms
    return ImportedSubagent(spawn_ms, min(later_ms) if is_awaited else None, "", requests)


def _requests(found: Sequence[_Row], notes: Notes, *, has_blocks: bool) -> tuple[Request, ...]:
    calls = [row.call for row in found]
    if without := sum(call.end_ms is None for call in calls):
        notes.assumed[_NO_DURATION] += without
    if not has_blocks:
        notes.assumed[_NO_BLOCKS] += len(calls)
        return conversation(calls, by_turns, notes).requests
    return tuple(row.call.request(block_ids=row.blocks) for row in found)


def _row(place: Place, line: dict[str, Any]) -> _Row | None:
    """Return a row that ends a request; None for every other."""
    event = record(line, "event")
    if event.get("event_type") != "request_end":
        return None
    context, request = record(event, "agent_context"), record(event, "request")
    replay = record(request, "replay")
    block_tokens = tokens(replay, "trace_block_size", place)
    if block_tokens > _MOST_BLOCK_TOKENS:
        raise bad_field(place, "trace_block_size", block_tokens, f"at most {_MOST_BLOCK_TOKENS:,}")
    whole = tokens(replay, "input_length", place) or tokens(request, "input_tokens", place)
    if not whole:
        return None
    stream = text(context, "trajectory_id") or text(context, "session_id")
    start_ms, end_ms = _times(place, event, request)
    call = Call(
        start_ms=start_ms,
        end_ms=end_ms,
        input_tokens=whole,
        output_tokens=tokens(request, "output_tokens", place),
        model=text(request, "model"),
        cached_tokens=tokens(request, "cached_tokens", place),
    )
    parent = text(context, "parent_trajectory_id") or text(context, "parent_session_id")
    return _Row(
        call,
        stream or f"{place[0]}:{place[1]}",
        parent,
        block_tokens,
        _blocks(place, replay, whole),
    )


def _times(place: Place, event: dict[str, Any], request: dict[str, Any]) -> tuple[int, int | None]:
    """Return start and end; a request that only says when it ended starts then, without an end."""
    ended_ms = span_ms(place, "event_time_unix_ms", event.get("event_time_unix_ms"))
    received, took = request.get("request_received_ms"), request.get("total_time_ms")
    if received is not None:
        return span_ms(place, "request_received_ms", received), ended_ms
    if took is not None:
        return ended_ms - span_ms(place, "total_time_ms", took), ended_ms
    return ended_ms, None


def _blocks(place: Place, replay: dict[str, Any], whole: int) -> Sequence[int]:
    """Return the hashes of a prompt's whole blocks, none if they were not recorded."""
    ids, block_tokens = replay.get("input_sequence_hashes"), replay.get("trace_block_size")
    if ids is None or not block_tokens:
        return ()
    try:
        return array("Q", ids[: whole // block_tokens])
    except (TypeError, OverflowError):
        raise bad_field(
            place, "input_sequence_hashes", ids, "a list of numbers of 64 bits"
        ) from None

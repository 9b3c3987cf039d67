"""The Weka trace format, one JSON object a session, in the dialects that real files use.

``read_session`` turns the bytes of one object into a ``Session``. Files and compression are
``files.py``'s; what times mean is ``dialect.py``'s; which blocks are equal is
``block_index.py``'s. The format is described in docs/traces.md.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from agentx_replay.errors import shown
from agentx_replay.traces.block_index import BlockIndex
from agentx_replay.traces.dialect import MarkerTimes, completions, inner_times_are_relative
from agentx_replay.traces.fields import Fields, bad_trace
from agentx_replay.traces.id_text import NO_IDS, IdText, parse
from agentx_replay.traces.model import (
    BlockTrie,
    Entry,
    ReadingNotes,
    RecordedRequest,
    Session,
    Subagent,
)

MOST_BLOCK_TOKENS = 65_536


def _keys(names: str) -> frozenset[str]:
    return frozenset(names.split())


_SESSION_KEYS = _keys(
    "id models block_size hash_id_scope tool_tokens system_tokens requests totals"
)
_REQUEST_KEYS = _keys(
    "t type model in out hash_ids input_types output_types stop api_time think_time ttft"
)
_SUBAGENT_KEYS = _keys(
    "t type agent_id subagent_type duration_ms total_tokens tool_use_count status requests"
    " models tool_tokens system_tokens"
)


@dataclass(frozen=True, slots=True)
class _Written:
    """A request as its file writes it: ``told`` are fields of a ``RecordedRequest``, by name.

    ``ids`` may still turn out to be no list of numbers.
    """

    place: str
    told: dict[str, Any]
    ids: IdText


@dataclass(frozen=True, slots=True)
class _Item:
    """An entry of the file: the fields of a ``Subagent``, by name, and its requests, or one
    request of the main agent.
    """

    marker: dict[str, Any] | None
    requests: tuple[_Written, ...]

    @property
    def spawn_s(self) -> float:
        return 0.0 if self.marker is None else float(self.marker["spawn_s"])


def read_session(raw: bytes, source: str) -> Session:
    """Return the session in ``raw``, one JSON object; ``source`` is what errors call it.

    Blocks enter the session's trie in recorded order: by start, then by place in the file.
    Raises ``UsageError`` naming ``source`` and the field for anything that is not a session.
    """
    top, id_texts = _parse(raw, source)
    name = _session_id(top)
    block_size = top.whole("block_size", least=1, most=MOST_BLOCK_TOKENS)
    unknown = Counter(top.unknown(_SESSION_KEYS))
    items = [_item(fields, id_texts, unknown) for fields in top.objects("requests")]
    if not any(item.requests for item in items):
        raise bad_trace(source, "requests holds no request")
    relative = _decide_spawns(items)
    requests, blocks = _recorded(items, block_size, source, relative=relative)
    entries = tuple(_entries(items, iter(requests)))
    return Session(
        id=name,
        block_size=block_size,
        tool_tokens=top.whole("tool_tokens", default=0),
        system_tokens=top.whole("system_tokens", default=0),
        entries=entries,
        blocks=blocks,
        notes=_notes(entries, block_size, tuple(sorted(unknown.items())), relative=relative),
    )


# What the file writes


def _parse(raw: bytes, source: str) -> tuple[Fields, list[IdText]]:
    try:
        values, id_texts = parse(raw)
    except ValueError as error:
        raise bad_trace(source, f"this is not a trace: {error}") from None
    if not isinstance(values, dict):
        raise bad_trace(source, f"a trace is a JSON object, this is {shown(values)}")
    return Fields(source, "", values), id_texts


def _session_id(top: Fields) -> str:
    if top.text("hash_id_scope") not in ("", "local", "global"):
        raise top.bad("hash_id_scope", '"local" or "global"')
    if not (name := top.text("id")):
        raise top.bad("id", "a name")
    return name


def _item(fields: Fields, id_texts: Sequence[IdText], unknown: Counter[str]) -> _Item:
    if not _is_subagent(fields):
        return _Item(None, (_written(fields, id_texts, unknown),))
    unknown.update(f"subagent.{key}" for key in fields.unknown(_SUBAGENT_KEYS))
    milliseconds = fields.optional_number("duration_ms")
    marker = {
        "agent_id": fields.text("agent_id"),
        "kind": fields.text("subagent_type"),
        "status": fields.text("status"),
        "marker_t_s": fields.seconds("t"),
        "duration_s": None if milliseconds is None else milliseconds / 1000,
        "tool_tokens": fields.whole("tool_tokens", default=0),
        "system_tokens": fields.whole("system_tokens", default=0),
    }
    inner = fields.objects("requests")
    return _Item(marker, tuple(_written(each, id_texts, unknown) for each in inner))


def _is_subagent(fields: Fields) -> bool:
    return fields.values.get("type") == "subagent"


def _written(fields: Fields, id_texts: Sequence[IdText], unknown: Counter[str]) -> _Written:
    if _is_subagent(fields):
        raise bad_trace(fields.source, f"{fields.place} is a subagent inside a subagent")
    unknown.update(f"request.{key}" for key in fields.unknown(_REQUEST_KEYS))
    told = {
        "t_s": fields.seconds("t"),
        "duration_s": fields.optional_number("api_time"),
        "think_time_s": fields.optional_number("think_time"),
        "model": fields.text("model"),
        "input_tokens": fields.whole("in", least=1),
        "output_tokens": fields.whole("out"),
    }
    return _Written(fields.place, told, _ids(fields, id_texts))


def _ids(fields: Fields, id_texts: Sequence[IdText]) -> IdText:
    """Return a request's list of ids, empty if the file has null."""
    match fields.values.get("hash_ids", ()):
        case None:
            return NO_IDS
        case [int(number)] if 0 <= number < len(id_texts):
            return id_texts[number]
    raise fields.bad("hash_ids", "a list of whole numbers")


# What it means


def _decide_spawns(items: Sequence[_Item]) -> bool:
    """Give each marker its spawn; return whether inner times count from the spawn."""
    agents = [(item.marker, item.requests) for item in items if item.marker is not None]
    times = [
        MarkerTimes(
            marker["marker_t_s"],
            marker["duration_s"],
            marker["status"] == "async_launched",
            requests[0].told["t_s"] if requests else None,
        )
        for marker, requests in agents
    ]
    relative = inner_times_are_relative(times)
    main_starts_s = [item.requests[0].told["t_s"] for item in items if item.marker is None]
    verdicts = completions(times, main_starts_s, relative=relative)
    for (marker, _), is_completion in zip(agents, verdicts, strict=True):
        ran_s = (marker["duration_s"] or 0.0) if is_completion else 0.0
        marker |= {"marker_is_completion": is_completion, "spawn_s": marker["marker_t_s"] - ran_s}
    return relative


def _recorded(
    items: Sequence[_Item], block_size: int, source: str, *, relative: bool
) -> tuple[list[RecordedRequest], BlockTrie]:
    """Return the requests in file order, and the trie they make in recorded order."""
    written = [
        (request.told["t_s"] + (item.spawn_s if relative else 0.0), index, request)
        for index, (item, request) in enumerate((i, r) for i in items for r in i.requests)
    ]
    blocks = BlockIndex()
    requests = [
        _placed(
            blocks, request, block_size, source, index=index, recorded_order=rank, start_s=start
        )
        for rank, (start, index, request) in enumerate(sorted(written, key=lambda each: each[:2]))
    ]
    return sorted(requests, key=lambda request: request.index), blocks.trie()


def _placed(
    blocks: BlockIndex, written: _Written, block_size: int, source: str, **order: Any
) -> RecordedRequest:
    field, tokens = f"{written.place}.hash_ids", written.told["input_tokens"]
    try:
        placement = blocks.enter(written.ids)
    except ValueError as error:
        raise bad_trace(source, f"{field} is not a list of whole numbers: {error}") from None
    count, most = placement.block_count, -(-tokens // block_size)
    if count > most:
        raise bad_trace(source, f"{field} has {count} ids, {tokens} tokens have at most {most}")
    return RecordedRequest(**order, **written.told, **placement._asdict())


def _entries(items: Sequence[_Item], requests: Iterator[RecordedRequest]) -> Iterator[Entry]:
    for item in items:
        taken = tuple(islice(requests, len(item.requests)))
        yield taken[0] if item.marker is None else Subagent(**item.marker, requests=taken)


def _notes(
    entries: Sequence[Entry],
    block_size: int,
    unknown_keys: tuple[tuple[str, int], ...],
    *,
    relative: bool,
) -> ReadingNotes:
    lists = request_lists(entries)
    requests = [request for requests in lists for request in requests]
    return ReadingNotes(
        unknown_keys=unknown_keys,
        missing_durations=sum(r.duration_s is None for r in requests),
        short_block_lists=sum(r.block_count < r.input_tokens // block_size for r in requests),
        negative_gaps=sum(b.start_s < a.end_s for each in lists for a, b in pairwise(each)),
        zero_outputs=sum(r.output_tokens == 0 for r in requests),
        relative_inner_times=relative,
    )


def request_lists(entries: Sequence[Entry]) -> list[tuple[RecordedRequest, ...]]:
    """Return the main requests, then each subagent's, each in file order."""
    main = tuple(entry for entry in entries if isinstance(entry, RecordedRequest))
    return [main, *(entry.requests for entry in entries if isinstance(entry, Subagent))]

"""The Weka trace format, one JSON object a session, in the dialects that real files speak.

``read_session`` turns the bytes of one object into a ``Session``. Files, compression and
directories are ``corpus.py``'s; what times mean is ``dialect.py``'s; how equal blocks are found is
``block_index.py``'s. The format is described in docs/traces.md.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any

from agentx_replay.traces.block_index import BlockIndex, Placement
from agentx_replay.traces.dialect import MarkerTimes, completions, inner_times_are_relative
from agentx_replay.traces.fields import Fields, bad_trace, shown
from agentx_replay.traces.id_text import NO_IDS, IdText, parse
from agentx_replay.traces.model import (
    BlockTrie,
    Entry,
    ReadingNotes,
    RecordedRequest,
    Session,
    Subagent,
)

_MOST_BLOCK_TOKENS = 65_536
_SCOPES = ("", "local", "global")
_LAUNCHED = "async_launched"


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

    ``ids`` is not yet known to be a list of numbers.
    """

    place: str
    told: dict[str, Any]
    ids: IdText


@dataclass(frozen=True, slots=True)
class _Item:
    """An entry of the file: a subagent and its requests, or one request of the main agent."""

    agent: Subagent | None
    requests: tuple[_Written, ...]


def read_session(raw: bytes, source: str) -> Session:
    """Return the session in ``raw``, one JSON object; ``source`` is what messages call it.

    Blocks enter the session's trie in recorded order: by start, then by place in the file. What a
    subagent's times mean is decided as ``dialect.py`` says. Raises ``UsageError`` naming
    ``source`` and the field for anything that is not a session.
    """
    top, id_texts = _parse(raw, source)
    block_size = top.whole("block_size", least=1, most=_MOST_BLOCK_TOKENS)
    items, relative = _spawned(_items(top, id_texts))
    requests, blocks = _recorded(items, block_size, source, relative=relative)
    entries = tuple(_entries(items, iter(requests)))
    return Session(
        id=_session_id(top),
        block_size=block_size,
        tool_tokens=top.whole("tool_tokens", default=0),
        system_tokens=top.whole("system_tokens", default=0),
        entries=entries,
        blocks=blocks,
        notes=_notes(entries, block_size, _unknown_keys(top), relative=relative),
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
    if top.text("hash_id_scope") not in _SCOPES:
        raise top.bad("hash_id_scope", '"local" or "global"')
    name = top.text("id")
    if not name:
        raise top.bad("id", "a name")
    return name


class _IdLists:
    """The texts of a file's id lists, handed out in file order."""

    def __init__(self, texts: Sequence[IdText]) -> None:
        self._texts = texts
        self._next = 0

    def take(self, request: Fields) -> IdText:
        """Return the list of a request, empty where the file has null."""
        match request.values.get("hash_ids", ()):
            case None:
                return NO_IDS
            case [int(number)] if self._next <= number < len(self._texts):
                self._next = number + 1
                return self._texts[number]
        raise request.bad("hash_ids", "a list of whole numbers")


def _items(top: Fields, id_texts: Sequence[IdText]) -> list[_Item]:
    lists = _IdLists(id_texts)
    items = [_item(fields, lists) for fields in top.objects("requests")]
    if not any(item.requests for item in items):
        raise bad_trace(top.source, "requests holds no request")
    return items


def _item(fields: Fields, lists: _IdLists) -> _Item:
    if not _is_subagent(fields.values):
        return _Item(None, (_written(fields, lists),))
    milliseconds = fields.optional_number("duration_ms")
    marker_t_s = fields.seconds("t")
    agent = Subagent(
        agent_id=fields.text("agent_id"),
        kind=fields.text("subagent_type"),
        status=fields.text("status"),
        marker_t_s=marker_t_s,
        marker_is_completion=False,
        spawn_s=marker_t_s,
        duration_s=None if milliseconds is None else milliseconds / 1000,
        tool_tokens=fields.whole("tool_tokens", default=0),
        system_tokens=fields.whole("system_tokens", default=0),
        requests=(),
    )
    return _Item(agent, tuple(_written(inner, lists) for inner in fields.objects("requests")))


def _is_subagent(values: Mapping[str, Any]) -> bool:
    return values.get("type") == "subagent"


def _written(fields: Fields, lists: _IdLists) -> _Written:
    if _is_subagent(fields.values):
        raise bad_trace(fields.source, f"{fields.place} is a subagent inside a subagent")
    told = {
        "t_s": fields.seconds("t"),
        "duration_s": fields.optional_number("api_time"),
        "think_time_s": fields.optional_number("think_time"),
        "model": fields.text("model"),
        "input_tokens": fields.whole("in", least=1),
        "output_tokens": fields.whole("out"),
    }
    return _Written(fields.place, told, lists.take(fields))


def _unknown_keys(top: Fields) -> tuple[tuple[str, int], ...]:
    """Return the keys that no reader knows, as ``request.foo``, with how often each occurs."""
    counts = Counter(top.values.keys() - _SESSION_KEYS)
    entries = top.values["requests"]
    inner = (request for e in entries if _is_subagent(e) for request in e["requests"])
    for values in (*entries, *inner):
        agent = _is_subagent(values)
        kind, known = ("subagent", _SUBAGENT_KEYS) if agent else ("request", _REQUEST_KEYS)
        counts.update(f"{kind}.{key}" for key in values.keys() - known)
    return tuple(sorted(counts.items()))


# What it means


def _spawned(items: Sequence[_Item]) -> tuple[list[_Item], bool]:
    """Return the items with their subagents' spawns, and whether inner times count from these."""
    times = [_times(item.agent, item.requests) for item in items if item.agent is not None]
    relative = inner_times_are_relative(times)
    main_starts_s = [item.requests[0].told["t_s"] for item in items if item.agent is None]
    verdicts = iter(completions(times, main_starts_s, relative=relative))
    return [
        item if item.agent is None else replace(item, agent=_at_spawn(item.agent, next(verdicts)))
        for item in items
    ], relative


def _times(agent: Subagent, requests: Sequence[_Written]) -> MarkerTimes:
    first = requests[0].told["t_s"] if requests else None
    return MarkerTimes(agent.marker_t_s, agent.duration_s, agent.status == _LAUNCHED, first)


def _at_spawn(agent: Subagent, is_completion: bool) -> Subagent:
    ran_s = (agent.duration_s or 0.0) if is_completion else 0.0
    return replace(agent, marker_is_completion=is_completion, spawn_s=agent.marker_t_s - ran_s)


def _recorded(
    items: Sequence[_Item], block_size: int, source: str, *, relative: bool
) -> tuple[list[RecordedRequest], BlockTrie]:
    """Return the requests in file order, and the trie they make in recorded order."""
    starts_s = [
        written.told["t_s"] + (item.agent.spawn_s if item.agent is not None and relative else 0.0)
        for item in items
        for written in item.requests
    ]
    written = [written for item in items for written in item.requests]
    blocks = BlockIndex()
    requests: dict[int, RecordedRequest] = {}
    for rank, index in enumerate(sorted(range(len(written)), key=lambda i: (starts_s[i], i))):
        requests[index] = RecordedRequest(
            index=index,
            recorded_order=rank,
            start_s=starts_s[index],
            **written[index].told,
            **_placed(blocks, written[index], block_size, source)._asdict(),
        )
    return [requests[index] for index in range(len(written))], blocks.trie()


def _placed(blocks: BlockIndex, written: _Written, block_size: int, source: str) -> Placement:
    field = f"{written.place}.hash_ids"
    try:
        placement = blocks.enter(written.ids)
    except ValueError as error:
        raise bad_trace(source, f"{field} is not a list of whole numbers: {error}") from None
    tokens = written.told["input_tokens"]
    most = -(-tokens // block_size)
    if placement.block_count > most:
        raise bad_trace(
            source,
            f"{field} has {placement.block_count} ids, {tokens} tokens have at most {most} blocks",
        )
    return placement


def _entries(items: Sequence[_Item], requests: Iterator[RecordedRequest]) -> Iterator[Entry]:
    """Yield the file's entries, taking the recorded requests in file order."""
    for item in items:
        taken = tuple(islice(requests, len(item.requests)))
        yield taken[0] if item.agent is None else replace(item.agent, requests=taken)


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

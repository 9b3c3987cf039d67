"""The Weka trace format, one JSON object a session, in the dialects that real files speak.

``read_session`` turns the bytes of one object into a ``Session``. Files, compression and
directories are ``corpus.py``'s; what times mean is ``dialect.py``'s; how equal blocks are found is
``block_index.py``'s. The format is described in docs/traces.md.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

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
_SUBAGENT = "subagent"
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
class _Request:
    """A request as its file writes it. ``ids`` is not yet known to be a list of numbers."""

    place: str
    t_s: float
    duration_s: float | None
    think_time_s: float | None
    model: str
    input_tokens: int
    output_tokens: int
    ids: IdText


@dataclass(frozen=True, slots=True)
class _Marker:
    """A subagent marker as its file writes it."""

    t_s: float
    agent_id: str
    kind: str
    status: str
    duration_s: float | None
    tool_tokens: int
    system_tokens: int
    requests: tuple[_Request, ...]

    @property
    def times(self) -> MarkerTimes:
        first = self.requests[0].t_s if self.requests else None
        return MarkerTimes(self.t_s, self.duration_s, self.status == _LAUNCHED, first)


_Item = _Request | _Marker


@dataclass(frozen=True, slots=True)
class _Spawn:
    """How a marker is read: whether it is the completion, and what its inner times count from."""

    is_completion: bool
    spawn_s: float
    inner_zero_s: float


def read_session(raw: bytes, source: str) -> Session:
    """Return the session in ``raw``, one JSON object; ``source`` is what messages call it.

    Blocks enter the session's trie in recorded order: by start, then by place in the file. What a
    subagent's times mean is decided as ``dialect.py`` says. Raises ``UsageError`` naming
    ``source`` and the field for anything that is not a session.
    """
    top, id_texts = _parse(raw, source)
    block_size = _block_size(top)
    items = _items(top, id_texts)
    spawns, relative = _spawns(items)
    requests, blocks = _recorded(items, spawns, block_size, source)
    entries = tuple(_entries(items, spawns, iter(requests)))
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


def _block_size(top: Fields) -> int:
    block_size = top.whole("block_size", least=1)
    if block_size > _MOST_BLOCK_TOKENS:
        raise top.bad("block_size", f"a whole number from 1 to {_MOST_BLOCK_TOKENS}")
    return block_size


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
    if not _flat(items):
        raise bad_trace(top.source, "requests holds no request")
    return items


def _item(fields: Fields, lists: _IdLists) -> _Item:
    if fields.values.get("type") != _SUBAGENT:
        return _request(fields, lists)
    milliseconds = fields.optional_number("duration_ms")
    return _Marker(
        t_s=fields.seconds("t"),
        agent_id=fields.text("agent_id"),
        kind=fields.text("subagent_type"),
        status=fields.text("status"),
        duration_s=None if milliseconds is None else milliseconds / 1000,
        tool_tokens=fields.whole("tool_tokens", default=0),
        system_tokens=fields.whole("system_tokens", default=0),
        requests=tuple(_inner_request(inner, lists) for inner in fields.objects("requests")),
    )


def _inner_request(fields: Fields, lists: _IdLists) -> _Request:
    if fields.values.get("type") == _SUBAGENT:
        raise bad_trace(fields.source, f"{fields.place} is a subagent inside a subagent")
    return _request(fields, lists)


def _request(fields: Fields, lists: _IdLists) -> _Request:
    return _Request(
        place=fields.place,
        t_s=fields.seconds("t"),
        duration_s=fields.optional_number("api_time"),
        think_time_s=fields.optional_number("think_time"),
        model=fields.text("model"),
        input_tokens=fields.whole("in", least=1),
        output_tokens=fields.whole("out"),
        ids=lists.take(fields),
    )


def _flat(items: Sequence[_Item]) -> list[_Request]:
    return [r for item in items for r in (item.requests if isinstance(item, _Marker) else (item,))]


def _unknown_keys(top: Fields) -> tuple[tuple[str, int], ...]:
    """Return the keys that no reader knows, as ``request.foo``, with how often each occurs."""
    counts = Counter(top.values.keys() - _SESSION_KEYS)
    for item in top.values["requests"]:
        if item.get("type") != _SUBAGENT:
            counts.update(f"request.{key}" for key in item.keys() - _REQUEST_KEYS)
            continue
        counts.update(f"subagent.{key}" for key in item.keys() - _SUBAGENT_KEYS)
        for inner in item["requests"]:
            counts.update(f"request.{key}" for key in inner.keys() - _REQUEST_KEYS)
    return tuple(sorted(counts.items()))


# What it means


def _spawns(items: Sequence[_Item]) -> tuple[dict[int, _Spawn], bool]:
    """Return how each marker is read, by its place in the file, and whether times are relative."""
    markers = {place: item for place, item in enumerate(items) if isinstance(item, _Marker)}
    times = [marker.times for marker in markers.values()]
    relative = inner_times_are_relative(times)
    main_starts_s = [item.t_s for item in items if isinstance(item, _Request)]
    verdicts = completions(times, main_starts_s, relative=relative)
    spawns = {}
    for (place, marker), is_completion in zip(markers.items(), verdicts, strict=True):
        spawn_s = marker.t_s - (marker.duration_s or 0.0) if is_completion else marker.t_s
        spawns[place] = _Spawn(is_completion, spawn_s, spawn_s if relative else 0.0)
    return spawns, relative


def _starts_s(items: Sequence[_Item], spawns: Mapping[int, _Spawn]) -> list[float]:
    """Return each request's start from the session's zero, in file order."""
    starts: list[float] = []
    for place, item in enumerate(items):
        if isinstance(item, _Marker):
            zero_s = spawns[place].inner_zero_s
            starts += [zero_s + request.t_s for request in item.requests]
        else:
            starts.append(item.t_s)
    return starts


def _recorded(
    items: Sequence[_Item], spawns: Mapping[int, _Spawn], block_size: int, source: str
) -> tuple[list[RecordedRequest], BlockTrie]:
    """Return the requests in file order, and the trie they make in recorded order."""
    written = _flat(items)
    starts_s = _starts_s(items, spawns)
    blocks = BlockIndex()
    requests: dict[int, RecordedRequest] = {}
    for rank, index in enumerate(sorted(range(len(written)), key=lambda i: (starts_s[i], i))):
        request = written[index]
        requests[index] = RecordedRequest(
            index=index,
            recorded_order=rank,
            t_s=request.t_s,
            start_s=starts_s[index],
            duration_s=request.duration_s,
            think_time_s=request.think_time_s,
            model=request.model,
            input_tokens=request.input_tokens,
            output_tokens=request.output_tokens,
            **_placed(blocks, request, block_size, source)._asdict(),
        )
    return [requests[index] for index in range(len(written))], blocks.trie()


def _placed(blocks: BlockIndex, request: _Request, block_size: int, source: str) -> Placement:
    field = f"{request.place}.hash_ids"
    try:
        placement = blocks.enter(request.ids)
    except ValueError as error:
        raise bad_trace(source, f"{field} is not a list of whole numbers: {error}") from None
    most = -(-request.input_tokens // block_size)
    if placement.block_count > most:
        raise bad_trace(
            source,
            f"{field} has {placement.block_count} ids, {request.input_tokens} tokens have"
            f" at most {most} blocks",
        )
    return placement


def _entries(
    items: Sequence[_Item], spawns: Mapping[int, _Spawn], requests: Iterator[RecordedRequest]
) -> Iterator[Entry]:
    """Yield the file's entries, taking the recorded requests in file order."""
    for place, item in enumerate(items):
        if isinstance(item, _Request):
            yield next(requests)
            continue
        yield Subagent(
            agent_id=item.agent_id,
            kind=item.kind,
            status=item.status,
            marker_t_s=item.t_s,
            marker_is_completion=spawns[place].is_completion,
            spawn_s=spawns[place].spawn_s,
            duration_s=item.duration_s,
            tool_tokens=item.tool_tokens,
            system_tokens=item.system_tokens,
            requests=tuple(islice(requests, len(item.requests))),
        )


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

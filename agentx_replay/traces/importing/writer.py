"""Imported sessions as lines of the Weka format: the one place where block ids are made.

A request keeps the ids of what its prompt shares with its parent's and gets the next whole numbers
for the rest, so two ids are equal exactly if the prompts up to them are. No text, name, date or id
of the log is written (``names.py`` has the exceptions).
"""

import functools
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from agentx_replay.traces.fields import MOST_SECONDS
from agentx_replay.traces.files import MOST_SESSION_BYTES
from agentx_replay.traces.importing.names import is_public_model, public_agent_kind
from agentx_replay.traces.importing.record import (
    ImportedSession,
    ImportedSubagent,
    Ledger,
    Notes,
    Request,
)

_ID_BYTES = 6
_RUNS_KEPT = 64
"""All runs of a prompt but its last are the runs of the one before."""

_REQUEST_BYTES = 256
"""More than the fields of one request take, its block ids left out."""

_MOST_PROMPT_TOKENS = 100_000_000
"""Ten times the longest context there is; what is longer is a count of something else."""

_TOO_LARGE = f"session of more than {MOST_SESSION_BYTES >> 20} MiB as a trace (use --max-gap)"
_TOO_LONG_PROMPT = f"session with a prompt of more than {_MOST_PROMPT_TOKENS:,} tokens"

_TOO_LONG_AGO = "session whose requests lie thousands of years apart"

_Ranges = tuple[tuple[int, int], ...]
"""Block ids as runs, each from its first to before its second number."""

_Entry = tuple[int, list[bytes]]
"""The start of a request or a subagent, in ms, and its JSON in pieces."""


@dataclass(slots=True)
class Totals:
    """What was written. Blocks are whole ones; the session had sent ``known_blocks`` before."""

    sessions: int = 0
    requests: int = 0
    subagents: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    blocks: int = 0
    known_blocks: int = 0

    @property
    def reuse(self) -> float:
        return self.known_blocks / self.blocks if self.blocks else 0.0


class Writer:
    """Turns sessions into lines of JSON and adds them up.

    ``salt`` keys the digests that stand for the ids of sessions; nothing else depends on it.
    """

    def __init__(self, salt: bytes, ledger: Ledger) -> None:
        self.totals = Totals()
        self.notes = Notes()
        self._salt = salt
        self._ledger = ledger
        self._models: dict[str, str] = {}
        self._private_models = 0
        self._names: Counter[str] = Counter()
        self._numbers = _NumberTexts()

    def line(self, session: ImportedSession) -> bytes | None:
        """Return a session as one line of JSON; None, noted, if no reader would take it."""
        minted = _Minted(session)
        if reason := minted.unfit():
            self._ledger.leave_out(reason)
            return None
        self._add(session, minted)
        entries = list(self._requests(session.requests, minted))
        for number, agent in enumerate(session.subagents, start=1):
            entries.append(self._subagent(f"agent-{number}", agent, minted))
        entries.sort(key=lambda entry: entry[0])
        head = {
            "id": self._digest(session.name),
            "block_size": session.block_tokens,
            "hash_id_scope": "local",
            "tool_tokens": 0,
            "system_tokens": session.system_tokens,
        }
        return b"".join((*_with_requests(head, entries), b"\n"))

    def _digest(self, name: str) -> str:
        """Return an id of 12 hex digits, another one each time: two logs may have the same name."""
        self._names[name] += 1
        name = f"{name} {self._names[name]}"
        return hashlib.blake2b(name.encode(), key=self._salt, digest_size=_ID_BYTES).hexdigest()

    def _add(self, session: ImportedSession, minted: "_Minted") -> None:
        requests, totals = session.all_requests(), self.totals
        totals.sessions += 1
        totals.requests += len(requests)
        totals.subagents += len(session.subagents)
        totals.input_tokens += sum(request.input_tokens for request in requests)
        totals.output_tokens += sum(request.output_tokens for request in requests)
        self.notes.add(session.notes)
        totals.blocks += minted.blocks
        totals.known_blocks += minted.blocks - minted.size

    def _requests(self, requests: Sequence[Request], minted: "_Minted") -> Iterator[_Entry]:
        before: Request | None = None
        for request in requests:
            fields: dict[str, Any] = {
                "t": (request.start_ms - minted.zero_ms) / 1000,
                "type": "s",
                "model": self._model(request.model),
                "in": request.input_tokens,
                "out": request.output_tokens,
            }
            if request.end_ms is not None:
                fields["api_time"] = (request.end_ms - request.start_ms) / 1000
            if before is not None and before.end_ms is not None:
                fields["think_time"] = max(0, request.start_ms - before.end_ms) / 1000
            before = request
            ids = b",".join(map(self._numbers.text, minted.paths[request]))
            yield request.start_ms, [orjson.dumps(fields)[:-1], b',"hash_ids":[', ids, b"]}"]

    def _subagent(self, name: str, agent: ImportedSubagent, minted: "_Minted") -> _Entry:
        """Return the spawn and the JSON of a subagent. Inner times count from the session's start.

        A reader takes a first inner time of 0 for one that counts from the spawn, so a spawn is
        never written after the first request.
        """
        spawn_ms = min(agent.spawn_ms, agent.requests[0].start_ms)
        awaited = agent.join_ms is not None
        fields = {
            "t": (spawn_ms - minted.zero_ms) / 1000,
            "type": "subagent",
            "agent_id": name,
            "subagent_type": public_agent_kind(agent.kind),
            "duration_ms": max(0, (agent.join_ms or 0) - spawn_ms) if awaited else None,
            "status": "completed" if awaited else "async_launched",
        }
        inner = list(self._requests(agent.requests, minted))
        return spawn_ms, _with_requests(fields, inner)

    def _model(self, name: str) -> str:
        """Return a public model's name as it is, any other's as the next number."""
        if (written := self._models.get(name)) is None:
            self._private_models += not (is_public := not name or is_public_model(name))
            written = self._models[name] = name if is_public else f"model-{self._private_models}"
        return written


def _with_requests(fields: dict[str, Any], entries: Sequence[_Entry]) -> list[bytes]:
    """Return an object with its requests in pieces, which are put together once."""
    pieces = [orjson.dumps(fields)[:-1], b',"requests":[']
    for number, (_, entry) in enumerate(entries):
        if number:
            pieces.append(b",")
        pieces += entry
    pieces.append(b"]}")
    return pieces


class _Minted:
    """The block ids of one session: a path for each request, ``size`` distinct ids in all.

    ``zero_ms`` is when the session begins.
    """

    def __init__(self, session: ImportedSession) -> None:
        self.paths: dict[Request | None, _Ranges] = {}
        self.size = 0
        self.blocks = 0
        self._child: dict[tuple[int, int], int] = {}
        self._most_tokens = 0
        starts_ms = [each.start_ms for each in session.all_requests()]
        self.zero_ms = min(starts_ms + [agent.spawn_ms for agent in session.subagents])
        self._span_ms = max(starts_ms) - self.zero_ms
        for request in sorted(session.all_requests(), key=lambda request: request.start_ms):
            whole = request.input_tokens // session.block_tokens
            self._most_tokens = max(self._most_tokens, request.input_tokens)
            if request.block_ids is None:
                shared = request.shared_tokens // session.block_tokens
                parent = self.paths.get(request.parent, ())
                path = self._extended(parent, min(shared, whole), whole)
            else:
                ids = request.block_ids[:whole]
                path, whole = self._walked(ids), len(ids)
            self.paths[request] = path
            self.blocks += whole

    def unfit(self) -> str:
        """Return why no reader would take the session, empty if one would."""
        if self._most_tokens > _MOST_PROMPT_TOKENS:
            return _TOO_LONG_PROMPT
        if self._span_ms > MOST_SECONDS * 1000:
            return _TOO_LONG_AGO
        most_digits = len(str(self.size)) + 1
        most_bytes = self.blocks * most_digits + len(self.paths) * _REQUEST_BYTES
        return _TOO_LARGE if most_bytes > MOST_SESSION_BYTES else ""

    def _extended(self, parent: _Ranges, shared: int, whole: int) -> _Ranges:
        """Return the first ``shared`` ids of a parent, and new ones up to ``whole``."""
        kept: list[tuple[int, int]] = []
        for first, end in parent:
            if shared <= 0:
                break
            end = min(end, first + shared)
            kept.append((first, end))
            shared -= end - first
            whole -= end - first
        if whole:
            self.size += whole
            return _joined(kept, self.size - whole, self.size)
        return tuple(kept)

    def _walked(self, ids: Sequence[int]) -> _Ranges:
        """Number a format's own ids anew, each together with all that come before it."""
        path: _Ranges = ()
        block = -1
        for identity in ids:
            child = self._child.setdefault((block, identity), self.size)
            self.size += child == self.size
            path = _joined(path, child, child + 1)
            block = child
        return path


def _joined(path: Sequence[tuple[int, int]], first: int, end: int) -> _Ranges:
    if path and path[-1][1] == first:
        return (*path[:-1], (path[-1][0], end))
    return (*path, (first, end))


class _NumberTexts:
    """The texts of ranges of whole numbers, with commas between them.

    They are slices of one text, since nearly all that is written are the same ids again.
    """

    def __init__(self) -> None:
        self._size = 0
        self._text = b""
        self.text = functools.lru_cache(_RUNS_KEPT)(self._slice)

    def _slice(self, run: tuple[int, int]) -> bytes:
        first, end = run
        if end > self._size:
            self._size = max(end, 2 * self._size)
            self._text = "".join(f"{number}," for number in range(self._size)).encode()
        return self._text[_bytes_before(first) : _bytes_before(end) - 1]


def _bytes_before(number: int) -> int:
    """Return how long the text of all whole numbers before ``number`` is, commas included.

    Each has as many digits as the last one, less one for each power of ten above it.
    """
    digits = len(str(number - 1)) if number else 0
    missing: int = (10 ** max(1, digits) - 10) // 9
    return number * (digits + 1) - missing

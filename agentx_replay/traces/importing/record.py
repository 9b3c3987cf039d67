"""What every importer makes of a log: sessions of requests, what it assumed and left out.

Instants are whole milliseconds since 1970. Names, ids and paths of the log are still in these
values; ``writer.py`` is the only way out, and it writes none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from agentx_replay.errors import UsageError

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

BLOCK_TOKENS = 64
"""Tokens in a block of a session whose log has no blocks of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One request. Its prompt starts with the first ``shared_tokens`` of ``parent``'s prompt.

    ``end_ms`` is None if the log does not say. ``block_ids`` are a format's own ids, first block
    first; then ``parent`` and ``shared_tokens`` are not used.
    """

    start_ms: int
    end_ms: int | None
    input_tokens: int
    output_tokens: int
    model: str
    parent: Request | None = field(default=None, repr=False)
    shared_tokens: int = 0
    block_ids: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class ImportedSubagent:
    """A subagent's requests. ``join_ms`` is when its result came back, None if nobody waits."""

    spawn_ms: int
    join_ms: int | None
    kind: str
    requests: tuple[Request, ...]


@dataclass(slots=True)
class Notes:
    """What was assumed of a session, by what it is, and ``facts``: sums its format is asked for."""

    assumed: Counter[str] = field(default_factory=Counter)
    facts: Counter[str] = field(default_factory=Counter)

    def add(self, other: Notes) -> None:
        self.assumed.update(other.assumed)
        self.facts.update(other.facts)


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """One session of a log. ``name`` is its id there, ``project`` the path of its file."""

    name: str
    requests: tuple[Request, ...]
    subagents: tuple[ImportedSubagent, ...] = ()
    block_tokens: int = BLOCK_TOKENS
    system_tokens: int = 0
    project: str = ""
    notes: Notes = field(default_factory=Notes)

    def all_requests(self) -> list[Request]:
        """Return every request, the main agent's first."""
        return [*self.requests, *(each for agent in self.subagents for each in agent.requests)]


@dataclass(slots=True)
class Ledger:
    """What an import left out, by what it is.

    ``places`` has the first place of each thing left out. ``refused`` has a sentence for each
    session or file that could not be used at all, ``remarks`` what must be said of the whole.
    ``read_bytes`` is called with the
    size of every piece of input as it is read.
    """

    read_bytes: Callable[[int], object] = lambda _: None
    left_out: Counter[str] = field(default_factory=Counter)
    places: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def leave_out(self, what: str, place: str | tuple[Path, int] | None = None) -> None:
        self.left_out[what] += 1
        if place is not None and what not in self.places:
            self.places[what] = place if isinstance(place, str) else f"{place[0]}:{place[1]}"

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Note why the work inside refused its input, and go on after it."""
        try:
            yield
        except UsageError as error:
            self.refused.append(error.what)


def grouped(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, list[_Value]]:
    """Return the values of each key, both in the order in which they come."""
    groups: dict[_Key, list[_Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def root_of(name: str, parents: Mapping[str, str]) -> str:
    """Return the first ancestor of ``name`` of those at hand; a ring ends before it closes."""
    passed = {name}
    while (parent := parents[name]) in parents and parent not in passed:
        passed.add(parent)
        name = parent
    return name

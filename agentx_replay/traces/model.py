"""What was recorded: sessions, requests, subagents and the blocks they share, as plain values.

This module holds no reading, no times of a replay and no text. A session's block ids are stored
as a trie (``BlockTrie``): a request is "the first k blocks of what this session already has, plus
these new ones", so ids that repeat from request to request (98 % of a corpus) are never held.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

NO_BLOCK = -1
"""The parent of a first block, and the tip of a request that has no whole block."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockTrie:
    """The distinct blocks of one session, numbered densely in recorded order of first use.

    ``parent[b]`` (int32, shape ``(blocks,)``) is the block before ``b`` in every prompt that
    holds ``b``, or ``NO_BLOCK``. ``run_first[b]`` (int32) is the first block of the unbroken run
    ``first, first + 1, … b`` in which each block is the parent of the next, so that a path is a
    handful of ranges.
    """

    parent: NDArray[np.int32]
    run_first: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.parent)

    def path(self, tip: int) -> NDArray[np.int32]:
        """Return the blocks from the first to ``tip``, int32, in prompt order."""
        ranges: list[NDArray[np.int32]] = []
        block = tip
        while block != NO_BLOCK:
            first = int(self.run_first[block])
            ranges.append(np.arange(first, block + 1, dtype=np.int32))
            block = int(self.parent[first])
        return np.concatenate(ranges[::-1]) if ranges else np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request of a recording.

    ``index`` numbers the requests of the whole session (subagents' included) densely in file
    order. ``recorded_order`` is its rank by (``start_s``, ``index``): the order in which its
    blocks entered the trie. ``t_s`` is the file's own ``t``; ``start_s`` is seconds from the
    session's zero under the reader's reading of the file's dialect (equal for main requests).

    Its prompt is the trie path that ends at ``tip_block``: ``block_count`` blocks, of which the
    first ``known_blocks`` were already in the session when it was sent in recorded order and
    the others, ``first_new_block`` and the following, were new.
    """

    index: int
    recorded_order: int
    t_s: float
    start_s: float
    duration_s: float | None
    think_time_s: float | None
    model: str
    input_tokens: int
    output_tokens: int
    tip_block: int
    block_count: int
    known_blocks: int
    first_new_block: int

    @property
    def end_s(self) -> float:
        """Recorded end: start plus duration, a missing duration counting as 0."""
        return self.start_s + (self.duration_s or 0.0)


@dataclass(frozen=True, slots=True)
class Subagent:
    """A subagent marker and the requests inside it.

    ``marker_t_s`` is the marker's ``t`` as written. ``spawn_s`` is when the subagent was started
    under the reader's reading: ``marker_t_s`` where the marker is the spawn,
    ``marker_t_s - duration_s`` where it is the completion (``marker_is_completion``).
    """

    agent_id: str
    kind: str
    status: str
    marker_t_s: float
    marker_is_completion: bool
    spawn_s: float
    duration_s: float | None
    tool_tokens: int
    system_tokens: int
    requests: tuple[RecordedRequest, ...]


Entry: TypeAlias = RecordedRequest | Subagent


@dataclass(frozen=True, slots=True)
class ReadingNotes:
    """What the reader met and did not use, counted: nothing is dropped silently."""

    unknown_keys: tuple[tuple[str, int], ...] = ()
    missing_durations: int = 0
    short_block_lists: int = 0
    negative_gaps: int = 0
    zero_outputs: int = 0
    relative_inner_times: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """One recorded coding-agent run: the file's entries in file order, over one block trie."""

    id: str
    block_size: int
    tool_tokens: int
    system_tokens: int
    entries: tuple[Entry, ...]
    blocks: BlockTrie
    notes: ReadingNotes = ReadingNotes()

    def requests(self) -> tuple[RecordedRequest, ...]:
        """Return every request, subagents' included, by ``index``."""
        return tuple(
            request
            for entry in self.entries
            for request in (entry.requests if isinstance(entry, Subagent) else (entry,))
        )


@dataclass(frozen=True, slots=True)
class Corpus:
    """Sessions in corpus order, with a fingerprint of all that a replay depends on.

    ``fingerprint`` is 16 hex digits; ``skipped`` names bad files left out with the reason.
    """

    name: str
    sessions: tuple[Session, ...]
    fingerprint: str
    skipped: tuple[tuple[str, str], ...] = ()

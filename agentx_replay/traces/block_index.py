"""Which blocks of a prompt a session already has: lists of ids in, places in a trie out.

A block is the same as another if its id and all the blocks before it are, so a trie of
(parent, id) is right for every kind of id: chained ones (equal id means equal whole prefix) and
the old global ones, which are not. Only new ids are ever parsed or held: what a prompt shares
with a recent one is found by comparing their texts.
"""

from collections import deque
from itertools import chain
from typing import NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from agentx_replay.traces.id_text import NO_IDS, IdText
from agentx_replay.traces.model import NO_BLOCK, BlockTrie

_RECENT_PROMPTS = 8
"""How many prompts a new one is compared with: parallel agents take turns in a recording."""

_COMMA = ord(",")


class Placement(NamedTuple):
    """Where a prompt lies in the trie, in the terms of ``model.RecordedRequest``."""

    tip_block: int
    block_count: int
    known_blocks: int
    first_new_block: int


class _Prompt(NamedTuple):
    text: IdText
    path: NDArray[np.int32]


_NOTHING = _Prompt(NO_IDS, np.empty(0, np.int32))


class BlockIndex:
    """The blocks of one session so far. Prompts are to be entered in recorded order."""

    def __init__(self) -> None:
        self._size = 0
        self._branches: list[tuple[int, int]] = []
        self._child: dict[tuple[int, int], int] = {}
        self._recent: deque[_Prompt] = deque(maxlen=_RECENT_PROMPTS)

    def enter(self, text: IdText) -> Placement:
        """Add a prompt's blocks, raising ``ValueError`` for a text that is no list of ids."""
        prefix, shared_bytes = self._longest_shared(text)
        ids = _parse_ids(text[shared_bytes:])
        walked = self._walk(prefix, ids)
        known = len(prefix) + len(walked)
        first_new = self._size
        parent = _last(walked) if walked else _last(prefix)
        self._append(parent, ids[len(walked) :])
        path = np.concatenate(
            (prefix, np.array(walked, np.int32), np.arange(first_new, self._size, dtype=np.int32))
        )
        self._recent.appendleft(_Prompt(text, path))
        return Placement(_last(path), len(path), known, first_new)

    def trie(self) -> BlockTrie:
        numbers = np.arange(self._size, dtype=np.int32)
        parent = numbers - 1
        for first, before in self._branches:
            parent[first] = before
        starts_run = parent != numbers - 1
        run_first = np.maximum.accumulate(np.where(starts_run, numbers, 0), dtype=np.int32)
        return BlockTrie(parent, run_first)

    def _longest_shared(self, text: IdText) -> tuple[NDArray[np.int32], int]:
        """Return the blocks shared with the recent prompt that shares most, and their bytes."""
        best, best_bytes = _NOTHING, 0
        for prompt in self._recent:
            shared = _common_bytes(text, prompt.text)
            if shared > best_bytes:
                best, best_bytes = prompt, shared
            if shared == len(prompt.text) and shared:
                break  # it extends this one: the usual case
        commas = np.flatnonzero(text[:best_bytes] == _COMMA)
        if not len(commas):
            return _NOTHING.path, 0
        return best.path[: len(commas)], int(commas[-1]) + 1

    def _walk(self, prefix: NDArray[np.int32], ids: list[int]) -> list[int]:
        """Return the blocks after ``prefix`` that are known though no recent prompt has them."""
        walked: list[int] = []
        block = _last(prefix)
        for identity in ids:
            child = self._child.get((block, identity))
            if child is None:
                break
            walked.append(child)
            block = child
        return walked

    def _append(self, parent: int, ids: list[int]) -> None:
        if not ids:
            return
        first = self._size
        self._size += len(ids)
        self._branches.append((first, parent))
        edges = zip(chain((parent,), range(first, self._size - 1)), ids, strict=True)
        self._child.update(zip(edges, range(first, self._size), strict=True))


def _last(blocks: NDArray[np.int32] | list[int]) -> int:
    return int(blocks[-1]) if len(blocks) else NO_BLOCK


def _common_bytes(one: IdText, other: IdText) -> int:
    shorter = min(len(one), len(other))
    if not shorter or one[0] != other[0]:
        return 0
    differs = one[:shorter] != other[:shorter]
    first = int(differs.argmax())
    return first if differs[first] else shorter


def _parse_ids(text: IdText) -> list[int]:
    if not len(text):
        return []
    ids: list[int] = orjson.loads(b"[%b]" % text[:-1].tobytes())
    if set(map(type, ids)) != {int} or min(ids) < 0:
        raise ValueError("not whole numbers of at least 0")
    return ids

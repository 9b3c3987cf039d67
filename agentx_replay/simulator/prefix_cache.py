"""A block prefix cache: which leading blocks of a prompt are held, and what is evicted for room.

A radix tree whose edges are runs of blocks, so that a prompt of ten thousand blocks is matched in
a few array comparisons. Keys are content ids of whole blocks; a block's place is its path, so an
id needs to name the block's content only. The rules are those of the engines in the field: only
whole blocks are reused, blocks of running sequences are never evicted, and eviction takes the
least recently released block first, the end of a prompt before its beginning. This module knows
nothing of time, tokens or steps.
"""

import heapq
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint64]


@dataclass(slots=True, eq=False)
class _Run:
    """Consecutive blocks that were last used together.

    ``pins`` counts leases that end here plus children that are pinned, so an unpinned run has
    nothing pinned below it. ``filed`` says that the eviction queue has an entry for it.
    """

    ids: Ids
    parent: "_Run | None"
    children: dict[int, "_Run"] = field(default_factory=dict)
    pins: int = 0
    last_use: int = 0
    filed: bool = False


@dataclass(slots=True, eq=False)
class Lease:
    """What one sequence holds: ``blocks`` leading blocks of its prompt in the cache, pinned, and
    room for ``reserved`` further blocks."""

    tip: _Run
    blocks: int
    reserved: int


def _common_length(left: Ids, right: Ids) -> int:
    """Return how many leading ids are equal."""
    length = min(len(left), len(right))
    different = left[:length] != right[:length]
    first = int(different.argmax()) if length else 0
    return first if length and different[first] else length


class PrefixCache:
    """Blocks of finished and running sequences within ``capacity_blocks``."""

    def __init__(self, capacity_blocks: int) -> None:
        self.capacity_blocks = capacity_blocks
        self.cached_blocks = 0
        self.reserved_blocks = 0
        self._pinned_blocks = 0
        self._root = _Run(np.empty(0, np.uint64), None)
        self._uses = 0
        self._filings = 0
        self._evictable: list[tuple[int, int, _Run]] = []

    @property
    def used_blocks(self) -> int:
        """Blocks that leases hold or have reserved; the others may be evicted."""
        return self._pinned_blocks + self.reserved_blocks

    def admit(self, ids: Ids, match_limit: int, total_blocks: int) -> Lease | None:
        """Pin the longest leading run of ``ids`` that is held and reserve room for the rest.

        At most ``match_limit`` blocks are matched. Room is made for ``total_blocks`` less the
        match by evicting. None, and nothing is evicted, where even that would not be enough.
        """
        tip, matched = self._descend(self._root, ids[:match_limit])
        self._pin(tip)
        wanted = total_blocks - matched
        free = self.capacity_blocks - self.cached_blocks - self.reserved_blocks
        if wanted - free > self.cached_blocks - self._pinned_blocks:
            self._unpin(tip)
            return None
        self._evict(wanted - free)
        self.reserved_blocks += wanted
        return Lease(tip, matched, wanted)

    def insert(self, lease: Lease, ids: Ids) -> None:
        """Make the prompt's blocks ``ids`` (those after the lease's) visible: they are computed.

        A block that another sequence made visible meanwhile is shared from here on; the room
        reserved for it stays with the lease until it is released.
        """
        if not len(ids):
            return
        old = lease.tip
        tip, shared = self._descend(old, ids)
        fresh = ids[shared:]
        if len(fresh):
            tip = self._append(lease, tip, fresh)
        if tip is not old:
            self._pin(tip)
            self._unpin(old)
        lease.tip = tip
        lease.blocks += len(ids)
        lease.reserved -= len(fresh)
        self.reserved_blocks -= len(fresh)

    def release(self, lease: Lease) -> None:
        """Unpin the lease's blocks, which stay until evicted, and give its room back."""
        self.reserved_blocks -= lease.reserved
        lease.reserved = 0
        self._uses += 1
        lease.tip.last_use = self._uses
        self._unpin(lease.tip)
        self._file(lease.tip)

    def _descend(self, run: _Run, ids: Ids) -> tuple[_Run, int]:
        """Follow ``ids`` from the end of ``run``; return the run they end in and how far held."""
        matched = 0
        while matched < len(ids):
            child = run.children.get(int(ids[matched]))
            if child is None:
                break
            common = _common_length(child.ids, ids[matched:])
            matched += common
            if common < len(child.ids):
                return self._split(run, child, common), matched
            run = child
        return run, matched

    def _split(self, parent: _Run, run: _Run, length: int) -> _Run:
        """Cut a run in two; ``run`` stays the lower part, with its leases and children."""
        upper = _Run(run.ids[:length], parent, last_use=run.last_use)
        parent.children[int(upper.ids[0])] = upper
        run.ids = run.ids[length:]
        run.parent = upper
        upper.children[int(run.ids[0])] = run
        upper.pins = 1 if run.pins else 0
        return upper

    def _append(self, lease: Lease, run: _Run, fresh: Ids) -> _Run:
        """Add blocks below ``run``: in place where nobody but the lease ends there."""
        self.cached_blocks += len(fresh)
        alone = run is lease.tip and run.pins == 1 and not run.children
        if alone and run is not self._root:
            run.ids = np.concatenate((run.ids, fresh))
            self._pinned_blocks += len(fresh)
            return run
        child = _Run(fresh.copy(), run)
        run.children[int(fresh[0])] = child
        return child

    def _pin(self, run: _Run) -> None:
        at: _Run | None = run
        while at is not None:
            at.pins += 1
            if at.pins > 1:
                return
            self._pinned_blocks += len(at.ids)
            at = at.parent

    def _unpin(self, run: _Run) -> None:
        at: _Run | None = run
        while at is not None:
            at.pins -= 1
            if at.pins:
                return
            self._pinned_blocks -= len(at.ids)
            at = at.parent

    def _file(self, run: _Run) -> None:
        """Queue a run for eviction if it may go; an entry it has already is brought up to date
        when it is reached."""
        if run.parent is not None and not run.pins and not run.children and not run.filed:
            run.filed = True
            self._filings += 1
            heapq.heappush(self._evictable, (run.last_use, self._filings, run))

    def _evict(self, wanted: int) -> None:
        """Drop ``wanted`` blocks (none where not positive), which the caller knows to be there."""
        while wanted > 0:
            last_use, _, run = heapq.heappop(self._evictable)
            run.filed = False
            if run.pins or run.children:
                continue
            if run.last_use == last_use:
                wanted -= self._drop(run, wanted)
            self._file(run)

    def _drop(self, run: _Run, wanted: int) -> int:
        """Drop up to ``wanted`` blocks from the end of a run; return how many."""
        dropped = min(wanted, len(run.ids))
        self.cached_blocks -= dropped
        if run.parent is not None and dropped == len(run.ids):
            self._unlink(run, run.parent)
        run.ids = run.ids[: len(run.ids) - dropped]
        return dropped

    def _unlink(self, run: _Run, parent: _Run) -> None:
        """Take a run out of the tree; its parent was used when it was."""
        del parent.children[int(run.ids[0])]
        run.parent = None
        parent.last_use = max(parent.last_use, run.last_use)
        self._file(parent)

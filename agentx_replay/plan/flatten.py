"""Several agents recorded as one list of requests, pulled apart by the prompts they share.

An agent's prompt grows, so a request goes on with the conversation whose whole last prompt it
begins with; one that shares less starts a conversation of its own, and is spliced back later where
it turns out to be the same agent after its context was edited. The rules are those of
agentx-harness 1.0.12. This module says which requests belong together and nothing about when they
are replayed.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from agentx_replay.plan.times import EPSILON_S, Timed, recorded_order
from agentx_replay.traces.model import NO_BLOCK, BlockTrie, RecordedRequest

RESUMED_WITHIN_S = 3600.0
"""What follows a context later than this is another session on the same base prompt…"""

RESUMED_SHARE = 0.5
"""…unless at least this share of the blocks is kept (both: agentx-harness 1.0.12)."""


def split_agents(requests: Sequence[Timed], blocks: BlockTrie) -> list[list[Timed]]:
    """Return the conversations of ``requests``: the main one, then the others by their first
    request.

    Each conversation is in (start, index) order; no request is lost. Block ids are taken as
    chained: the same block is the same prompt up to it. A request without a whole block tells
    nothing of whose it is and stays on the main conversation. No requests make one empty
    conversation.
    """
    ordered = sorted(requests, key=recorded_order)
    telling = [_Prompted(item, _Path.of(item.request, blocks)) for item in ordered]
    telling = [item for item in telling if item.blocks]
    aside = [item for item in ordered if not item.request.block_count]
    if ordered and ordered[0].request.block_count and _starts_with_title_call(telling):
        aside.append(telling.pop(0).timed)
    main, *others = _Splitting.of(telling).conversations() if telling else [[]]
    return [
        sorted(aside + main, key=recorded_order),
        *sorted(others, key=lambda conversation: recorded_order(conversation[0])),
    ]


def keep_overlapping(conversations: Sequence[Sequence[Timed]]) -> list[list[Timed]]:
    """Return ``conversations`` with those that never overlap another in time put into the main one.

    Such a conversation is the same agent after a reset, or a call it waited for, and not a child.
    """
    apart = _overlapping(conversations)
    main = [
        request
        for i, conversation in enumerate(conversations)
        if i not in apart
        for request in conversation
    ]
    others = [list(conversation) for i, conversation in enumerate(conversations) if i in apart]
    return [sorted(main, key=recorded_order), *others]


def _overlapping(conversations: Sequence[Sequence[Timed]]) -> set[int]:
    """Return the conversations, main aside, of which a request overlaps one of another
    conversation.
    """
    owned = sorted(
        ((request, i) for i, conversation in enumerate(conversations) for request in conversation),
        key=lambda item: recorded_order(item[0]),
    )
    running: list[tuple[float, int]] = []
    found: set[int] = set()
    for request, own in owned:
        running = [(end_s, i) for end_s, i in running if end_s > request.start_s]
        others = {i for _, i in running if i != own}
        if others:
            found |= others | {own}
        running.append((request.end_s, own))
    return found - {0}


class _Path(NamedTuple):
    """A prompt as runs of consecutive blocks: run i is ``heads[i] … lasts[i]``, and
    ``before[i]`` blocks precede it.
    """

    heads: tuple[int, ...]
    lasts: tuple[int, ...]
    before: tuple[int, ...]

    @classmethod
    def of(cls, request: RecordedRequest, blocks: BlockTrie) -> "_Path":
        runs: list[tuple[int, int, int]] = []
        block, count = request.tip_block, request.block_count
        while block != NO_BLOCK:
            head = int(blocks.run_first[block])
            count -= block - head + 1
            runs.append((head, block, count))
            block = int(blocks.parent[head])
        runs.reverse()
        heads, lasts, before = zip(*runs, strict=True) if runs else ((), (), ())
        return cls(heads, lasts, before)

    def shared_blocks(self, other: "_Path") -> int:
        """Return how many leading blocks the two prompts share.

        Prompts that meet in a run have all before it in common, so the last common run is found
        by bisection.
        """
        runs = range(min(len(self.heads), len(other.heads)))
        common = bisect_left(runs, True, key=lambda run: self.heads[run] != other.heads[run])
        if not common:
            return 0
        run = common - 1
        return self.before[run] + min(self.lasts[run], other.lasts[run]) - self.heads[run] + 1


class _Prompted(NamedTuple):
    """A request that has at least one whole block, and its path."""

    timed: Timed
    path: _Path

    @property
    def key(self) -> int:
        return self.timed.request.index

    @property
    def blocks(self) -> int:
        return self.timed.request.block_count


def _starts_with_title_call(ordered: Sequence[_Prompted]) -> bool:
    """Whether the first request is a call aside (it names the session) that founds no conversation.

    It is where it has no first block in common with any other request. Officially one with a
    long answer must have no block at all in common; with chained ids that is the same.
    """
    heads = [item.path.heads[0] for item in ordered]
    return len(heads) > 1 and heads[0] not in heads[1:]


@dataclass(slots=True, eq=False)
class _Chain:
    """One agent's requests so far. Its first prompt shares ``shared`` blocks with the tail of the
    chain it forked from.
    """

    number: int
    items: list[_Prompted]
    shared: int = 0
    spliced: bool = False

    @property
    def first(self) -> _Prompted:
        return self.items[0]

    @property
    def tail(self) -> _Prompted:
        return self.items[-1]


@dataclass(slots=True)
class _Splitting:
    """The chains found so far, with each request's ``owner`` and the ``forks`` that left a tail,
    both by request index.
    """

    chains: list[_Chain] = field(default_factory=list)
    owner: dict[int, _Chain] = field(default_factory=dict)
    forks: dict[int, list[_Chain]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, ordered: Sequence[_Prompted]) -> "_Splitting":
        splitting = cls()
        for item in ordered:
            splitting._place(item)
        splitting._splice_resets()
        return splitting

    def conversations(self) -> list[list[Timed]]:
        return [[item.timed for item in c.items] for c in self.chains if not c.spliced]

    # -- forwards: extend a chain, or fork one ---------------------------------------------------

    def _place(self, item: _Prompted) -> None:
        shared = [chain.tail.path.shared_blocks(item.path) for chain in self.chains]
        chain = self._extended_by(item, shared)
        if chain is None:
            self._fork(item, shared)
            return
        chain.items.append(item)
        self.owner[item.key] = chain

    def _extended_by(self, item: _Prompted, shared: Sequence[int]) -> _Chain | None:
        able = [
            chain
            for chain, common in zip(self.chains, shared, strict=True)
            if common == chain.tail.blocks and _may_follow(chain.tail, item)
        ]
        return max(able, key=lambda chain: chain.tail.blocks, default=None)

    def _fork(self, item: _Prompted, shared: Sequence[int]) -> None:
        left = max(
            (chain for chain in self.chains if shared[chain.number]),
            key=lambda chain: (shared[chain.number], chain.tail.blocks),
            default=None,
        )
        fork = _Chain(len(self.chains), [item], shared[left.number] if left else 0)
        if left is not None:
            self.forks[left.tail.key].append(fork)
        self.chains.append(fork)
        self.owner[item.key] = fork

    # -- afterwards: a fork may be the same agent after a context edit ---------------------------

    def _splice_resets(self) -> None:
        """Give each tail that was never extended the fork that continues it, if one does.

        Tails go in order of index. Forks left over are judged again by the tail so made.
        """
        waiting = sorted(self.forks)
        judged: set[int] = set()
        while waiting:
            index = heappop(waiting)
            if index in judged:
                continue
            judged.add(index)
            tail = self._splice_at(index)
            if tail is not None:
                judged.discard(tail)
                heappush(waiting, tail)

    def _splice_at(self, index: int) -> int | None:
        """Splice at tail ``index``; return the new tail if forks must be judged by it."""
        chain = self.owner[index]
        if chain.tail.key != index:
            return None
        forks = [fork for fork in self.forks[index] if not fork.spliced]
        continuation = _continuation(chain.tail, forks)
        if continuation is None:
            return None
        chain.items.extend(continuation.items)
        continuation.spliced = True
        self.owner.update((item.key, chain) for item in continuation.items)
        return self._leave(chain.tail, [fork for fork in forks if not fork.spliced])

    def _leave(self, tail: _Prompted, forks: Sequence[_Chain]) -> int | None:
        """Let ``forks`` leave ``tail`` instead; return it if there are any.

        They share at least the first block with it, as both do with the tail before.
        """
        for fork in forks:
            fork.shared = tail.path.shared_blocks(fork.first.path)
            self.forks[tail.key].append(fork)
        return tail.key if forks else None


def _may_follow(tail: _Prompted, item: _Prompted) -> bool:
    """Whether one agent can have made both: the same model, and the first had ended."""
    return (
        tail.timed.request.model == item.timed.request.model
        and tail.timed.end_s <= item.timed.start_s + EPSILON_S
    )


def _continuation(tail: _Prompted, forks: Sequence[_Chain]) -> _Chain | None:
    """Return the fork that continues ``tail``: the deepest; of those the earliest, then first."""
    able = [fork for fork in forks if _continues(tail, fork)]
    return max(able, key=lambda f: (f.shared, -f.first.timed.start_s, -f.number), default=None)


def _continues(tail: _Prompted, fork: _Chain) -> bool:
    late = fork.first.timed.start_s - tail.timed.end_s > RESUMED_WITHIN_S
    little = fork.shared / tail.blocks < RESUMED_SHARE
    return _may_follow(tail, fork.first) and not (late and little)

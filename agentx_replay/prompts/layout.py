"""Where the messages of every request of a session begin and end: fixed once, in recorded order.

A layout depends on the recording and on the template's cost alone: not on t*, not on which of two
siblings happens to be sent first, not on what was sent before.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentx_replay.prompts.messages import (
    Message,
    cut_at,
    extend,
    open_conversation,
    sent_tokens,
)
from agentx_replay.prompts.template import TemplateCost
from agentx_replay.traces.model import NO_BLOCK, BlockTrie, RecordedRequest, Session, Subagent


@dataclass(frozen=True, slots=True)
class SystemPrefix:
    """The leading blocks of a first prompt that are its tools and system text.

    They are blocks ``first_block`` to ``first_block + blocks`` (exclusive) of the trie. ``rank``
    counts the earlier ones of equal lengths in the session, which the recording says differ.
    """

    first_block: int
    blocks: int
    tool_tokens: int
    system_tokens: int
    rank: int


@dataclass(frozen=True, slots=True, eq=False)
class RequestLayout:
    """One request's messages, and how its text is found.

    ``last`` is the last message, and through it all. ``tokens`` is what the server should count:
    the recorded input, or the cost of one bare user message where that is more. The path to
    ``tip_block`` has ``path_blocks`` blocks, of which the first ``whole_blocks``, up to
    ``whole_tip``, lie wholly inside the recorded input (some recordings give the last, partial
    block an id as well). Words past the path are private; requests of one conversation with the
    same ``private_seed`` have the same ones. ``follows`` is the earlier request, by its index,
    whose answer comes next where the sharing ends (None: nothing is shared).
    """

    last: Message
    tokens: int
    tip_block: int
    path_blocks: int
    whole_tip: int
    whole_blocks: int
    private_seed: int
    follows: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The messages of a whole session under one template.

    ``requests`` is indexed by ``RecordedRequest.index``. ``depth`` (int32, shape ``(blocks,)``)
    is how many blocks a path that ends at a block has.
    """

    session_id: str
    block_size: int
    blocks: BlockTrie
    depth: NDArray[np.int32]
    requests: tuple[RequestLayout, ...]
    system_prefixes: tuple[SystemPrefix, ...]

    def common_blocks(self, one: int, other: int) -> int:
        """Return how many leading blocks the paths to two blocks (or ``NO_BLOCK``) share."""
        parent, run_first = self.blocks.parent, self.blocks.run_first
        while one != other:
            lower, higher = sorted((one, other))
            # Ancestors have lower numbers: the higher cannot lie on the path to the lower.
            first = int(run_first[higher])
            one, other = lower, (lower if first <= lower else int(parent[first]))
        return 0 if one == NO_BLOCK else int(self.depth[one])

    def blocks_after(self, tip: int, depth: int) -> NDArray[np.int32]:
        """Return the blocks on the path to ``tip`` but for the first ``depth``: at least one."""
        ranges: list[NDArray[np.int32]] = []
        missing = int(self.depth[tip]) - depth
        while missing > 0:
            first = max(int(self.blocks.run_first[tip]), tip - missing + 1)
            ranges.append(np.arange(first, tip + 1, dtype=np.int32))
            missing -= tip + 1 - first
            tip = int(self.blocks.parent[first])
        return np.concatenate(ranges[::-1])


def lay_out(session: Session, cost: TemplateCost) -> Layout:
    history = _History(session, cost)
    for request in sorted(session.requests(), key=lambda request: request.recorded_order):
        history.add(request)
    return history.layout()


def _system_lengths(session: Session) -> dict[int, tuple[int, int]]:
    """Return the recorded tool and system tokens that go with each request, by its index."""
    lengths: dict[int, tuple[int, int]] = {}
    for entry in session.entries:
        requests = entry.requests if isinstance(entry, Subagent) else (entry,)
        owner = entry if isinstance(entry, Subagent) else session
        for request in requests:
            lengths[request.index] = (owner.tool_tokens, owner.system_tokens)
    return lengths


def _whole_blocks(request: RecordedRequest, block_size: int) -> int:
    return min(request.block_count, request.input_tokens // block_size)


class _History:
    """What the requests so far, in recorded order, have laid down: the state of ``lay_out``."""

    def __init__(self, session: Session, cost: TemplateCost) -> None:
        blocks = len(session.blocks)
        self._session = session
        self._cost = cost
        self._system_lengths = _system_lengths(session)
        self._depth = np.zeros(blocks, np.int32)
        self._introduced_by = np.zeros(blocks, np.int32)
        self._last_holder = np.zeros(blocks, np.int32)
        self._last_ending: dict[int, int] = {}
        self._outputs: dict[int, int] = {}
        self._seeds: dict[tuple[int, int], int] = {}
        self._laid_out: dict[int, RequestLayout] = {}
        self._prefixes: list[SystemPrefix] = []
        self._ranks: dict[tuple[int, int], int] = {}

    def layout(self) -> Layout:
        return Layout(
            session_id=self._session.id,
            block_size=self._session.block_size,
            blocks=self._session.blocks,
            depth=self._depth,
            requests=tuple(self._laid_out[index] for index in sorted(self._laid_out)),
            system_prefixes=tuple(self._prefixes),
        )

    def add(self, request: RecordedRequest) -> None:
        """Lay out the next request in recorded order."""
        last, follows = (
            self._extend(request) if request.known_blocks else (self._open(request), None)
        )
        whole = _whole_blocks(request, self._session.block_size)
        partial_tip = whole < request.block_count
        tip = request.tip_block
        self._laid_out[request.index] = RequestLayout(
            last=last,
            tokens=sent_tokens(last, self._cost),
            tip_block=tip,
            path_blocks=request.block_count,
            whole_tip=int(self._session.blocks.parent[tip]) if partial_tip else tip,
            whole_blocks=whole,
            private_seed=self._private_seed(request, whole),
            follows=follows,
        )
        self._remember(request)

    def _open(self, request: RecordedRequest) -> Message:
        size, cost = self._session.block_size, self._cost
        tool_tokens, system_tokens = self._system_lengths[request.index]
        system_end = (tool_tokens + system_tokens + size // 2) // size * size
        lead = cost.lead(has_system=True)
        overhead = cost.with_system - lead + cost.system + cost.user
        if not lead < system_end <= request.input_tokens - overhead:
            system_end = 0
        shared = min(system_end // size, _whole_blocks(request, size))
        if shared:
            lengths = (tool_tokens, system_tokens)
            rank = self._ranks.get(lengths, 0)
            self._ranks[lengths] = rank + 1
            self._prefixes.append(SystemPrefix(request.first_new_block, shared, *lengths, rank))
        return open_conversation(request.input_tokens, system_end, cost)

    def _extend(self, request: RecordedRequest) -> tuple[Message, int]:
        """Return the messages of a request that shares blocks, and the request it follows."""
        size = self._session.block_size
        cut = request.known_blocks * size
        new = request.known_blocks < request.block_count
        last_kept = (
            int(self._session.blocks.parent[request.first_new_block]) if new else request.tip_block
        )
        donor = self._laid_out[int(self._introduced_by[last_kept])]
        previous = self._last_ending.get(last_kept, int(self._last_holder[last_kept]))
        kept, output = cut_at(donor.last, cut), self._outputs[previous]
        return extend(kept, cut, request.input_tokens, output, self._cost, size), previous

    def _private_seed(self, request: RecordedRequest, whole_blocks: int) -> int:
        """Return the first request with the same path and length: a prompt sent again is the same.

        Where blocks are missing from the recorded list nothing says that two prompts are the
        same, and each has words of its own.
        """
        if whole_blocks < request.input_tokens // self._session.block_size:
            return request.index
        prompt = (request.tip_block, request.input_tokens)
        return self._seeds.setdefault(prompt, request.index)

    def _remember(self, request: RecordedRequest) -> None:
        new = slice(
            request.first_new_block,
            request.first_new_block + request.block_count - request.known_blocks,
        )
        self._depth[new] = np.arange(request.known_blocks + 1, request.block_count + 1)
        self._introduced_by[new] = request.index
        self._outputs[request.index] = request.output_tokens
        self._last_ending[request.tip_block] = request.index
        trie, block = self._session.blocks, request.tip_block
        while block != NO_BLOCK:
            first = int(trie.run_first[block])
            self._last_holder[first : block + 1] = request.index
            block = int(trie.parent[first])

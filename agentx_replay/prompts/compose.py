"""One play's prompts: the identity of every block, and the bytes, made only when asked for.

A composer keeps, per live conversation, the path it sent last and the JSON it rendered last, and
makes no more of the next prompt than what is new. Where messages begin and end is ``layout.py``'s,
which words a block has ``text.py``'s.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from agentx_replay.prompts.keys import LevelKeys, counter_mixes, key64
from agentx_replay.prompts.layout import Layout, RequestLayout
from agentx_replay.prompts.messages import Message, parting
from agentx_replay.prompts.prompt import Answer, Prompt
from agentx_replay.prompts.text import BlockText, Wording
from agentx_replay.traces.model import NO_BLOCK, RecordedRequest

SAME_WORDS = 1 << 62
"""A position after every word: two prompts alike to it are alike to the end."""


@dataclass(frozen=True, slots=True, eq=False)
class _Path:
    """The whole blocks a conversation sent last, of which the first are a shared system prefix."""

    tip: int
    ids: NDArray[np.uint64]
    system_blocks: int


@dataclass(frozen=True, slots=True, eq=False)
class _Rendered:
    """The JSON a conversation rendered last; message d begins at byte ``starts[d]``."""

    laid: RequestLayout | None
    json: bytes
    starts: list[int]

    @property
    def last(self) -> Message | None:
        return None if self.laid is None else self.laid.last

    def end_of(self, messages: int, wording: Wording) -> int:
        """Return the byte at which the first ``messages`` messages (at least one) end."""
        if messages < len(self.starts):
            return self.starts[messages] - len(wording.between)
        return len(self.json) - len(wording.end)


_NOTHING_SENT = _Path(NO_BLOCK, np.empty(0, np.uint64), 0)
_NOTHING_RENDERED = _Rendered(None, b"", [])


class PlayComposer:
    """The prompts of one play: the ``play_number``-th session of ``lane`` under a level's keys.

    A conversation is named by its index in the session's graph; its prompts may be rendered in any
    order, or never.
    """

    def __init__(
        self, layout: Layout, wording: Wording, keys: LevelKeys, *, lane: int, play_number: int
    ) -> None:
        self._layout = layout
        self._play = keys.play(lane, play_number)
        self._key = np.uint64(self._play)
        self._system = {
            prefix.first_block: (
                prefix.blocks,
                keys.system_prefix(
                    layout.session_id, prefix.tool_tokens, prefix.system_tokens, prefix.rank
                ),
            )
            for prefix in layout.system_prefixes
        }
        self._longest_system = max((blocks for blocks, _ in self._system.values()), default=0)
        self._mixes = counter_mixes(len(layout.blocks))
        self._sent = bytearray(len(layout.blocks))
        self._wording = wording
        self._text = BlockText(wording.table, layout.block_size)
        self._paths: dict[int, _Path] = {}
        self._rendered: dict[int, _Rendered] = {}

    def prompt(self, conversation: int, request: RecordedRequest) -> Prompt:
        laid = self._layout.requests[request.index]
        path = self._path(self._paths.get(conversation, _NOTHING_SENT), laid)
        self._paths[conversation] = path
        known = self._send(laid.whole_tip)
        private = laid.tokens // self._layout.block_size - laid.whole_blocks
        ids = path.ids
        if private > 0:
            ids = np.concatenate((ids, self._private_ids(conversation, laid, private)))
        return Prompt(
            tokens=laid.tokens,
            reusable_tokens=known * self._layout.block_size,
            block_ids=ids,
            messages_json=partial(self._messages_json, conversation, laid),
            block_tokens=self._layout.block_size,
            declared_blocks=path.system_blocks,
            declared_tokens=path.system_blocks * self._layout.block_size,
        )

    def compose(self, conversation: int, request: RecordedRequest) -> int:
        """Render the prompt that a conversation sends next; return its bytes."""
        laid = self._layout.requests[request.index]
        rendered = self._render(
            conversation, self._rendered.get(conversation, _NOTHING_RENDERED), laid
        )
        self._rendered[conversation] = rendered
        return len(rendered.json)

    def answered(self, request_index: int, answer: Answer | None) -> None:
        """Do nothing: words stand for answers (``live.py`` says them)."""

    def forget(self, conversation: int) -> None:
        """Release what is held for a conversation that has ended."""
        self._paths.pop(conversation, None)
        self._rendered.pop(conversation, None)

    # -- which blocks ------------------------------------------------------------------------

    def _path(self, before: _Path, laid: RequestLayout) -> _Path:
        kept = self._layout.common_blocks(before.tip, laid.whole_tip)
        if kept < self._longest_system or kept == 0:
            return self._path_anew(laid.whole_tip)
        ids = before.ids[:kept]
        if kept < laid.whole_blocks:
            new = self._mixes[self._layout.blocks_after(laid.whole_tip, kept)] ^ self._key
            ids = np.concatenate((ids, new))
        return _Path(laid.whole_tip, ids, before.system_blocks)

    def _path_anew(self, tip: int) -> _Path:
        blocks = self._layout.blocks.path(tip)
        ids = self._mixes[blocks] ^ self._key
        first = int(blocks[0]) if len(blocks) else NO_BLOCK
        length, key = self._system.get(first, (0, 0))
        # The prefix was introduced at once, so its blocks are numbered from its first on.
        shared = int(np.searchsorted(blocks, first + length))
        ids[:shared] = self._mixes[:shared] ^ np.uint64(key)
        return _Path(tip, ids, shared)

    def _send(self, tip: int) -> int:
        """Mark the path to ``tip`` as sent; return how many of its leading blocks were already."""
        trie, sent, block = self._layout.blocks, self._sent, tip
        while block != NO_BLOCK and not sent[block]:
            first = int(trie.run_first[block])
            unsent = sent.find(0, first, block + 1)
            sent[unsent : block + 1] = b"\1" * (block + 1 - unsent)
            block = unsent - 1 if unsent > first else int(trie.parent[first])
        return 0 if block == NO_BLOCK else int(self._layout.depth[block])

    def _private_ids(
        self, conversation: int, laid: RequestLayout, count: int
    ) -> NDArray[np.uint64]:
        key = key64("private", self._play, conversation, laid.private_seed)
        return counter_mixes(count) ^ np.uint64(key)

    # -- bytes -------------------------------------------------------------------------------

    def _messages_json(self, conversation: int, laid: RequestLayout) -> bytes:
        """Render a prompt out of what its conversation rendered last and what is new."""
        before = self._rendered.get(conversation, _NOTHING_RENDERED)
        if before.laid is laid:
            return before.json
        rendered = self._render(conversation, before, laid)
        if conversation in self._paths:
            self._rendered[conversation] = rendered
        return rendered.json

    def _render(self, conversation: int, before: _Rendered, laid: RequestLayout) -> _Rendered:
        """Join what ``before`` has in common with a prompt and the messages, or parts, it lacks."""
        wording, width = self._wording, self._wording.width
        rest, position = parting(before.last, laid.last, self._alike_words(before, laid))
        whole = laid.last.depth + 1 - len(rest)
        starts = before.starts[:whole]
        kept = before.end_of(whole, wording) if whole else 0
        if rest and position > rest[0].start:
            starts.append(before.starts[whole])
            head, _ = wording.around(rest[0].role, rest[0].place)
            words_at = before.starts[whole] + len(head)
            kept = words_at + width * (position - rest[0].start)
        text = self.words(conversation, laid, position)
        parts: list[bytes | memoryview] = [memoryview(before.json)[:kept]]
        size = kept
        for message in rest:
            head, tail = wording.around(message.role, message.place)
            if len(starts) == message.depth:
                lead = wording.between if message.depth else wording.start
                starts.append(size + len(lead))
                parts += (lead, head)
                size += len(lead) + len(head)
            begin = max(message.start, position)
            words = text[width * (begin - position) : width * (message.end - position)]
            parts += (words, tail)
            size += len(words) + len(tail)
        parts.append(wording.end)
        return _Rendered(laid, b"".join(parts), starts)

    def _alike_words(self, before: _Rendered, laid: RequestLayout) -> int:
        """Return the position before which a conversation's two prompts have the same words."""
        if before.laid is None:
            return 0
        if before.laid.private_seed == laid.private_seed:
            return SAME_WORDS
        shared = self._layout.common_blocks(before.laid.tip_block, laid.tip_block)
        return shared * self._layout.block_size

    def words(self, conversation: int, laid: RequestLayout, position: int) -> memoryview:
        size = self._layout.block_size
        first, end = position // size, -(-laid.last.end // size)
        ids = self._content_ids(conversation, laid, first, end)
        return self._text.of(ids)[self._wording.width * (position - first * size) :]

    def _content_ids(
        self, conversation: int, laid: RequestLayout, first: int, end: int
    ) -> NDArray[np.uint64]:
        in_path = max(laid.path_blocks - first, 0)
        private = end - laid.path_blocks
        parts = []
        if in_path:
            parts.append(self._recorded_ids(laid.tip_block, first)[: end - first])
        if private > 0:
            skipped = max(first - laid.path_blocks, 0)
            parts.append(self._private_ids(conversation, laid, private)[skipped:])
        return np.concatenate(parts) if parts else np.empty(0, np.uint64)

    def _recorded_ids(self, tip: int, first: int) -> NDArray[np.uint64]:
        if first < self._longest_system:
            return self._path_anew(tip).ids[first:]
        return self._mixes[self._layout.blocks_after(tip, first)] ^ self._key

"""Block ids to words, and how words are written in JSON.

Words are drawn by a counter, so any block can be made alone, in any order, on any machine, with
the same result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
from numpy.typing import NDArray

from agentx_replay.prompts.chat_messages import Shape, call_id, chat_message, shape_of
from agentx_replay.prompts.keys import GOLDEN, mix64
from agentx_replay.prompts.template import Role
from agentx_replay.prompts.vocabulary import Vocabulary

_WORDS_PER_MIX = 4
"""A mix has 64 bits and a word takes 16 of them: tables of up to 65,536 words."""

_BLOCKS_AT_ONCE = 256
"""What is drawn for so many blocks (200 KB) stays in a core's cache until it is looked up."""

_SHAPES: Mapping[Shape, tuple[Role, int]] = {
    "system": ("system", -1),
    "user": ("user", 0),
    "assistant": ("assistant", 1),
    "call": ("assistant", 1),
    "result": ("user", 2),
}
"""The first place in a conversation where there is a message of each shape."""
_WORDS = " |"
"""Stands for a message's words, and is in nothing else of it."""
_FIRST_ID = call_id(1).encode()


@dataclass(frozen=True, slots=True, eq=False)
class Wording:
    """How a prompt's words are written in JSON, whatever it is made for.

    ``table`` (uint8, shape ``(K, width)``) has a row a word, all of one width, so a cut at any
    word is a slice. A prompt is ``start``, its messages with ``between`` between them, and
    ``end``; a message is the head of its shape, its words, and the shape's tail. The opening word
    is in the heads or in ``start``; a head that names a call names the first.
    """

    table: NDArray[np.uint8]
    start: bytes
    heads: Mapping[Shape, bytes]
    tails: Mapping[Shape, bytes]
    between: bytes
    end: bytes
    tool_messages: bool = False

    @property
    def width(self) -> int:
        return int(self.table.shape[1])

    def around(self, role: Role, place: int) -> tuple[bytes, bytes]:
        """Return what stands before and behind a message's words, as long for every message of the
        same shape; ``place`` as in ``shape_of``.
        """
        shape = shape_of(role, place, tool_messages=self.tool_messages)
        head = self.heads[shape]
        if shape in ("call", "result"):
            head = head.replace(_FIRST_ID, call_id(place).encode())
        return head, self.tails[shape]


_NOTHING: Mapping[Shape, bytes] = dict.fromkeys(_SHAPES, b"")


def chat_wording(vocabulary: Vocabulary, *, tool_messages: bool = False) -> Wording:
    heads: dict[Shape, bytes] = {}
    tails: dict[Shape, bytes] = {}
    for shape, (role, place) in _SHAPES.items():
        if shape_of(role, place, tool_messages=tool_messages) == shape:
            text = vocabulary.opening + _WORDS
            message = orjson.dumps(chat_message(role, place, text, tool_messages=tool_messages))
            heads[shape], tails[shape] = message.split(_WORDS.encode())
    return Wording(vocabulary.table, b"[", heads, tails, b",", b"]", tool_messages)


def text_wording(vocabulary: Vocabulary) -> Wording:
    start = f'"{vocabulary.opening}'.encode("ascii")
    return Wording(vocabulary.table, start, _NOTHING, _NOTHING, b"", b'"')


def ids_wording(ids: Sequence[int]) -> Wording:
    """Return one list of token ids, the first of ``ids`` its opening, as completions may take it.

    JSON lets numbers be padded with spaces, so ids have one width as words do.
    """
    digits = len(str(max(ids)))
    rows = b"".join(b",%*d" % (digits, number) for number in ids[1:])
    table = np.frombuffer(rows, np.uint8).reshape(len(ids) - 1, digits + 1)
    return Wording(table, b"[%d" % ids[0], _NOTHING, _NOTHING, b"", b"]")


class BlockText:
    """Text of blocks out of one table of words: ``block_tokens`` words a block."""

    __slots__ = ("_block_tokens", "_counters", "_word_count", "_words")

    def __init__(self, table: NDArray[np.uint8], block_tokens: int) -> None:
        # One opaque item a word: numpy copies it whole, five times faster than by bytes.
        self._words = np.ascontiguousarray(table).view(f"V{table.shape[1]}").ravel()
        self._word_count = np.uint32(len(table))
        self._block_tokens = block_tokens
        mixes = -(-block_tokens // _WORDS_PER_MIX)
        self._counters = np.arange(1, mixes + 1, dtype=np.uint64) * GOLDEN

    def of(self, ids: NDArray[np.uint64]) -> memoryview:
        size = self._block_tokens
        words = np.empty(len(ids) * size, self._words.dtype)
        for first in range(0, len(ids), _BLOCKS_AT_ONCE):
            some = ids[first : first + _BLOCKS_AT_ONCE]
            out = words[first * size : (first + len(some)) * size]
            self._words.take(self.word_indices(some).ravel(), mode="clip", out=out)
        # Not ``tobytes``: whoever joins the parts of a prompt copies them anyway.
        return words.view(np.uint8).data

    def word_indices(self, ids: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Return the rows of the vocabulary for blocks ``ids``: shape ``(len(ids), block)``."""
        mixes = mix64(ids[:, np.newaxis] + self._counters)
        draws = mixes.astype("<u8", copy=False).view("<u2")[:, : self._block_tokens]
        # Scaled to [0, K) without a division: words differ by at most one draw in 65,536.
        return (draws.astype(np.uint32) * self._word_count) >> np.uint32(16)

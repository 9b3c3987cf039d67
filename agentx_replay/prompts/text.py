"""Block ids to words, and messages to JSON: the two look-ups a prompt's bytes are made by.

Nothing here knows a recording. Words are drawn by a counter, so any block can be made alone, in
any order, on any machine, with the same result.
"""

import numpy as np
from numpy.typing import NDArray

from agentx_replay.prompts.keys import GOLDEN, mix64
from agentx_replay.prompts.template import Role
from agentx_replay.prompts.vocabulary import WORD_BYTES, Vocabulary

_WORDS_PER_MIX = 4
"""A mix has 64 bits and a word takes 16 of them: tables of up to 65,536 words."""

MESSAGE_TAIL = b'"}'
"""What follows a message's words in its JSON."""


class BlockText:
    """Text of blocks under one vocabulary: ``block_tokens`` words a block."""

    __slots__ = ("_block_tokens", "_counters", "_word_count", "_words")

    def __init__(self, vocabulary: Vocabulary, block_tokens: int) -> None:
        # One opaque 5-byte item a word: numpy copies it whole, five times faster than by bytes.
        self._words = np.ascontiguousarray(vocabulary.table).view(f"V{WORD_BYTES}").ravel()
        self._word_count = np.uint32(len(vocabulary))
        self._block_tokens = block_tokens
        mixes = -(-block_tokens // _WORDS_PER_MIX)
        self._counters = np.arange(1, mixes + 1, dtype=np.uint64) * GOLDEN

    def of(self, ids: NDArray[np.uint64]) -> memoryview:
        """Return the words of the blocks ``ids`` in order, 5 bytes a word."""
        words = self._words.take(self.word_indices(ids).ravel(), mode="clip")
        # Not ``tobytes``: whoever joins the parts of a prompt copies them anyway.
        return words.view(np.uint8).data

    def word_indices(self, ids: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Return the rows of the vocabulary for blocks ``ids``: shape ``(len(ids), block)``."""
        mixes = mix64(ids[:, np.newaxis] + self._counters)
        draws = mixes.astype("<u8", copy=False).view("<u2")[:, : self._block_tokens]
        # Scaled to [0, K) without a division: words differ by at most one draw in 65,536.
        return (draws.astype(np.uint32) * self._word_count) >> np.uint32(16)


def message_head(role: Role, opening: str) -> bytes:
    """Return what comes before a message's words in its JSON, the opening word included."""
    return f'{{"role":"{role}","content":"{opening}'.encode("ascii")

"""What of a prompt was sent before, told from the words themselves and not from the recording.

Every prompt names the content of its whole blocks. A play's ledger keeps the names of what it
sent, so that each request's kept prefix can be put on record and held against the recording's.
It knows neither the recording nor how prompts are made.
"""

from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_NOTHING = np.empty(0, np.uint64)


class Kept(NamedTuple):
    """Leading blocks that any earlier prompt of the play held, and those that the last prompt of
    the same conversation did.
    """

    play_blocks: int
    conversation_blocks: int


class SentBlocks:
    """The blocks one play has sent: about 70 bytes for each distinct one."""

    __slots__ = ("_held", "_last")

    def __init__(self) -> None:
        self._held: set[int] = set()
        self._last: dict[int, NDArray[np.uint64]] = {}

    def send(self, conversation: int, block_ids: NDArray[np.uint64]) -> Kept:
        """Note that ``conversation`` sends a prompt with these blocks; return what it keeps.

        A block's name stands for its whole prefix within a play, so what is held of a prompt is
        a prefix of it and its end is found by bisection.
        """
        held = self._held
        kept = bisect_left(
            range(len(block_ids)), True, key=lambda place: int(block_ids[place]) not in held
        )
        held.update(block_ids[kept:].tolist())
        before = self._last.get(conversation, _NOTHING)
        self._last[conversation] = block_ids
        return Kept(kept, common_blocks(before, block_ids))


def common_blocks(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> int:
    """Return how many leading blocks two prompts have in common."""
    length = min(len(one), len(other))
    differs = one[:length] != other[:length]
    return int(differs.argmax()) if differs.any() else length

"""Keys: the 64-bit numbers that decide which words a block has, and so who shares text with whom.

Two plays share a cached prefix only where they share a key. Keys come from a cryptographic hash
of what must tell them apart; block contents come from a fast mix of a key and a counter, the same
on every machine. This module makes no text.
"""

import json
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Literal

import numpy as np
from numpy.typing import NDArray

# Sebastiano Vigna's public-domain splitmix64: the golden-ratio increment and its finalizer.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble uint64 values in place and return them: splitmix64's finalizer, a bijection."""
    values ^= values >> np.uint64(30)
    values *= _FIRST
    values ^= values >> np.uint64(27)
    values *= _SECOND
    values ^= values >> np.uint64(31)
    return values


@cache
def _counter_mixes(bits: int) -> NDArray[np.uint64]:
    mixes = mix64(np.arange(1, (1 << bits) + 1, dtype=np.uint64) * GOLDEN)
    mixes.flags.writeable = False
    return mixes


def counter_mixes(count: int) -> NDArray[np.uint64]:
    """Return the first ``count`` outputs of splitmix64 from seed 0: all different, read-only.

    They are the same for every session, so they are held once, rounded up to a power of two.
    """
    return _counter_mixes(max(count - 1, 0).bit_length())[:count]


def key64(*parts: str | int) -> int:
    """Hash ``parts`` to a key in [0, 2**64); JSON keeps ("ab", "c") and ("a", "bc") apart."""
    text = json.dumps(parts, separators=(",", ":")).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True)
class LevelKeys:
    """The keys of one concurrency level of one run, or of one of its starts.

    ``run_salt`` is the run's own; ``attempt`` tells apart attempts at the level, since a
    server may still hold what an earlier attempt at the level sent; ``start`` counts from 1 how
    often it is measured, for the same reason. ``shared_prefix`` says among whom a recorded system
    prefix is shared: plays of the same ``session``, or the whole ``corpus`` wherever the recorded
    tool and system lengths agree.
    """

    run_salt: str
    level: int
    attempt: int
    shared_prefix: Literal["session", "corpus"] = "session"
    start: int = 1

    def play(self, lane: int, play_number: int) -> int:
        """Return the key of every block of a play past its shared system prefix."""
        return key64("play", *self._point, lane, play_number)

    def system_prefix(
        self, session_id: str, tool_tokens: int, system_tokens: int, rank: int
    ) -> int:
        """Return the key of a system prefix.

        ``rank`` tells apart the prefixes of equal lengths that one session recorded as different.
        """
        sharers = session_id if self.shared_prefix == "session" else ""
        return key64("system", *self._point, sharers, tool_tokens, system_tokens, rank)

    @property
    def _point(self) -> tuple[str | int, ...]:
        """What tells this point from every other: the first start's words are those of a level
        that is measured once.
        """
        point = (self.run_salt, self.level, self.attempt)
        return point if self.start == 1 else (*point, "start", self.start)

"""Equal values counted together, as they come: what takes the place of holding all of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Seen = tuple[Floats, Floats]
"""Different values, rising, and the weight of each."""

MERGE_VALUES = 1 << 18


class Sums:
    """The weight of each different value so far: 16 bytes a value, and as many again, or
    ``MERGE_VALUES``, that wait to be merged.
    """

    __slots__ = ("_seen", "_waiting", "_waiting_values")

    def __init__(self) -> None:
        self._seen: Seen = (np.empty(0), np.empty(0))
        self._waiting: list[Seen] = []
        self._waiting_values = 0

    def add(self, values: Floats, weights: Floats | None = None) -> None:
        """Count ``values``, of shape ``(n,)``, each as often as its weight says (None: once)."""
        fresh = summed(values, weights)
        self._waiting.append(fresh)
        self._waiting_values += len(fresh[0])
        if self._waiting_values >= max(len(self._seen[0]), MERGE_VALUES):
            self.seen()

    @property
    def held_values(self) -> int:
        """How many values and weights are held, merged or waiting: 16 bytes each."""
        return len(self._seen[0]) + self._waiting_values

    @property
    def merged_values(self) -> int:
        """How many different values there are, without those that wait."""
        return len(self._seen[0])

    def seen(self) -> Seen:
        if self._waiting:
            values, weights = zip(self._seen, *self._waiting, strict=True)
            self._waiting, self._waiting_values = [], 0
            self._seen = summed(np.concatenate(values), np.concatenate(weights))
        return self._seen


def begins(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where a run of equal values begins: each that differs from the one before it."""
    differs = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs


def summed(values: Floats, weights: Floats | None = None) -> Seen:
    """Return the different values and the sum of the weights of each (None: how often it is)."""
    if weights is None or (weights == 1.0).all():
        ordered = np.sort(values)
        starts = np.flatnonzero(begins(ordered))
        return ordered[starts], np.diff(starts, append=len(ordered)).astype(np.float64)
    order = np.argsort(values)
    ordered = values[order]
    starts = np.flatnonzero(begins(ordered))
    return ordered[starts], np.add.reduceat(weights[order], starts)

"""Percentiles: one rule, linear interpolation between the closest ranks.

The p-th percentile of n sorted values stands at rank p·(n−1), counted from 0; between two ranks it
is interpolated (Hyndman and Fan's type 7, numpy's default). A value of weight w counts as w equal
values in a row, which also gives fractional weights a meaning. What is too much to be held is
tallied: how often each value was seen says as much as all of them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentx_replay.results.sums import Sums
from agentx_replay.units import NS_PER_S

_SHARES = (0.5, 0.9, 0.95, 0.99)
MOST_VALUES = 1 << 20
"""Different values that a tally holds exactly."""
COARSE_BITS = 17
_FINEST = 4.0
_STEPS = 96


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of durations in seconds; ``count`` observations."""

    count: int
    mean_s: float
    p50_s: float
    p90_s: float
    p95_s: float
    p99_s: float
    max_s: float


def percentiles(
    values: NDArray[np.float64],
    shares: tuple[float, ...],
    weights: NDArray[np.float64] | None = None,
) -> list[float]:
    """Return the percentiles of ``values`` (shape ``(n,)``, n > 0) at ``shares`` in [0, 1]."""
    if weights is None:
        return [float(p) for p in np.quantile(values, shares)]
    order = np.argsort(values, kind="stable")
    ordered, upto = values[order], np.cumsum(weights[order])
    return [_at_rank(ordered, upto, share * max(upto[-1] - 1.0, 0.0)) for share in shares]


def _at_rank(ordered: NDArray[np.float64], upto: NDArray[np.float64], rank: float) -> float:
    below = np.floor(rank)
    last = len(ordered) - 1
    low, high = np.minimum(np.searchsorted(upto, [below, below + 1], side="right"), last)
    return float(ordered[low] + (rank - below) * (ordered[high] - ordered[low]))


def distribution(
    values_ns: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> Distribution | None:
    total = len(values_ns) if weights is None else float(np.sum(weights))
    if not total:
        return None
    p50, p90, p95, p99 = percentiles(values_ns, _SHARES, weights)
    return Distribution(
        count=round(total),
        mean_s=float(np.average(values_ns, weights=weights)) / NS_PER_S,
        p50_s=p50 / NS_PER_S,
        p90_s=p90 / NS_PER_S,
        p95_s=p95 / NS_PER_S,
        p99_s=p99 / NS_PER_S,
        max_s=float(np.max(values_ns)) / NS_PER_S,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """A distribution as a curve: ``values_s`` at ``shares``, both rising, of shape ``(n,)``."""

    shares: NDArray[np.float64]
    values_s: NDArray[np.float64]


def spread(
    values_ns: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> Spread | None:
    """Return the curve of a distribution, evenly spaced in the logarithm of the share above.

    It ends at the share that a single observation makes, 1 − 1/n, and at 0.9999 at the latest.
    """
    if not len(values_ns):
        return None
    total = len(values_ns) if weights is None else float(weights.sum())
    finest = min(_FINEST, float(np.log10(max(total, 2.0))))
    shares = 1.0 - 10.0 ** -np.linspace(0.0, finest, _STEPS)
    values = np.array(percentiles(values_ns, tuple(shares.tolist()), weights))
    return Spread(shares, values / NS_PER_S)


class Tally:
    """How often each duration was seen, in bounded memory.

    Exact up to ``MOST_VALUES`` different values (``Sums``: 16 bytes each). Beyond, every value is
    rounded to ``COARSE_BITS`` leading bits: by 1 part in 131,072 at most, which leaves 65,536
    different ones from each power of two to the next.
    """

    __slots__ = ("_is_coarse", "_sums")

    def __init__(self) -> None:
        self._sums = Sums()
        self._is_coarse = False

    def add(self, values: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> None:
        """Count ``values``, each as often as its weight says (None: once)."""
        self._sums.add(_coarse(values) if self._is_coarse else values, weights)
        if not self._is_coarse and self._sums.merged_values > MOST_VALUES:
            self._is_coarse = True
            fine, self._sums = self._sums, Sums()
            seen, times = fine.seen()
            self._sums.add(_coarse(seen), times)

    def seen(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._sums.seen()


def _coarse(values: NDArray[np.float64]) -> NDArray[np.float64]:
    leading, exponent = np.frexp(values)
    rounded = np.rint(np.ldexp(leading, COARSE_BITS))
    coarse: NDArray[np.float64] = np.ldexp(rounded, exponent - COARSE_BITS)
    return coarse

"""Intervals over starts: Student's t of logarithms for a value, Welch's for a ratio.

Lanes share one engine, so what moves them all in one run (a burst of long prefills, say) stays in
every resampling of its lanes. Only another start shows how far another start would lie, so one
start has no interval.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from statistics import fmean, variance

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
COVERS = "other starting points and sessions of this corpus, same running server"
"""What an interval over starts covers, in the words that stand everywhere."""
ONE_START = "1 start"
"""Why there is no interval."""
MEASURED_SPREADS = (0.04, 0.14)
"""Between which starts of real sessions spread in the engine model: the least and the greatest
standard deviation of a logarithm, of speeds and throughputs (benchmarks/results/coverage.json).
"""
MOST_NEEDED = 100
"""More starts than this are not proposed."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval."""

    low: float
    high: float

    def times(self, factor: float) -> "Interval":
        return Interval(self.low * factor, self.high * factor)

    @property
    def excludes_one(self) -> bool:
        return self.low > 1.0 or self.high < 1.0


def mean_of_starts(values: Sequence[float]) -> float:
    """Return the geometric mean of values from 0 on; of one value the value itself, to the last
    bit.
    """
    if len(values) == 1:
        return values[0]
    return math.exp(fmean(map(math.log, values))) if min(values) > 0 else 0.0


def interval_of(values: Sequence[float]) -> Interval | None:
    if len(values) < 2:
        return None
    logs = [math.log(value) for value in values]
    return _interval(fmean(logs), variance(logs) / len(logs), len(logs) - 1)


def ratio_interval(first: Sequence[float], other: Sequence[float]) -> Interval | None:
    """Return Welch's interval of the ratio of two means; None if either has one start.

    B. L. Welch, The generalization of "Student's" problem when several different population
    variances are involved, Biometrika 34 (1947), with Satterthwaite's degrees of freedom.
    """
    if min(len(first), len(other)) < 2:
        return None
    a, b = ([math.log(value) for value in values] for values in (first, other))
    squares = [variance(logs) / len(logs) for logs in (a, b)]
    return _interval(fmean(a) - fmean(b), sum(squares), _degrees(squares, (len(a), len(b))))


def paired_interval(first: Sequence[float], other: Sequence[float]) -> Interval | None:
    return interval_of([a / b for a, b in zip(first, other, strict=True)])


def _degrees(squares: Sequence[float], counts: Sequence[int]) -> float:
    """Return Satterthwaite's degrees of freedom; ``squares`` are squared standard errors."""
    if not any(squares):
        return min(counts) - 1.0
    parts = [square**2 / (n - 1) for square, n in zip(squares, counts, strict=True)]
    return float(sum(squares) ** 2 / sum(parts))


def _interval(mean_log: float, squared_error: float, degrees: float) -> Interval:
    half = t_quantile(degrees) * math.sqrt(squared_error)
    return Interval(math.exp(mean_log - half), math.exp(mean_log + half))


def spread(values: Sequence[float]) -> float:
    return math.sqrt(variance([math.log(value) for value in values]))


def half_width(spread_of_one: float, starts: int) -> float:
    """Return the relative half-width of a ratio of two systems of equal spread, ``starts`` (two or
    more) of each: 0.12 for ± 12 %.
    """
    return math.sinh(t_quantile(2.0 * starts - 2.0) * spread_of_one * math.sqrt(2.0 / starts))


def starts_needed(ratio: float, spreads: tuple[float, float]) -> int | None:
    """Return how many starts a side would name a winner, were the ratio and the spreads of single
    starts as seen; None above ``MOST_NEEDED``.
    """
    squares = [each**2 for each in spreads]
    for starts in range(2, MOST_NEEDED + 1):
        errors = [square / starts for square in squares]
        half = t_quantile(_degrees(errors, (starts, starts))) * math.sqrt(sum(errors))
        if abs(math.log(ratio)) > half:
            return starts
    return None


@lru_cache(maxsize=1024)
def t_quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Return Student's t of which the share ``confidence`` lies between -t and t, for ``degrees``
    from 1 on.

    With t = √ν·tan θ the share between is ∫ cos^(ν-1) from 0 to θ over the same to π/2
    (Abramowitz and Stegun, 26.7.3 and 26.7.4): integrated by Gauss and Legendre, solved by
    bisection.
    """
    nodes, weights = _gauss_legendre()
    whole = (
        math.sqrt(math.pi) / 2 * math.exp(math.lgamma(degrees / 2) - math.lgamma((degrees + 1) / 2))
    )
    low, high = 0.0, math.pi / 2
    for _ in range(50):
        middle = (low + high) / 2
        at = middle / 2 * (nodes + 1.0)
        share = middle / 2 * float(weights @ np.cos(at) ** (degrees - 1.0)) / whole
        low, high = (middle, high) if share < confidence else (low, middle)
    return math.sqrt(degrees) * math.tan((low + high) / 2)


@cache
def _gauss_legendre() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(64)
    return nodes, weights

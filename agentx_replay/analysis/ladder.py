"""The ladder of levels that runs share, and which of its steps a target speed asks for. Pure."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import exp, log

LADDER = sorted({1, *(2**n for n in range(1, 14)), *(3 * 2**n for n in range(12))})
"""1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, …, 8192: the levels of two systems then meet."""

MARGIN = 1.25
"""How far a level lies from where a target is expected: short probes are that inexact."""


def level_toward(concurrency: int, speed: float, target: float) -> int | None:
    """Return the next level on the way from ``speed`` at ``concurrency`` to a target speed; None at
    the ladder's end. The speed of one agent falls at most as fast as their number rises, so that
    no nearer level can reach it.
    """
    about = concurrency * speed / target
    if speed > target:
        return next((each for each in LADDER if each >= about and each > concurrency), None)
    below = [each for each in LADDER if each < concurrency]
    return max((each for each in below if each <= about), default=min(below, default=None))


def bracketing(speeds: Sequence[tuple[int, float]], targets: Iterable[float]) -> tuple[int, ...]:
    """Return the levels of the ladder, rising, between which the targets are expected to lie, by
    the (concurrency, speed) of at least one probe, rising in concurrency. A target beyond the
    probes adds the nearest probe and the level on the way from there.
    """
    levels: set[int] = set()
    for target in targets:
        pair = next((p for p in pairwise(speeds) if p[0][1] >= target >= p[1][1]), None)
        if pair is None:
            nearest = min(speeds, key=lambda each: abs(each[1] - target))
            levels |= {nearest[0], level_toward(*nearest, target) or nearest[0]}
            continue
        at = _crossing(*pair, target)
        levels.add(max((each for each in LADDER if each * MARGIN <= at), default=1))
        levels.add(min(each for each in LADDER if each >= at * MARGIN))
    return tuple(sorted(levels | {1, 2} if len(levels) < 2 else levels))


def _crossing(fast: tuple[int, float], slow: tuple[int, float], target: float) -> float:
    """Return at how many agents the speed is the target: linear in the logarithms."""
    if fast[1] == slow[1]:
        return float(fast[0])
    share = log(fast[1] / target) / log(fast[1] / slow[1])
    return exp(log(fast[0]) + share * log(slow[0] / fast[0]))

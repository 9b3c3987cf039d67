"""Whether a level that is still being measured clearly fails its objective.

At a quarter, three eighths, half and three quarters of the window, of the responses sent after its
first eighth (the opening burst is no part of what the level settles to): the share that exceeds a
percentile's bound, less Student's t times an error that is robust to lanes, the clusters, must be
over twice what the percentile allows. A part of a window can refute a level and never prove it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentx_replay.analysis.goodput import SentRequests
from agentx_replay.analysis.latency import LATENCIES
from agentx_replay.analysis.objective import Clause, Objective, quantity
from agentx_replay.analysis.responses import Counts, Floats, Mask
from agentx_replay.analysis.starts import t_quantile
from agentx_replay.reason import Reason

STOPPED_EARLY = "stopped-early"
"""The code of the finding on a level that was stopped so."""
LOOKS = (0.25, 0.375, 0.5, 0.75)
"""Shares of the window."""
SKIPPED = 0.125
_MARGIN = 2.0
_LEAST_RESPONSES = 50
_LEAST_LANES = 10
_FALSE_ALARM = 0.01
"""Over all looks of a clause."""


@dataclass(frozen=True, slots=True)
class EarlyRule:
    """Stops a level that fails every one of the ``objectives``."""

    objectives: tuple[Objective, ...]

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """The clauses that a part of a window may refute."""
        clauses = (clause for objective in self.objectives for clause in objective.clauses)
        judged = (each for each in clauses if bounds_responses(each) or each.metric == "failed")
        return tuple(dict.fromkeys(judged))


def bounds_responses(clause: Clause) -> bool:
    """Whether a clause bounds a percentile of responses."""
    return clause.metric in LATENCIES and clause.share is not None


@dataclass(frozen=True, slots=True, eq=False)
class Exceeding:
    """By lane, shape ``(lanes,)``: responses that have a value of a clause, and how many of them
    are beyond its bound; of ``failed`` all requests and those that failed.
    """

    counts: Counts
    beyond: Counts


@dataclass(frozen=True, slots=True, eq=False)
class Tallies:
    """What one process has counted of a level, and how long its window has been open."""

    since_open_s: float
    seen: Mapping[Clause, Exceeding]


@dataclass(frozen=True, slots=True)
class ClearFailure:
    """A clause that a level clearly fails: the share beyond its bound, and the share allowed."""

    clause: Clause
    share: float
    allowed: float

    def reason(self, look: int) -> Reason:
        """Return why a level is stopped at a look, counted from 1."""
        what = (
            "failed share"
            if self.clause.metric == "failed"
            else f"share over {quantity(self.clause.metric, self.clause.bound)}"
        )
        return Reason(
            "stopped-early",
            f"stopped early: fails {self.clause.name} ({what} {self.share:.2f}, at most "
            f"{self.allowed:.2g} allowed, look {look} of {len(LOOKS)})",
        )


def level_fails(rule: EarlyRule, seen: Mapping[Clause, Exceeding]) -> ClearFailure | None:
    """Return a clause that the level fails; None unless it fails one of every objective."""
    tested = {clause: clear_failure_of(clause, of) for clause, of in seen.items()}
    found = [
        next((test for each in objective.clauses if (test := tested.get(each))), None)
        for objective in rule.objectives
    ]
    return found[0] if found and all(found) else None


def clear_failure_of(clause: Clause, of: Exceeding) -> ClearFailure | None:
    """Return that a clause fails, None if that is not clear."""
    counts, beyond = _of_lanes(of)
    lanes, total = len(counts), float(counts.sum())
    if lanes < _LEAST_LANES or total < _LEAST_RESPONSES:
        return None
    share, error = float(beyond.sum()) / total, _error_over_lanes(counts, beyond)
    t = t_quantile(lanes - 1.0, 1.0 - 2.0 * _FALSE_ALARM / len(LOOKS))
    allowed = clause.bound if clause.share is None else round(1.0 - clause.share, 9)
    clear = share - t * error > _MARGIN * allowed
    return ClearFailure(clause, share, allowed) if clear else None


def _of_lanes(of: Exceeding) -> tuple[Floats, Floats]:
    """Return the counts of the lanes that have any."""
    some = of.counts > 0
    return of.counts[some].astype(float), of.beyond[some].astype(float)


def _error_over_lanes(counts: Floats, beyond: Floats) -> float:
    """Return the standard error of the share beyond, two lanes or more being the clusters."""
    lanes, total = len(counts), float(counts.sum())
    squares = float(((beyond - beyond.sum() / total * counts) ** 2).sum())
    return math.sqrt(lanes / (lanes - 1) * squares) / total


def design_effect(of: Exceeding) -> float | None:
    """Return how many times the variance of the share beyond is what a binomial one of as many
    independent responses would be; None for less than two lanes, or a share of 0 or 1.
    """
    counts, beyond = _of_lanes(of)
    share = float(beyond.sum() / counts.sum()) if len(counts) > 1 else 0.0
    if not 0.0 < share < 1.0:
        return None
    return _error_over_lanes(counts, beyond) ** 2 * float(counts.sum()) / (share * (1.0 - share))


def looks_due(since_open_s: float, window_s: float) -> int:
    """Return how many looks are due by then."""
    return sum(since_open_s >= share * window_s for share in LOOKS)


def exceeding_of(clause: Clause, sent: SentRequests, seen: Mask) -> Exceeding:
    """Count those of the ``seen`` requests that have a value of a clause on responses."""
    values, lanes = sent.latency_s[clause.metric], int(sent.lane.max(initial=0)) + 1
    known = seen & ~np.isnan(values)
    beyond = known & (values > clause.bound)
    counts = (np.bincount(sent.lane[mask], minlength=lanes) for mask in (known, beyond))
    return Exceeding(*counts)


def joint(parts: Sequence[Mapping[Clause, Exceeding]]) -> dict[Clause, Exceeding]:
    """Return the counts of a level from those of its parts, which have other lanes."""
    first, *others = parts
    return {
        clause: Exceeding(
            sum((other[clause].counts for other in others), seen.counts),
            sum((other[clause].beyond for other in others), seen.beyond),
        )
        for clause, seen in first.items()
    }

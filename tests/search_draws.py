"""Searches for the capacity of a system whose levels are known, or measured when asked for."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from agentx_replay.analysis.capacity import Capacity, Outcome, capacity_of
from agentx_replay.analysis.objective import Objective
from agentx_replay.experiment.capacity_search import Seen, Wanted, next_level
from agentx_replay.experiment.levels import SearchRange
from agentx_replay.results.layout import Measurement

Measured = Callable[[int, int], tuple[float, bool]]
"""Of a concurrency and a seed: ln(value / bound), and whether it would be stopped early."""
KEPT = math.log(0.01)
"""The margin of a share of failed or cut requests of 0."""


def outcome(level: Measurement, margin: float) -> Outcome:
    return Outcome(level, (margin, KEPT, KEPT))


def search(
    objective: Objective, measured: Measured, seeds: Sequence[int], within: SearchRange
) -> tuple[Capacity, int]:
    """Return what a search finds whose start s has the s-th seed, and how many levels it takes."""
    seen: dict[Measurement, Seen] = {}
    levels = 0
    while isinstance(wanted := next_level(within, len(seeds), 0.0, seen), Wanted):
        level = wanted.level
        margin, stopped = measured(level.concurrency, seeds[level.start - 1])
        out = outcome(level, margin)
        if wanted.early and stopped:
            out = Outcome(level, (None,) * 3, stopped_early="stopped early")
        seen[level] = Seen((out,), 0.0)
        levels += 1
    return capacity_of([each.outcomes[0] for each in seen.values()], objective), levels


@dataclass(frozen=True, slots=True)
class Drawn:
    """Searches against the truth: intervals that hold it, mean logarithm of estimate over truth
    with its standard error, mean levels a search; ``open`` have no estimate.
    """

    searches: int
    held: int
    open: int
    bias: float
    bias_error: float
    levels: float
    half_width: float


def drawn(
    objective: Objective,
    measured: Measured,
    truth: float,
    seeds: Sequence[int],
    *,
    searches: int,
    starts: int = 3,
    within: SearchRange | None = None,
) -> Drawn:
    """Draw the seeds of each search at random, by a seed of its own, and search."""
    found = []
    for number in range(searches):
        own = random.Random(number).sample(list(seeds), starts)
        found.append(search(objective, measured, own, within or SearchRange()))
    known = [(c.agents, c.interval) for c, _ in found if c.agents is not None]
    errors = [math.log(agents / truth) for agents, _ in known]
    intervals = [interval for _, interval in known if interval is not None]
    halves = sorted(math.log(each.high / each.low) / 2 for each in intervals)
    return Drawn(
        searches=searches,
        held=sum(each.low <= truth <= each.high for each in intervals),
        open=searches - len(known),
        bias=fmean(errors),
        bias_error=stdev(errors) / math.sqrt(len(errors)),
        levels=fmean(levels for _, levels in found),
        half_width=math.expm1(halves[len(halves) // 2]),
    )

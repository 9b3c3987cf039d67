"""Which level a search for the capacity measures next. Pure: equal outcomes, equal answers.

Start 1 is doubled or halved until one level keeps the objective and the next does not, then
narrowed to a ratio of ``NARROW``; each further start measures two levels ``APART`` around that
crossing and goes on outwards while both are on one side. Decisions depend on whether a level keeps
the objective and on nothing else of it, so that a search resumes by reading its levels again,
whichever of them had been stopped early. Not for: the number that comes out
(``analysis/capacity.py``).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agentx_replay.analysis.capacity import Outcome, bracket, outcome_of, start_capacity
from agentx_replay.analysis.early import EarlyRule
from agentx_replay.analysis.objective import Objective, objectives_of
from agentx_replay.analysis.point import Point
from agentx_replay.errors import UsageError
from agentx_replay.experiment.levels import Done, LevelSource, SearchRange
from agentx_replay.experiment.settings import Settings
from agentx_replay.results.layout import Measurement
from agentx_replay.text_format import counted, lasting
from agentx_replay.units import NS_PER_S

NARROW = 1.3
APART = 1.75
"""A third to each side: the crossing of one start lies 4 to 16 % from another's, and a pair that
most of them fall between needs no level beyond it, which would be chosen by what the pair gave.
"""
_MOST_FURTHER = 6
_MOST_RESPONSES_PER_AGENT_S = 1.0
"""An agent and its subagents send fewer: they wait for the model and for their tools."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A level to measure; ``early`` says whether it may be stopped early."""

    level: Measurement
    early: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """A measured level: its outcome by each objective, and the seconds that it took."""

    outcomes: tuple[Outcome, ...]
    took_s: float


Seens = Mapping[Measurement, Seen]


class _Lacking(Exception):  # noqa: N818 - it ends a walk through what is known, and is no error
    """A level that has to be measured before the search can go on."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted


def next_level(within: SearchRange, starts: int, level_s: float, seen: Seens) -> Wanted | Done:
    """Return the level to measure next. Objectives share levels; the one that the first level keeps
    best goes first. ``level_s`` is how long a level takes before one was measured.
    """
    trouble = next((out for each in seen.values() for out in each.outcomes if out.trouble), None)
    if trouble is not None:
        whose = "client limit" if trouble.client else "no answer"
        return Done(f"{whose} at {trouble.measurement} agents: {trouble.trouble}")
    try:
        first = _look(seen, Measurement(within.first), within.early_stop)
        for number in _easiest_first(first):
            _search(number, within, starts, seen)
    except _Lacking as lacking:
        spent_s = sum(each.took_s for each in seen.values())
        next_s = max((each.took_s for each in seen.values()), default=level_s)
        if within.budget_s is not None and spent_s + next_s > within.budget_s:
            return Done(
                f"budget spent: {lasting(spent_s)} measured, and {lacking.wanted.level} agents "
                f"would take {lasting(next_s)} more"
            )
        return lacking.wanted
    return Done()


def _easiest_first(first: Seen) -> list[int]:
    worst = [math.inf if each.worst is None else each.worst for each in first.outcomes]
    return sorted(range(len(worst)), key=lambda number: worst[number])


def _look(seen: Seens, level: Measurement, early: bool) -> Seen:
    """Return a level as measured. Raises ``_Lacking`` for one that is not, or was stopped early and
    is needed whole.
    """
    found = seen.get(level)
    if found is None or (not early and any(out.stopped_early for out in found.outcomes)):
        raise _Lacking(Wanted(level, early and found is None))
    return found


def _search(number: int, within: SearchRange, starts: int, seen: Seens) -> None:
    """Walk through the search for an objective. Raises ``_Lacking``."""

    def look(concurrency: int, start: int, *, early: bool = False) -> Outcome:
        early = early and within.early_stop
        return _look(seen, Measurement(concurrency, start), early).outcomes[number]

    levels = _first_start(within, look)
    crossing = start_capacity(1, levels).crossing
    if crossing is None:
        return
    low = min(max(round(crossing / math.sqrt(APART)), within.low), within.high - 1)
    high = min(max(round(crossing * math.sqrt(APART)), low + 1), within.high)
    for start in range(2, starts + 1):
        _later_start(start, (low, high), within, look)


_Look = Callable[..., Outcome]


def _first_start(within: SearchRange, look: _Look) -> dict[int, Outcome]:
    """Return the levels of start 1, narrowed around the lowest crossing if there is one."""
    levels = {within.first: look(within.first, 1, early=True)}
    while True:
        pair = bracket(levels)
        if pair is None:
            further = _outwards(levels, within, 2.0)
            if further is None:
                return levels
            levels[further] = look(further, 1, early=True)
        elif not _narrow(*pair):
            good, bad = pair
            middle = min(max(round(math.sqrt(good * bad)), good + 1), bad - 1)
            levels[middle] = look(middle, 1, early=not _narrow(good, middle))
        elif levels[pair[1]].stopped_early:
            levels[pair[1]] = look(pair[1], 1)
        else:
            return levels


def _narrow(good: int, bad: int) -> bool:
    return bad / good <= NARROW or bad - good == 1


def _later_start(start: int, pair: tuple[int, int], within: SearchRange, look: _Look) -> None:
    levels = {level: look(level, start) for level in pair}
    for _ in range(_MOST_FURTHER):
        further = None if bracket(levels) else _outwards(levels, within, APART)
        if further is None:
            return
        levels[further] = look(further, start)


def _outwards(levels: Mapping[int, Outcome], within: SearchRange, factor: float) -> int | None:
    """Return the level beyond those measured, on the side where the crossing is; None at the end of
    the range.
    """
    lowest, highest = min(levels), max(levels)
    if not levels[lowest].passes:
        return None if lowest <= within.low else max(math.floor(lowest / factor), within.low)
    if highest >= within.high:
        return None
    return min(max(math.floor(highest * factor), highest + 1), within.high)


# --- for a sweep ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CapacityLevels(LevelSource):
    """The search as a source of a sweep's levels. ``level_s`` is a level's nominal time."""

    objectives: tuple[Objective, ...]
    within: SearchRange
    starts: int
    level_s: float

    def next_level(self, history: Sequence[Point]) -> Measurement | Done:
        wanted = self._wanted(history)
        return wanted if isinstance(wanted, Done) else wanted.level

    def early_rule(self, history: Sequence[Point]) -> EarlyRule | None:
        """Return by what the next level is stopped early; None if it has to be whole."""
        wanted = self._wanted(history)
        if isinstance(wanted, Done) or not wanted.early:
            return None
        return EarlyRule(self.objectives)

    def _wanted(self, history: Sequence[Point]) -> Wanted | Done:
        seen = {point.measurement: self._seen(point) for point in history}
        return next_level(self.within, self.starts, self.level_s, seen)

    def _seen(self, point: Point) -> Seen:
        window = point.facts.window
        took_s = self.level_s if window is None else window.close_ns / NS_PER_S
        return Seen(tuple(outcome_of(point, each) for each in self.objectives), took_s)


def capacity_levels(settings: Settings) -> CapacityLevels | None:
    """Return the search that settings ask for; None if they ask for none. Raises ``UsageError`` for
    a budget shorter than a level, and for a percentile that the first level cannot decide.
    """
    within, scenario = settings.search, settings.scenario
    if within is None:
        return None
    level_s = scenario.primer_lead_s + scenario.window_s
    if within.budget_s is not None and within.budget_s < level_s:
        raise UsageError(
            "budget-shorter-than-level",
            f"--budget is {within.budget_s:g} s, and a level of {scenario.name} takes at least "
            f"{level_s:g} s",
            "give more time, or a scenario with a shorter window",
        )
    objectives = objectives_of(settings.slo)
    most = math.floor(within.first * scenario.window_s * _MOST_RESPONSES_PER_AGENT_S)
    for clause in (clause for objective in objectives for clause in objective.clauses):
        if clause.responses_needed > most:
            raise UsageError(
                "percentile-of-too-few",
                f"{clause.name} takes {clause.responses_needed:,} responses, and "
                f"{counted(within.first, 'agent')} have at most about {most:,} in a window of "
                f"{scenario.window_s:g} s, one a second each",
                "begin with more agents (--from), or give a longer window or a lower percentile",
            )
    return CapacityLevels(objectives, within, settings.starts, level_s)

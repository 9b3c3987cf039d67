"""The most agents a system serves under an objective, read off measured levels.

For each start the worst margin Y of the objective is interpolated linearly in (ln N, Y) between
neighbouring levels, the lower of which keeps it; the *crossing* Y = 0 is the start's capacity. The
run's is the geometric mean over starts. From three on it has Student's interval (``starts.py``);
that of two would be 12.7 standard errors wide to each side. Nothing is extrapolated. Not for: which
level to measure (``experiment/capacity_search.py``).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from agentx_replay.analysis.early import (
    STOPPED_EARLY,
    bounds_responses,
    design_effect,
    exceeding_of,
)
from agentx_replay.analysis.findings import Kind
from agentx_replay.analysis.goodput import SentRequests, margins
from agentx_replay.analysis.objective import Clause, Objective
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.starts import Interval, interval_of, mean_of_starts
from agentx_replay.results.layout import Measurement
from agentx_replay.text_format import counted

_T = TypeVar("_T", int, float)

LEAST_STARTS = 3
"""For an interval."""
WHOLE_AGENTS = 10
"""Below so many, two levels that are one apart say all there is: the answer is a whole number."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a measured level says of an objective.

    ``margins`` are those of its clauses, None if one is not known. ``stopped_early`` says why its
    window was closed before its time: then it fails, and no margin is known. ``trouble`` says why
    nothing can be concluded, and ``client`` that the client is to blame for that.
    ``design_effect`` is that of the worst percentile of responses (``early.py``).
    """

    measurement: Measurement
    margins: tuple[float | None, ...]
    stopped_early: str | None = None
    trouble: str | None = None
    client: bool = False
    design_effect: float | None = None

    @property
    def worst(self) -> float | None:
        """The greatest margin; None if the level was stopped early, or cannot be judged."""
        if self.stopped_early or self.trouble:
            return None
        return max(each for each in self.margins if each is not None)

    @property
    def passes(self) -> bool:
        worst = self.worst
        return worst is not None and worst <= 0.0


def outcome_of(point: Point, objective: Objective) -> Outcome:
    """Judge a level. One that is not valid since requests failed or were cut fails; one that is not
    valid for any other reason is no answer.
    """
    of, conduct = point.measurement, point.facts.conduct
    if conduct.failure_code == STOPPED_EARLY:
        return Outcome(of, (None,) * len(objective.clauses), conduct.failure)
    invalid = "; ".join(point.texts(Kind.INVALID))
    if point.requests is None:
        return Outcome(of, (), trouble=invalid)
    found = tuple(margins(objective, point.requests, point.jobs))
    by_clause = list(zip(objective.clauses, found, strict=True))
    broken = any(
        each is not None and each > 0.0
        for clause, each in by_clause
        if clause.metric in ("failed", "cut")
    )
    client = any(each.blame == "client" for each in point.findings if each.kind is Kind.INVALID)
    if not point.valid and (client or not broken):
        return Outcome(of, found, trouble=invalid, client=client)
    unknown = next((clause for clause, each in by_clause if each is None), None)
    if unknown is not None and not broken:
        return Outcome(of, found, trouble=_not_measured(unknown, point.requests))
    return Outcome(of, found, design_effect=_design_effect(by_clause, point.requests))


def _design_effect(
    by_clause: Sequence[tuple[Clause, float | None]], sent: SentRequests
) -> float | None:
    of = {
        clause: each for clause, each in by_clause if each is not None and bounds_responses(clause)
    }
    worst = max(of, key=of.__getitem__, default=None)
    return None if worst is None else design_effect(exceeding_of(worst, sent, sent.well))


def _not_measured(clause: Clause, sent: SentRequests) -> str:
    too_few = f"{sent.well.sum()} responses, and it takes {clause.responses_needed:,}"
    why = {
        "hit": "the server does not report cached tokens",
        "play": "no play began and ended in the window",
    }
    return f"{clause.name} cannot be measured: {why.get(clause.metric, too_few)}"


# --- one start -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartCapacity:
    """What one start says: its lowest crossing in agents, between ``good``, which keeps the
    objective, and ``bad``. ``crossing`` is None if no level keeps it (``good`` None), all do
    (``bad`` None), or no margin is known at one of the two. ``binding`` is the clause with the
    greatest margin there; ``crossings`` are all of them, by rising concurrency.
    """

    start: int
    crossing: float | None
    good: int | None
    bad: int | None
    crossings: tuple[float, ...] = ()
    binding: int | None = None


def bracket(levels: Mapping[int, Outcome]) -> tuple[int, int] | None:
    """Return the lowest pair of neighbouring levels of which the lower one alone passes."""
    pairs = pairwise(sorted(levels))
    return next(((a, b) for a, b in pairs if levels[a].passes and not levels[b].passes), None)


def start_capacity(start: int, levels: Mapping[int, Outcome]) -> StartCapacity:
    """Return what a start says by its ``levels``, at least one, none in trouble."""
    found, lowest = bracket(levels), min(levels)
    if found is None and levels[lowest].passes:
        return StartCapacity(start, None, good=max(levels), bad=None)
    if found is None:
        return StartCapacity(start, None, good=None, bad=lowest)
    good, bad = found
    crossings = [
        _crossing(levels[a], levels[b])
        for a, b in pairwise(sorted(levels))
        if levels[a].passes != levels[b].passes
    ]
    crossing = _crossing(levels[good], levels[bad])
    binding = None if crossing is None else _binding(levels[good], levels[bad], crossing)
    known = tuple(each for each in crossings if each is not None)
    return StartCapacity(start, crossing, good, bad, known, binding)


def _crossing(a: Outcome, b: Outcome) -> float | None:
    low, high = a.measurement.concurrency, b.measurement.concurrency
    if high - low == 1 and high <= WHOLE_AGENTS:
        return float(low if a.passes else high)
    if a.worst is None or b.worst is None:
        return None
    return _zero(low, a.worst, high, b.worst)


def _zero(low: int, at_low: float, high: int, at_high: float) -> float:
    """Return where a line in (ln N, Y) through two levels, one on each side of 0, crosses 0."""
    return float(low * (high / low) ** (at_low / (at_low - at_high)))


def between_levels(
    agents: float, low: int, at_low: float | None, high: int, at_high: float | None
) -> float | None:
    """Return what is linear in ln N between two levels; None if it is not known at both."""
    if at_low is None or at_high is None:
        return None
    return at_low + math.log(agents / low) / math.log(high / low) * (at_high - at_low)


def _binding(a: Outcome, b: Outcome, crossing: float) -> int:
    low, high = a.measurement.concurrency, b.measurement.concurrency
    at = [
        between_levels(crossing, low, x, high, y) for x, y in zip(a.margins, b.margins, strict=True)
    ]
    if crossing == low or set(at) == {None}:  # what breaks first shows at the upper level alone
        at = list(b.margins)
    known = {number: each for number, each in enumerate(at) if each is not None}
    return max(known, key=known.__getitem__, default=0)


# --- all starts ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClauseReach:
    """A clause at the capacity: its value as a share of its bound, None if it is not known, and
    where start 1 has it at its bound, None if at no level.
    """

    clause: Clause
    share_of_bound: float | None
    reached_at: float | None


@dataclass(frozen=True, slots=True)
class Capacity:
    """The most agents under ``objective``. ``agents`` is None if a start has no crossing.

    ``at_least`` is the least of the levels below the starts' crossings: every start kept it, or a
    greater one. ``below`` is the greatest of those above: every start broke it, or a lesser one.
    Either is None if a start has none. ``binding`` is the clause that breaks first, ``others`` the
    rest, nearest to their bounds first. ``trouble`` says which level could not be judged.
    """

    objective: Objective
    starts: tuple[StartCapacity, ...]
    agents: float | None
    interval: Interval | None
    no_interval: str | None
    at_least: int | None
    below: int | None
    binding: ClauseReach | None
    others: tuple[ClauseReach, ...]
    trouble: Outcome | None
    outcomes: tuple[Outcome, ...]

    @property
    def monotone(self) -> bool:
        return all(len(each.crossings) < 2 for each in self.starts)

    @property
    def values(self) -> list[float]:
        """The crossings of the starts; nothing unless every start has one."""
        return _of_all([each.crossing for each in self.starts])


def capacity_of(outcomes: Sequence[Outcome], objective: Objective) -> Capacity:
    """Return the capacity under an objective, as far as the levels of a run say."""
    by_level = sorted(outcomes, key=lambda each: each.measurement)
    by_start: dict[int, dict[int, Outcome]] = {}
    for each in by_level:
        if each.trouble is None:
            by_start.setdefault(each.measurement.start, {})[each.measurement.concurrency] = each
    starts = tuple(start_capacity(start, of) for start, of in sorted(by_start.items()))
    crossings = _of_all([each.crossing for each in starts])
    interval = interval_of(crossings) if len(crossings) >= LEAST_STARTS else None
    reach = _reach(objective, starts, by_start) if crossings else []
    return Capacity(
        objective=objective,
        starts=starts,
        agents=mean_of_starts(crossings) if crossings else None,
        interval=interval,
        no_interval=counted(len(starts), "start") if crossings and interval is None else None,
        at_least=min(_of_all([each.good for each in starts]), default=None),
        below=max(_of_all([each.bad for each in starts]), default=None),
        binding=reach[0] if reach else None,
        others=tuple(reach[1:]),
        trouble=next((each for each in outcomes if each.trouble), None),
        outcomes=tuple(by_level),
    )


def answered(capacity: Capacity) -> bool:
    """Whether there is a capacity, or a bound on it, and every level could be judged."""
    known = (capacity.agents, capacity.at_least, capacity.below)
    return capacity.trouble is None and any(each is not None for each in known)


def _of_all(values: Sequence[_T | None]) -> list[_T]:
    """Return the values of the starts; nothing unless every start has one."""
    known = [each for each in values if each is not None]
    return known if len(known) == len(values) else []


def _reach(
    objective: Objective,
    starts: Sequence[StartCapacity],
    by_start: Mapping[int, Mapping[int, Outcome]],
) -> list[ClauseReach]:
    """Return every clause, the binding one first, then by how near its bound it is; every start
    has a crossing.
    """
    named = [each.binding for each in starts]
    binding = max(set(named), key=named.count)
    found = []
    for number, clause in enumerate(objective.clauses):
        at = [_share_at(number, each, by_start[each.start]) for each in starts]
        known = [each for each in at if each is not None]
        share = mean_of_starts(known) if known else None
        found.append(ClauseReach(clause, share, _reached_at(number, by_start[starts[0].start])))
    order = sorted(
        range(len(found)), key=lambda n: (n != binding, -(found[n].share_of_bound or 0.0))
    )
    return [found[n] for n in order if n == binding or not found[n].clause.implied]


def _share_at(number: int, start: StartCapacity, levels: Mapping[int, Outcome]) -> float | None:
    """Return a clause's value over its bound at a start's crossing."""
    if start.good is None or start.bad is None or start.crossing is None:
        return None
    low, high = levels[start.good].margins[number], levels[start.bad].margins[number]
    margin = between_levels(start.crossing, start.good, low, start.bad, high)
    return None if margin is None else math.exp(margin)


def _reached_at(number: int, levels: Mapping[int, Outcome]) -> float | None:
    """Return where a clause alone passes its bound."""
    known = [(n, y) for n in sorted(levels) if (y := levels[n].margins[number]) is not None]
    return next(
        (_zero(a, at_a, b, at_b) for (a, at_a), (b, at_b) in pairwise(known) if at_a <= 0 < at_b),
        None,
    )

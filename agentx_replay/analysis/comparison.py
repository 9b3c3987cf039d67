"""Two or more runs against each other: ratios at target speeds, per GPU and per dollar.

The first run is the one that the others are set against: a ratio above 1 is its advantage. Where
two runs played the same plan they draw the same clusters (``bootstrap.py``), so that what the
sessions do to both cancels out of their ratio.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agentx_replay.analysis.bootstrap import (
    MIN_CLUSTERS,
    SEED,
    Counts,
    Interval,
    Replicates,
    draw,
    interval,
    replicate_levels,
    replicates_at,
)
from agentx_replay.analysis.cost import Advantage, advantage
from agentx_replay.analysis.curve import (
    Curve,
    TargetValue,
    curve_from_draws,
    samples_of,
    why_no_interval,
)
from agentx_replay.analysis.mix import MIX_PARTS, MixSummary, largest_gap, pooled, summary
from agentx_replay.analysis.responses import Floats
from agentx_replay.analysis.run import Run
from agentx_replay.analysis.same_work import (
    Fact,
    PlansAgainst,
    common_levels,
    plans_against,
    same_work,
)
from agentx_replay.analysis.sensitivity import DEFINITIONS, Definition, Reading, reading_at
from agentx_replay.errors import UsageError


@dataclass(frozen=True, slots=True)
class Contender:
    """A run in a comparison. ``price`` in dollars per GPU-hour, ``power`` in watts per GPU; None:
    not given.
    """

    name: str
    run: Run
    price: float | None
    power: float | None


@dataclass(frozen=True, slots=True)
class Ratio:
    """The first run against the one named ``over`` at a target.

    ``throughput`` is the ratio of throughput (per GPU where known); None: one did not reach the
    target. ``cost`` holds the ratio of tokens per dollar, None without both prices.
    """

    over: str
    throughput: float | None
    interval: Interval | None
    no_interval: str | None
    cost: Advantage | None

    @property
    def told_apart(self) -> bool:
        """Whether its interval excludes 1, so that one of the two may be called faster."""
        return excludes_one(self.interval)

    @property
    def cost_interval(self) -> Interval | None:
        """The interval of the ratio of tokens per dollar: prices are taken as exact."""
        if self.interval is None or self.cost is None:
            return None
        low, high = self.interval.low, self.interval.high
        factor = self.cost.price_ratio
        return Interval(
            None if low is None else low * factor, None if high is None else high * factor
        )


def excludes_one(found: Interval | None) -> bool:
    """Whether a ratio's interval lies above 1 or below it; False where there is none."""
    if found is None:
        return False
    above = found.low is not None and found.low > 1.0
    return above or (found.high is not None and found.high < 1.0)


@dataclass(frozen=True, slots=True)
class AtOneTarget:
    """Every run at one target, and the first against each of the others."""

    target: float
    values: tuple[TargetValue, ...]
    ratios: tuple[Ratio, ...]


@dataclass(frozen=True, slots=True)
class MixPart:
    """One property of the completed requests: a summary a run, and how far apart the first run's
    distribution and each other's are (``mix.largest_gap``).
    """

    name: str
    summaries: tuple[MixSummary | None, ...]
    gaps: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class SensitivityRow:
    """One definition at one target: a value a run, ``why`` there is none (None where there is),
    and who wins. A winner's ratio to every other run has a 95 % interval that excludes 1; where
    there is no winner ``undecided`` says why. ``untrusted`` names the runs whose client was too
    slow for their values to be believed.
    """

    definition: str
    values: tuple[float | None, ...]
    why: tuple[str | None, ...]
    winner: str | None
    undecided: str | None
    untrusted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Every definition at one target; ``changes`` names those under which another run wins than
    under the headline.
    """

    target: float
    rows: tuple[SensitivityRow, ...]
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The whole comparison. ``per_system`` names the runs without a GPU count, for which all are
    compared as systems; none where throughput is per GPU. ``paired`` says for each run but the
    first whether it draws the same clusters as the first, ``plans`` at which levels the two have
    the same plan; ``mix_levels`` at which concurrencies the mixes are compared.
    """

    contenders: tuple[Contender, ...]
    per_system: tuple[str, ...]
    curves: tuple[Curve, ...]
    targets: tuple[AtOneTarget, ...]
    same_work: tuple[Fact, ...]
    plans: tuple[PlansAgainst, ...]
    paired: tuple[bool, ...]
    mix: tuple[MixPart, ...]
    mix_levels: tuple[int, ...]
    sensitivity: tuple[Sensitivity, ...]

    @property
    def per_gpu(self) -> bool:
        """Whether throughput is per GPU, in which case every run has a GPU count."""
        return not self.per_system

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The runs without a price where others have one: dollars are not compared with them."""
        return _lacking(self.contenders, lambda each: each.price)

    @property
    def did_same_work(self) -> bool:
        """Whether all that decides the work is known to be the same, as far as levels are shared:
        ``at_levels_of_one`` says whether ratios are read off others.
        """
        return all(fact.same for fact in self.same_work)

    @property
    def at_levels_of_one(self) -> tuple[bool, ...]:
        """Whether, for each run but the first, a ratio is read off a level that one of the two
        alone ran; where there is no ratio, whether there is such a level.
        """
        return tuple(
            not self._levels_used(number) <= plans.same
            for number, plans in enumerate(self.plans, 1)
        )

    def _levels_used(self, number: int) -> set[int]:
        """Return the levels that the ratios over this run are read off; all where there is none."""
        reached = [at for at in self.targets if at.ratios[number - 1].throughput is not None]
        values = [at.values[each].at for at in reached for each in (0, number)]
        used = {level for at in values for level in at.between or ()}
        curves = (self.curves[0], self.curves[number])
        return used or {point.concurrency for curve in curves for point in curve.points}


def compare(contenders: Sequence[Contender], targets: Sequence[float]) -> Comparison:
    """Compare two or more runs at target interactivities: per GPU where all have a GPU count,
    else as systems.

    Raises ``UsageError`` where a run has no valid point, or where a price or power per GPU was
    given and a run has no GPU count.
    """
    per_system = _without_gpu_count(contenders)
    if per_system:
        contenders = [replace(each, run=each.run.per_system()) for each in contenders]
    runs = [contender.run for contender in contenders]
    for contender in contenders:
        if not contender.run.curve:
            raise UsageError(
                "run-without-valid-point",
                f"{contender.name} has no valid point to compare",
                f"see why with: agentx-replay report {contender.run.path}",
            )
    plans = [plans_against(runs[0], run) for run in runs[1:]]
    paired = [each.same_where_shared for each in plans]
    draws = _draws(runs, paired)
    curves = [
        curve_from_draws(run, targets, each, SEED + number)
        for number, (run, each) in enumerate(zip(runs, draws, strict=True))
    ]
    at_targets = [_at(contenders, curves, number) for number in range(len(targets))]
    levels = common_levels(runs)
    return Comparison(
        contenders=tuple(contenders),
        per_system=per_system,
        curves=tuple(curves),
        targets=tuple(at_targets),
        same_work=tuple(same_work(runs, plans)),
        plans=tuple(plans),
        paired=tuple(paired),
        mix=tuple(_mix(runs, levels)),
        mix_levels=tuple(levels),
        sensitivity=_sensitivities(contenders, curves, draws, targets),
    )


def _without_gpu_count(contenders: Sequence[Contender]) -> tuple[str, ...]:
    lacking = tuple(each.name for each in contenders if each.run.gpus is None)
    priced = any(each.price is not None or each.power is not None for each in contenders)
    if lacking and priced:
        raise UsageError(
            "gpu-count-missing",
            f"{lacking[0]} has no GPU count, and prices and power are per GPU",
            f"add --gpus {lacking[0]}=N, or leave out --price and --power to compare systems",
        )
    return lacking


def _lacking(
    contenders: Sequence[Contender], number: Callable[[Contender], float | None]
) -> tuple[str, ...]:
    """Return the runs without a number that others have; none where nobody has it."""
    names = tuple(each.name for each in contenders if number(each) is None)
    return names if len(names) < len(contenders) else ()


def _draws(runs: Sequence[Run], paired: Sequence[bool]) -> list[list[Counts]]:
    """Draw clusters for every run: together for those paired with the first, alone for others."""
    together = [runs[0], *(run for run, same in zip(runs[1:], paired, strict=True) if same)]
    shared = iter(draw([s.clusters for run in together for s in samples_of(run)]))
    found = []
    for number, run in enumerate(runs):
        samples = samples_of(run)
        if number == 0 or paired[number - 1]:
            found.append([next(shared) for _ in samples])
        else:
            found.append(draw([s.clusters for s in samples], seed=SEED + number))
    return found


def _at(contenders: Sequence[Contender], curves: Sequence[Curve], number: int) -> AtOneTarget:
    values = [curve.values[number] for curve in curves]
    target = values[0].at.target
    replicates = [curve.replicates_at(target) for curve in curves]
    ratios = [
        _ratio((contenders[0], contenders[k]), (values[0], values[k]), replicates[0], replicates[k])
        for k in range(1, len(contenders))
    ]
    return AtOneTarget(target, tuple(values), tuple(ratios))


def _ratio(
    pair: tuple[Contender, Contender],
    values: tuple[TargetValue, TargetValue],
    first: Floats,
    other: Floats,
) -> Ratio:
    name = pair[1].name
    a, b = values[0].at.throughput, values[1].at.throughput
    if a is None or b is None:
        return Ratio(name, None, None, "not reached", None)
    cost = None
    if pair[0].price is not None and pair[1].price is not None:
        cost = advantage((a, b), (pair[0].price, pair[1].price))
    reason = next((v.no_interval for v in values if v.no_interval is not None), None)
    found = None
    if reason is None:
        found = interval(replicate_ratios(first, other), min(value.clusters for value in values))
    return Ratio(name, a / b, found, reason, cost)


def replicate_ratios(first: Floats, other: Floats) -> Floats:
    """Return the ratio in every replicate; ±∞ where one side alone lies beyond what was measured,
    NaN where both do in ways that may cancel.
    """
    with np.errstate(invalid="ignore"):
        ratios = first / other
    beyond_first, beyond_other = np.isinf(first), np.isinf(other)
    ratios = np.where(beyond_first & ~beyond_other, first, ratios)
    ratios = np.where(beyond_other & ~beyond_first, -other, ratios)
    both = beyond_first & beyond_other
    return np.where(both, np.where(first != other, first, np.nan), ratios)


# --- what they completed -------------------------------------------------------------------------


def _mix(runs: Sequence[Run], levels: Sequence[int]) -> list[MixPart]:
    """Compare the mixes at the common levels; over all levels where there is none."""
    mixes = [
        pooled([e.mix for e in run.evidence if not levels or e.sample.concurrency in levels])
        for run in runs
    ]
    return [
        MixPart(
            part,
            tuple(summary(getattr(mix, part)) for mix in mixes),
            tuple(largest_gap(getattr(mixes[0], part), getattr(mix, part)) for mix in mixes[1:]),
        )
        for part in MIX_PARTS
    ]


# --- sensitivity ---------------------------------------------------------------------------------

FEW_CLUSTERS = f"no interval (fewer than {MIN_CLUSTERS} clusters): no winner named"
HEADLINE_NOT_REACHED = "no interval (the headline is not reached): no winner named"
NOT_TOLD_APART = "not told apart"
UNTRUSTED_ITL = "loop lag over 10 % of the ITL: no winner named"
TOO_FEW_VALUES = "fewer than two runs have a value"


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """One run at one target under one definition: its reading, its replicates of throughput at
    the target in the same units, and clusters by level.
    """

    reading: Reading
    replicates: Floats
    clusters: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Spread:
    """How far a ratio may lie from its value, as factors on it: 0.9 and 1.1 for ± 10 %; None on a
    side without a bound.
    """

    low: float | None
    high: float | None


_Spreads = Callable[[int, int], Spread | str]
"""The spread of the ratio of two runs by their numbers; a sentence where there is none."""


def _sensitivities(
    contenders: Sequence[Contender],
    curves: Sequence[Curve],
    draws: Sequence[Sequence[Counts]],
    targets: Sequence[float],
) -> tuple[Sensitivity, ...]:
    replicates = {
        share: _replicates(contenders, curves, draws, share)
        for share in {each.share for each in DEFINITIONS if each.share is not None}
    }
    return tuple(_sensitivity(contenders, curves, replicates, target) for target in targets)


def _replicates(
    contenders: Sequence[Contender],
    curves: Sequence[Curve],
    draws: Sequence[Sequence[Counts]],
    share: float,
) -> list[tuple[Replicates, ...]]:
    """Return every run's replicates with another percentile of ITL for the headline's."""
    if share == DEFINITIONS[0].share:
        return [curve.replicates for curve in curves]
    return [
        tuple(
            level.whole
            for level in replicate_levels(samples_of(contender.run), each, SEED + number, share)
        )
        for number, (contender, each) in enumerate(zip(contenders, draws, strict=True))
    ]


def _sensitivity(
    contenders: Sequence[Contender],
    curves: Sequence[Curve],
    replicates: Mapping[float, Sequence[tuple[Replicates, ...]]],
    target: float,
) -> Sensitivity:
    names = [contender.name for contender in contenders]

    def spreads_of(readings: Sequence[Reading], share: float) -> _Spreads:
        at = [replicates_at(each, target) for each in replicates[share]]
        sides = [
            _Side(reading, found / (curve.gpus or 1), curve.clusters)
            for reading, found, curve in zip(readings, at, curves, strict=True)
        ]
        return lambda a, b: _spread(sides[a], sides[b])

    headline = _readings(contenders, DEFINITIONS[0], target)
    usual = spreads_of(headline, 0.9)
    rows = []
    for each in DEFINITIONS:
        readings = _readings(contenders, each, target)
        own = usual if each.share is None else spreads_of(readings, each.share)
        values, why = [x.throughput for x in readings], [x.why for x in readings]
        row = sensitivity_row(each.name, names, values, why, own)
        rows.append(_distrusted(row, contenders) if each.speed == "token" else row)
    for unit, what, number in (
        ("per dollar: tokens/$", "price", _per_dollar),
        ("per watt: tokens/s/W", "power", lambda each: each.power),
    ):
        divisors = [number(each) for each in contenders]
        if any(divisors):
            values = [
                None if x.throughput is None or d is None else x.throughput / d
                for x, d in zip(headline, divisors, strict=True)
            ]
            why = [
                f"no {what} given" if d is None else x.why
                for x, d in zip(headline, divisors, strict=True)
            ]
            rows.append(sensitivity_row(unit, names, values, why, usual))
    winner = rows[0].winner
    changes = [row.definition for row in rows[1:] if winner and row.winner not in (None, winner)]
    return Sensitivity(target, tuple(rows), tuple(changes))


def _spread(a: _Side, b: _Side) -> Spread | str:
    """Return how far the ratio of two runs may lie from its value; why not, where either has no
    value or no interval.
    """
    fewest = []
    for side in (a, b):
        at = side.reading.at
        if at is None or at.between is None or not at.throughput:
            return HEADLINE_NOT_REACHED
        if why_no_interval(at, side.clusters) is not None:
            return FEW_CLUSTERS
        fewest.append(min(side.clusters[level] for level in at.between))
    found = interval(replicate_ratios(a.replicates, b.replicates), min(fewest))
    ratio = (a.reading.throughput or 0.0) / (b.reading.throughput or 1.0)
    return Spread(
        None if found.low is None else found.low / ratio,
        None if found.high is None else found.high / ratio,
    )


def sensitivity_row(
    definition: str,
    names: Sequence[str],
    values: Sequence[float | None],
    why: Sequence[str | None],
    spreads: _Spreads,
) -> SensitivityRow:
    """Return a row with its winner: the highest value, where its ratio to every other one, less
    its spread, is above 1.
    """
    winner, undecided = _decide(names, values, spreads)
    return SensitivityRow(definition, tuple(values), tuple(why), winner, undecided)


def _distrusted(row: SensitivityRow, contenders: Sequence[Contender]) -> SensitivityRow:
    """Return a row of token ITL without a winner where a client was too slow to measure it."""
    slow = tuple(
        each.name
        for each in contenders
        if any(point.has("token-itl-untrusted") for point in each.run.points)
    )
    if not slow:
        return row
    undecided = row.undecided if row.winner is None else UNTRUSTED_ITL
    return replace(row, winner=None, undecided=undecided, untrusted=slow)


def _decide(
    names: Sequence[str], values: Sequence[float | None], spreads: _Spreads
) -> tuple[str | None, str | None]:
    known = {number: value for number, value in enumerate(values) if value is not None}
    if len(known) < 2:
        return None, TOO_FEW_VALUES
    best = max(known, key=known.__getitem__)
    for other, value in known.items():
        if other == best:
            continue
        found = spreads(best, other)
        if isinstance(found, str):
            return None, found
        if found.low is None or known[best] * found.low <= value:
            return None, NOT_TOLD_APART
    return names[best], None


def _per_dollar(contender: Contender) -> float | None:
    """Return dollars per GPU-second."""
    return None if contender.price is None else contender.price / 3600


def _readings(
    contenders: Sequence[Contender], definition: Definition, target: float
) -> list[Reading]:
    return [
        reading_at(each.run.variants, definition, target, each.run.gpus or 1) for each in contenders
    ]

"""Two or more runs against each other: ratios at target speeds, per GPU and per dollar.

The first run is the one that the others are set against: a ratio above 1 is its advantage. Its
interval is Welch's over the starts of the two (``starts.py``), or that of the ratios of equal
starts if a person asked for pairs beforehand: pairing by the data would claim too much, and near
saturation it gains nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agentx_replay.analysis.cost import Advantage, advantage
from agentx_replay.analysis.curve import (
    DEFINITIONS,
    NOT_REACHED,
    Curve,
    DefinedValue,
    TargetValue,
    curve_of,
    value_at,
)
from agentx_replay.analysis.run import Run
from agentx_replay.analysis.same_work import (
    Fact,
    PlansAgainst,
    common_levels,
    plans_against,
    same_records,
    same_work,
)
from agentx_replay.analysis.starts import (
    ONE_START,
    Interval,
    paired_interval,
    ratio_interval,
    spread,
    starts_needed,
)
from agentx_replay.analysis.workload import MIX_PARTS, MixSummary, largest_gap, pooled, summary
from agentx_replay.errors import UsageError


@dataclass(frozen=True, slots=True)
class Contender:
    """A run in a comparison. ``price`` in dollars per GPU-hour, ``power`` in watts per GPU; None:
    not given. ``utilisation`` is the share of its GPU-hours, above 0, in which it works.
    """

    name: str
    run: Run
    price: float | None
    power: float | None
    utilisation: float = 1.0

    @property
    def price_used(self) -> float | None:
        """Dollars per GPU-hour in which it works."""
        return self.price and self.price / self.utilisation


@dataclass(frozen=True, slots=True)
class Ratio:
    """The first run against the one named ``over`` at a target.

    ``throughput`` is the ratio of throughput (per GPU where known); None: one did not reach the
    target. ``cost`` holds the ratio of tokens per dollar, None without both prices. ``spreads`` are
    the standard deviations of the logarithm between the starts of the two, None for one start;
    ``starts_needed`` is how many starts a side would name a winner at the ratio and the spreads
    seen, None if no number up to ``starts.MOST_NEEDED`` would, or no spread is known.
    """

    over: str
    throughput: float | None
    interval: Interval | None
    no_interval: str | None
    cost: Advantage | None
    spreads: tuple[float | None, float | None] = (None, None)
    starts_needed: int | None = None

    @property
    def told_apart(self) -> bool:
        return self.interval is not None and self.interval.excludes_one

    @property
    def cost_interval(self) -> Interval | None:
        """The interval of the ratio of tokens per dollar: prices are taken as exact."""
        if self.interval is None or self.cost is None:
            return None
        return self.interval.times(self.cost.price_ratio)


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
    """One definition at one target: the fields of a ``DefinedValue`` for each run, and who wins.

    A winner's ratio to every other run has a 95 % interval that excludes 1; if there is no winner,
    ``undecided`` says why. ``untrusted`` names the runs whose client was too slow.
    """

    definition: str
    values: tuple[float | None, ...]
    why: tuple[str | None, ...]
    sides: tuple[str | None, ...]
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
    compared as systems; none where throughput is per GPU. ``paired`` says whether starts are
    compared in pairs. Only starts that all runs have are compared: ``starts_left_out`` are each
    run's others. For each run but the first ``plans`` says at which levels it has the same
    plans as the first, ``unlike`` by what it is not known to have done the same work,
    ``same_records`` whether it has the first one's own records. ``mix_levels`` are the
    concurrencies at which the mixes are compared.
    """

    contenders: tuple[Contender, ...]
    per_system: tuple[str, ...]
    curves: tuple[Curve, ...]
    targets: tuple[AtOneTarget, ...]
    same_work: tuple[Fact, ...]
    plans: tuple[PlansAgainst, ...]
    unlike: tuple[tuple[Fact, ...], ...]
    paired: bool
    starts_left_out: tuple[tuple[int, ...], ...]
    same_records: tuple[bool, ...]
    mix: tuple[MixPart, ...]
    mix_levels: tuple[int, ...]
    sensitivity: tuple[Sensitivity, ...]

    @property
    def per_gpu(self) -> bool:
        return not self.per_system

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The runs without a price where others have one: dollars are not compared with them."""
        names = tuple(each.name for each in self.contenders if each.price is None)
        return names if len(names) < len(self.contenders) else ()

    @property
    def did_same_work(self) -> bool:
        """Whether all that decides the work is known to be the same, as far as levels are shared:
        ``at_levels_of_one`` says whether ratios are read off others.
        """
        return not any(self.unlike)

    @property
    def without_level(self) -> tuple[Contender, ...]:
        """The runs without a valid level: they have no ratio."""
        return tuple(each for each in self.contenders if not each.run.curve_points)

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
        reached = [at for at in self.targets if at.ratios[number - 1].throughput is not None]
        values = [at.values[each] for at in reached for each in (0, number)]
        used = {level for value in values for level in value.between or ()}
        curves = (self.curves[0], self.curves[number])
        return used or {point.concurrency for curve in curves for point in curve.points}


def compare(
    contenders: Sequence[Contender], targets: Sequence[float], *, paired: bool = False
) -> Comparison:
    """Compare two or more runs at target interactivities: per GPU where all have a GPU count,
    else as systems; with ``paired`` start by start.

    Raises ``UsageError`` if a price or power per GPU was given and a run has no GPU count, and if
    runs to be paired have other starts than the first.
    """
    per_system = _without_gpu_count(contenders)
    if per_system:
        contenders = [replace(each, run=each.run.per_system()) for each in contenders]
    starts = [{point.facts.start for point in each.run.curve_points} for each in contenders]
    measured = [own for own in starts if own] or starts
    common = set.intersection(*measured) or set.union(*measured)
    contenders = [
        replace(each, run=each.run.of_starts(common)) if own else each
        for each, own in zip(contenders, starts, strict=True)
    ]
    runs = [contender.run for contender in contenders]
    plans = [plans_against(runs[0], run) for run in runs[1:]]
    if paired:
        _check_pairs(contenders, plans)
    same = [same_records(runs[0], run) for run in runs[1:]]
    curves = [curve_of(run, targets) for run in runs]
    how = paired_interval if paired else ratio_interval
    levels = common_levels(runs)
    at_targets = [[curve.values[number] for curve in curves] for number in range(len(targets))]
    return Comparison(
        contenders=tuple(contenders),
        per_system=per_system,
        curves=tuple(curves),
        targets=tuple(_at(contenders, values, same, how) for values in at_targets),
        same_work=tuple(same_work(runs, plans)),
        plans=tuple(plans),
        unlike=tuple(
            tuple(fact for fact in same_work([runs[0], run], [plan]) if not fact.same)
            for run, plan in zip(runs[1:], plans, strict=True)
        ),
        paired=paired,
        starts_left_out=tuple(tuple(sorted(own - common)) for own in starts),
        same_records=tuple(same),
        mix=tuple(_mix(runs, levels)),
        mix_levels=tuple(levels),
        sensitivity=tuple(_sensitivity(contenders, values, same, how) for values in at_targets),
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


def _check_pairs(contenders: Sequence[Contender], plans: Sequence[PlansAgainst]) -> None:
    for other, of in zip(contenders[1:], plans, strict=True):
        if not of.same_where_shared:
            raise UsageError(
                "starts-not-paired",
                f"--paired: {other.name} does not have the starts and plans of "
                f"{contenders[0].name}",
                "leave --paired out, or measure the same levels, scenario and --starts in both",
            )


_How = Callable[[Sequence[float], Sequence[float]], Interval | None]
"""What makes the interval of a ratio from the starts of the two sides."""


def _at(
    contenders: Sequence[Contender],
    values: Sequence[TargetValue],
    same: Sequence[bool],
    how: _How,
) -> AtOneTarget:
    ratios = [
        _ratio((contenders[0], contenders[k]), (values[0], values[k]), same[k - 1], how)
        for k in range(1, len(contenders))
    ]
    return AtOneTarget(values[0].target, tuple(values), tuple(ratios))


def _ratio(
    pair: tuple[Contender, Contender],
    values: tuple[TargetValue, TargetValue],
    same: bool,
    how: _How,
) -> Ratio:
    (first, other), (a, b) = pair, (values[0].throughput, values[1].throughput)
    if a is None or b is None:
        return Ratio(other.name, None, None, NOT_REACHED, None)
    ratio, found = a / b, _interval(values, how)
    if same:  # but for rounding
        ratio = (other.run.gpus or 1) / (first.run.gpus or 1)
        b, found = a / ratio, Interval(ratio, ratio)
    cost = None
    if first.price_used is not None and other.price_used is not None:
        cost = advantage((a, b), (first.price_used, other.price_used))
    no_interval = None
    if found is None:
        no_interval = values[0].no_interval or values[1].no_interval or ONE_START
    spreads = (None, None) if same else _spreads(values)
    return Ratio(other.name, ratio, found, no_interval, cost, spreads, _needed(ratio, spreads))


def _interval(values: tuple[TargetValue, TargetValue], how: _How) -> Interval | None:
    """Return the interval of a ratio; None unless every start of both reaches the target."""
    if any(value.missed for value in values):
        return None
    return how(values[0].values, values[1].values)


def _spreads(values: Sequence[TargetValue]) -> tuple[float | None, float | None]:
    first, other = (spread(x.values) if len(x.values) > 1 else None for x in values)
    return first, other


def _needed(ratio: float, spreads: tuple[float | None, float | None]) -> int | None:
    """Return how many starts a side would name a winner; a side of one start is taken to spread as
    the other does.
    """
    known = [each for each in spreads if each is not None]
    return starts_needed(ratio, (known[0], known[-1])) if known else None


# --- what they completed -------------------------------------------------------------------------


def _mix(runs: Sequence[Run], levels: Sequence[int]) -> list[MixPart]:
    mixes = [
        pooled(
            [p.mix for p in run.curve_points if p.mix and (not levels or p.concurrency in levels)]
        )
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

NO_INTERVAL = f"{ONE_START}: no winner named"
HEADLINE_NOT_REACHED = "no interval (the headline is not reached): no winner named"
NOT_TOLD_APART = "not told apart"
UNTRUSTED_ITL = "loop lag over 10 % of the ITL: no winner named"
TOO_FEW_VALUES = "fewer than two runs have a value"


_Spreads = Callable[[int, int], Interval | str]
"""How far the ratio of two runs, by their numbers, may lie from its value, as factors on it: 0.9
and 1.1 for ± 10 %; a sentence if that is not known.
"""


def _sensitivity(
    contenders: Sequence[Contender],
    at_headline: Sequence[TargetValue],
    same: Sequence[bool],
    how: _How,
) -> Sensitivity:
    names = [contender.name for contender in contenders]
    target = at_headline[0].target
    exact = [True, *same]  # the first run and those of its own records

    def spreads(a: int, b: int) -> Interval | str:
        if exact[a] and exact[b]:
            return Interval(1.0, 1.0)
        pair = at_headline[a], at_headline[b]
        if not pair[0].throughput or not pair[1].throughput:
            return HEADLINE_NOT_REACHED
        found = _interval(pair, how)
        if found is None:
            return NO_INTERVAL
        return found.times(pair[1].throughput / pair[0].throughput)

    slow = tuple(
        each.name
        for each in contenders
        if any(point.has("token-itl-untrusted") for point in each.run.points)
    )
    by_definition = {
        definition: [
            value_at(x.run.points, definition, target, x.run.levels_by_start) for x in contenders
        ]
        for definition in DEFINITIONS
    }
    rows = [
        sensitivity_row(each.name, names, found, spreads, slow if each.speed == "token" else ())
        for each, found in by_definition.items()
    ]
    headline = by_definition[DEFINITIONS[0]]
    for unit, what, divisors in (
        (
            "per dollar: tokens/$",
            "price",
            [x.price_used and x.price_used / 3600 for x in contenders],
        ),
        ("per watt: tokens/s/W", "power", [x.power for x in contenders]),
    ):
        if any(divisors):
            found = [
                DefinedValue(None, f"no {what} given")
                if divisor is None
                else replace(each, value=None if each.value is None else each.value / divisor)
                for each, divisor in zip(headline, divisors, strict=True)
            ]
            rows.append(sensitivity_row(unit, names, found, spreads))
    winner = rows[0].winner
    changes = [row.definition for row in rows[1:] if winner and row.winner not in (None, winner)]
    return Sensitivity(target, tuple(rows), tuple(changes))


def sensitivity_row(
    definition: str,
    names: Sequence[str],
    found: Sequence[DefinedValue],
    spreads: _Spreads,
    untrusted: tuple[str, ...] = (),
) -> SensitivityRow:
    """Return a row with its winner: the highest value, if its ratio to every other one, less its
    spread, is above 1, and no client was too slow to measure them (``untrusted``).
    """
    values = tuple(each.value for each in found)
    winner, undecided = _decide(names, values, spreads)
    if untrusted and winner is not None:
        winner, undecided = None, UNTRUSTED_ITL
    why, sides = tuple(each.why for each in found), tuple(each.side for each in found)
    return SensitivityRow(definition, values, why, sides, winner, undecided, untrusted)


def _decide(
    names: Sequence[str], values: Sequence[float | None], spreads: _Spreads
) -> tuple[str | None, str | None]:
    known = {number: value for number, value in enumerate(values) if value is not None}
    if len(known) < 2:
        return None, TOO_FEW_VALUES
    best = max(known, key=known.__getitem__)
    for other in sorted(known.keys() - {best}):
        found = spreads(best, other)
        if isinstance(found, str):
            return None, found
        if known[best] * found.low <= known[other]:
            return None, NOT_TOLD_APART
    return names[best], None

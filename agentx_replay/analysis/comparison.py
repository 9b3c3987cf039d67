"""Two or more runs against each other: ratios at target speeds, per GPU and per dollar.

The first run is the one that the others are set against: a ratio above 1 is its advantage. Where
two runs played the same plan they draw the same clusters (``bootstrap.py``), so that what the
sessions do to both cancels out of their ratio.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentx_replay.analysis.bootstrap import SEED, Counts, Interval, draw, interval
from agentx_replay.analysis.cost import Advantage, advantage
from agentx_replay.analysis.curve import Curve, TargetValue, curve_from_draws, samples_of
from agentx_replay.analysis.mix import MIX_PARTS, MixSummary, largest_gap, pooled, summary
from agentx_replay.analysis.responses import Floats
from agentx_replay.analysis.run import Run
from agentx_replay.analysis.sensitivity import DEFINITIONS, Definition, values_at
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
    def cost_interval(self) -> Interval | None:
        """The interval of the ratio of tokens per dollar: prices are taken as exact."""
        if self.interval is None or self.cost is None:
            return None
        low, high = self.interval.low, self.interval.high
        factor = self.cost.price_ratio
        return Interval(
            None if low is None else low * factor, None if high is None else high * factor
        )


@dataclass(frozen=True, slots=True)
class AtOneTarget:
    """Every run at one target, and the first against each of the others."""

    target: float
    values: tuple[TargetValue, ...]
    ratios: tuple[Ratio, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that decides whether runs did the same work. ``same`` is None where it is not
    known of all.
    """

    name: str
    same: bool | None
    said: tuple[str, ...]


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
    """One definition at one target: a value a run (None: not reached, or nothing to compute it
    from) and who wins, None where fewer than two have a value.
    """

    definition: str
    values: tuple[float | None, ...]
    winner: str | None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Every definition at one target; ``changes`` names those under which another run wins."""

    target: float
    rows: tuple[SensitivityRow, ...]
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The whole comparison. ``paired`` says for each run but the first whether it draws the same
    clusters as the first; ``mix_levels`` at which concurrencies the mixes are compared.
    """

    contenders: tuple[Contender, ...]
    per_gpu: bool
    curves: tuple[Curve, ...]
    targets: tuple[AtOneTarget, ...]
    same_work: tuple[Fact, ...]
    paired: tuple[bool, ...]
    mix: tuple[MixPart, ...]
    mix_levels: tuple[int, ...]
    sensitivity: tuple[Sensitivity, ...]

    @property
    def did_same_work(self) -> bool:
        """Whether all that decides the work is known to be the same."""
        return all(fact.same for fact in self.same_work)


def compare(contenders: Sequence[Contender], targets: Sequence[float]) -> Comparison:
    """Compare two or more runs at target interactivities.

    Raises ``UsageError`` where a run has no valid point, or where throughput can be divided by
    GPUs for some runs only.
    """
    runs = [contender.run for contender in contenders]
    per_gpu = _per_gpu(contenders)
    for contender in contenders:
        if not contender.run.curve:
            raise UsageError(
                f"{contender.name} has no valid point to compare",
                f"see why with: agentx-replay report {contender.run.path}",
            )
    paired = [plays_same_plan(runs[0], run) for run in runs[1:]]
    draws = _draws(runs, paired)
    curves = [curve_from_draws(run, targets, each) for run, each in zip(runs, draws, strict=True)]
    at_targets = [_at(contenders, curves, number) for number in range(len(targets))]
    levels = _common_levels(runs)
    return Comparison(
        contenders=tuple(contenders),
        per_gpu=per_gpu,
        curves=tuple(curves),
        targets=tuple(at_targets),
        same_work=tuple(same_work(contenders)),
        paired=tuple(paired),
        mix=tuple(_mix(runs, levels)),
        mix_levels=tuple(levels),
        sensitivity=tuple(_sensitivity(contenders, target) for target in targets),
    )


def _per_gpu(contenders: Sequence[Contender]) -> bool:
    lacking = [each.name for each in contenders if each.run.gpus is None]
    priced = [each.name for each in contenders if each.price is not None or each.power is not None]
    if lacking and (len(lacking) < len(contenders) or priced):
        raise UsageError(
            f"{lacking[0]} has no GPU count, so nothing can be said per GPU or per dollar",
            f"add --gpus {lacking[0]}=N",
        )
    return not lacking


def plays_same_plan(a: Run, b: Run) -> bool:
    """Whether the runs have equal plan fingerprints at every level they share, and share one."""
    plans = [
        {level.point.concurrency: level.plan_fingerprint for level in r.levels} for r in (a, b)
    ]
    common = plans[0].keys() & plans[1].keys()
    return bool(common) and all(
        plans[0][level] is not None and plans[0][level] == plans[1][level] for level in common
    )


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


# --- the same work? ------------------------------------------------------------------------------


def same_work(contenders: Sequence[Contender]) -> list[Fact]:
    """Return whether the runs replayed the same corpus by the same rules and plans."""
    runs = [contender.run for contender in contenders]
    corpora = [_said(run.sweep, "corpus", "fingerprint") for run in runs]
    scenarios = [_said(run.sweep, "scenario", "fingerprint") for run in runs]
    shared = [_common_levels([runs[0], run]) for run in runs[1:]]
    same_plan: bool | None = all(plays_same_plan(runs[0], run) for run in runs[1:])
    if not all(shared):
        same_plan = None
    plans = tuple(
        "no common concurrency"
        if not levels
        else f"{'same' if plays_same_plan(runs[0], run) else 'different'} at "
        + ", ".join(map(str, levels))
        for run, levels in zip(runs[1:], shared, strict=True)
    )
    return [
        _fact("corpus", corpora),
        _fact("scenario", scenarios),
        Fact("plan", same_plan, plans),
    ]


def _said(document: Mapping[str, object], part: str, key: str) -> str | None:
    inner = document.get(part)
    value = inner.get(key) if isinstance(inner, Mapping) else None
    return None if value is None else str(value)


def _fact(name: str, said: Sequence[str | None]) -> Fact:
    same = None if None in said else len(set(said)) == 1
    return Fact(name, same, tuple(each or "not recorded" for each in said))


def _common_levels(runs: Sequence[Run]) -> list[int]:
    """Return the concurrencies at which every run has a point on its curve."""
    levels = [{point.concurrency for point in run.curve} for run in runs]
    return sorted(set.intersection(*levels))


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


def _sensitivity(contenders: Sequence[Contender], target: float) -> Sensitivity:
    names = [contender.name for contender in contenders]
    headline = DEFINITIONS[0]
    rows = [_row(each.name, names, _values(contenders, each, target)) for each in DEFINITIONS]
    for unit, divisors in (
        ("per dollar: tokens/$", [_per_dollar(each) for each in contenders]),
        ("per watt: tokens/s/W", [each.power for each in contenders]),
    ):
        known = [divisor for divisor in divisors if divisor is not None]
        if len(known) == len(contenders):
            values = _values(contenders, headline, target)
            divided = [None if v is None else v / d for v, d in zip(values, known, strict=True)]
            rows.append(_row(unit, names, divided))
    usual = rows[0].winner
    changes = [row.definition for row in rows[1:] if usual and row.winner not in (None, usual)]
    return Sensitivity(target, tuple(rows), tuple(changes))


def _per_dollar(contender: Contender) -> float | None:
    """Return dollars per GPU-second."""
    return None if contender.price is None else contender.price / 3600


def _values(
    contenders: Sequence[Contender], definition: Definition, target: float
) -> list[float | None]:
    return [
        values_at([e.variants for e in each.run.evidence], definition, target, each.run.gpus or 1)
        for each in contenders
    ]


def _row(definition: str, names: Sequence[str], values: Sequence[float | None]) -> SensitivityRow:
    known = [(value, name) for value, name in zip(values, names, strict=True) if value is not None]
    winner = max(known, key=lambda item: item[0])[1] if len(known) > 1 else None
    return SensitivityRow(definition, tuple(values), winner)

"""A comparison: its sections, its plain values and rows. Its first screen is in
``compare_brief.py``.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from agentx_replay.analysis.comparison import (
    NOT_TOLD_APART,
    UNTRUSTED_ITL,
    AtOneTarget,
    Comparison,
    Contender,
    MixPart,
    Ratio,
    Sensitivity,
    SensitivityRow,
)
from agentx_replay.analysis.cost import dollars_per_million_tokens, tokens_per_dollar
from agentx_replay.analysis.curve import TargetValue
from agentx_replay.analysis.same_work import PlansAgainst, listed
from agentx_replay.analysis.starts import COVERS, MOST_NEEDED, ONE_START, Interval
from agentx_replay.analysis.workload import MixSummary
from agentx_replay.report.cost_section import (
    cost_sections,
    differences_section,
    economies_json,
    found_differences,
    questions_section,
    two_configurations,
)
from agentx_replay.report.numerals import (
    ABSENT,
    NOT_REACHED,
    UNTRUSTED,
    agents,
    between,
    bounds,
    rate,
    speed,
    target_note,
    target_text,
    throughput_unit,
)
from agentx_replay.report.run_sections import (
    comparability_lines,
    curve_json,
    left_out,
    uncertainty,
    warned_at,
)
from agentx_replay.report.system_section import questions_json
from agentx_replay.report.tables import Section


def compare_json(comparison: Comparison, price_source: str | None) -> dict[str, Any]:
    """Return the comparison as plain values."""
    return {
        "runs": [
            {
                "name": each.name,
                "path": str(each.run.path),
                "price_per_gpu_hour": each.price,
                "watts_per_gpu": each.power,
                "utilisation": each.utilisation,
                "system": each.run.system.document(),
                "questions": questions_json(each.run),
                "curve": curve_json(curve),
                "left_out": [of._asdict() | {"why": why} for of, why in left_out(each.run).items()],
                "starts_left_out": starts,
            }
            for each, curve, starts in zip(
                comparison.contenders, comparison.curves, comparison.starts_left_out, strict=True
            )
        ],
        "price_source": price_source,
        "unpriced": comparison.unpriced,
        "per_gpu": comparison.per_gpu,
        "without_gpu_count": comparison.per_system,
        "did_same_work": comparison.did_same_work,
        "unlike": [[fact.name for fact in facts] for facts in comparison.unlike],
        "same_work": [asdict(fact) for fact in comparison.same_work],
        "plans": [
            {name: sorted(levels) for name, levels in asdict(each).items()}
            for each in comparison.plans
        ],
        "at_levels_of_one": comparison.at_levels_of_one,
        "paired": comparison.paired,
        "same_records": comparison.same_records,
        "intervals_cover": COVERS,
        "differences": [asdict(each) for each in found_differences(comparison)],
        "economies": economies_json(comparison),
        "targets": [asdict(at) for at in comparison.targets],
        "mix_levels": comparison.mix_levels,
        "mix": [asdict(part) for part in comparison.mix],
        "sensitivity": [asdict(each) for each in comparison.sensitivity],
    }


def compare_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a row for each target and run, for CSV."""
    return [
        {
            "target": at.target,
            "run": contender.name,
            "throughput": value.throughput,
            "low": value.interval and value.interval.low,
            "high": value.interval and value.interval.high,
            "starts": len(value.values),
            "ratio": ratio and ratio.throughput,
            "ratio_low": ratio and ratio.interval and ratio.interval.low,
            "ratio_high": ratio and ratio.interval and ratio.interval.high,
            "tokens_per_dollar_ratio": ratio and ratio.cost and ratio.cost.ratio,
        }
        for at in comparison.targets
        for contender, value, ratio in zip(
            comparison.contenders, at.values, (None, *at.ratios), strict=True
        )
    ]


def compare_sections(comparison: Comparison, price_source: str | None) -> list[Section]:
    return [
        differences_section(comparison),
        *(_target_section(comparison, at) for at in comparison.targets),
        *cost_sections(comparison, price_source),
        questions_section(comparison),
        _work_section(comparison),
        _mix_section(comparison),
        *(_sensitivity_section(comparison, each) for each in comparison.sensitivity),
    ]


# --- at one target -------------------------------------------------------------------------------


def _target_section(comparison: Comparison, at: AtOneTarget) -> Section:
    kinds = [curve.headline_is for curve in comparison.curves]
    kind = kinds[0] if len(set(kinds)) == 1 else "overall"
    unit = throughput_unit(comparison.curves[0].gpus, kind)
    heads = ("run", f"{unit} [95 %]", "Mtok/$", "$/Mtok")
    rows, notes = [], []
    for contender, value in zip(comparison.contenders, at.values, strict=True):
        rows.append([contender.name, target_text(value), *per_dollar(contender, value)])
        said = [target_note(value), *warned_at(value, contender.run.points)]
        said += two_configurations(contender, value)
        notes.append(f"{contender.name}: {'; '.join(said)}")
    if len(set(kinds)) > 1:
        names = (f"{c.name} {kind}" for c, kind in zip(comparison.contenders, kinds, strict=True))
        notes.append(f"throughputs of two definitions: {', '.join(names)}.")
    if comparison.per_system:
        notes.append(f"per system: no GPU count of {', '.join(comparison.per_system)} (--gpus).")
    first = comparison.contenders[0].name
    for ratio, other, unlike in zip(at.ratios, at.values[1:], comparison.unlike, strict=True):
        notes += [f"{first} / {ratio.over}: not of the same work"] if unlike else []
        notes += [*ratio_lines(first, ratio), *_other_levels(first, ratio, at.values[0], other)]
        notes += _more_starts(first, ratio)
    return Section(f"At {speed(value.target)} tok/s/user", heads=heads, rows=rows, notes=notes)


def per_dollar(contender: Contender, value: TargetValue) -> list[str]:
    """Return million tokens per dollar, and dollars per million tokens."""
    throughput = value.throughput
    if throughput is None or contender.price is None:
        return [ABSENT, ABSENT]
    return [
        rate(tokens_per_dollar(throughput, contender.price, contender.utilisation) / 1e6),
        rate(dollars_per_million_tokens(throughput, contender.price, contender.utilisation)),
    ]


def ratio_lines(first: str, ratio: Ratio) -> list[str]:
    """Return what is said of the first run against another."""
    if ratio.throughput is None:
        return [f"{first} / {ratio.over}: {NOT_REACHED}, so no ratio"]
    lines = [
        f"{first} / {ratio.over}: {ratio.throughput:.3f} in throughput "
        f"({ratio.throughput - 1:+.1%}){_uncertainty(ratio)}"
    ]
    cost = ratio.cost
    if cost is not None:
        said = bounds(ratio.cost_interval, digits=3)
        lines.append(
            f"{first} / {ratio.over}: {cost.ratio:.3f} in tokens per dollar ({cost.ratio - 1:+.1%})"
            f"{said and f' {said}'}{_undecided(ratio.cost_interval)}; "
            f"cost per token {cost.cost_change:+.1%}"
        )
    won = ratio.told_apart and ratio.cost_interval and ratio.cost_interval.excludes_one
    if won and cost and cost.throughput_share is not None and cost.price_share is not None:
        lines.append(
            f"which is throughput {cost.throughput_ratio:.3f} × price {cost.price_ratio:.3f}: of "
            f"the advantage per dollar, {cost.throughput_share:.0%} comes from throughput "
            f"and {cost.price_share:.0%} from price (shares of its logarithm)"
        )
    return lines


def _other_levels(first: str, ratio: Ratio, a: TargetValue, b: TargetValue) -> list[str]:
    """Return that the two were read off other levels, where a ratio was."""
    if a.between is None or b.between is None or a.between == b.between:
        return []
    return [
        f"{first} / {ratio.over}: read off {between(a.between)} of {first} and "
        f"{between(b.between)} of {ratio.over}, so the ratio depends on "
        "the choice of levels, too"
    ]


def _uncertainty(ratio: Ratio) -> str:
    if ratio.no_interval is not None:
        return f"; {ratio.no_interval}: no winner named"
    return f" {bounds(ratio.interval, digits=3)}{_undecided(ratio.interval)}"


def _undecided(found: Interval | None) -> str:
    """Return that an interval does not tell the two apart, where there is one that does not."""
    if found is None or found.excludes_one:
        return ""
    return f", {NOT_TOLD_APART}"


def _more_starts(first: str, ratio: Ratio) -> list[str]:
    """Return how many starts a side would name a winner, if none is named."""
    if ratio.throughput is None or ratio.told_apart or ratio.interval == Interval(1.0, 1.0):
        return []
    pair = f"{first} / {ratio.over}"
    known = [f"{each:.1%}" for each in ratio.spreads if each is not None]
    if not known:
        return [
            f"{pair}: how far starts lie apart is not known from {ONE_START} a side; measure 3 or "
            "more, 5 for a purchase (--resume --starts 5)"
        ]
    seen = f"at this ratio and the spread seen ({' and '.join(known)} a start)"
    if ratio.starts_needed is None:
        return [f"{pair}: {seen} no {MOST_NEEDED} starts a side would name a winner"]
    return [f"{pair}: {seen} about {ratio.starts_needed} starts a side would name a winner"]


# --- the same work? ------------------------------------------------------------------------------


def _work_section(comparison: Comparison) -> Section:
    words = {True: "same", False: "DIFFERENT", None: "not known"}
    facts = [[fact.name, words[fact.same], " / ".join(fact.said)] for fact in comparison.same_work]
    if comparison.did_same_work and any(comparison.at_levels_of_one):
        facts[[fact.name for fact in comparison.same_work].index("plan")][1] = "in part"
    if comparison.did_same_work:
        notes = _same_work_notes(comparison)
    else:
        notes = ["NOT KNOWN TO BE THE SAME WORK: the ratios compare runs, not systems."]
    notes += starts_left_out_lines(comparison)
    names = [each.name for each in comparison.contenders]
    notes += [
        f"{names[0]} and {name} have the SAME RECORDS: this compares a run with itself."
        for name, same in zip(names[1:], comparison.same_records, strict=True)
        if same
    ]
    if comparison.paired:
        notes.append("Intervals of ratios: of the ratios of equal starts (--paired).")
    notes += _validity_notes(comparison)
    return Section(
        "Did they do the same work?",
        heads=("what", "is it the same", "said"),
        rows=facts,
        notes=[*notes, uncertainty(comparison.curves)],
    )


def _same_work_notes(comparison: Comparison) -> list[str]:
    """Return that the runs did the same work, and at which levels, where others count too."""
    if not any(comparison.at_levels_of_one):
        return ["The runs replayed the same work by the same rules."]
    first, *others = (each.name for each in comparison.contenders)
    each_pair = zip(others, comparison.plans, comparison.at_levels_of_one, strict=True)
    return [
        f"{first} and {other} replayed the same work by the same rules"
        f"{_shared_alone(first, other, plans) if of_one else ''}."
        for other, plans, of_one in each_pair
    ]


def starts_left_out_lines(comparison: Comparison) -> list[str]:
    """Return which starts are not compared, since a run lacks them, and the command for those."""
    pairs = list(zip(comparison.contenders, comparison.starts_left_out, strict=True))
    every = {start for _, starts in pairs for start in starts}
    notes = [
        f"{each.name}: {'starts' if len(starts) > 1 else 'start'} {', '.join(map(str, starts))} "
        "left out, which another run lacks"
        for each, starts in pairs
        if starts
    ]
    return notes + [
        f"{each.name} lacks them: agentx-replay sweep --resume --out {each.run.path} "
        f"--starts {max(every)}"
        for each, starts in pairs
        if not every <= {*starts}
    ]


def _shared_alone(first: str, other: str, plans: PlansAgainst) -> str:
    """Return at which levels, and which ones one of the two ran alone."""
    levels = ((first, plans.first_alone), (other, plans.other_alone))
    alone = " and ".join(f"{listed(own)} was run by {name} alone" for name, own in levels if own)
    return f" at {listed(plans.same)} agents, and nowhere else: {alone}"


def _validity_notes(comparison: Comparison) -> list[str]:
    notes = []
    for contender in comparison.contenders:
        points = contender.run.points
        notes += [
            f"{contender.name}: {agents([level])}: left out: {why}."
            for level, why in left_out(contender.run).items()
        ]
        notes += [f"{contender.name}: {line}." for line in comparability_lines(points)]
    return notes


_PART_NAMES = {
    "input_tokens": ("input, tokens", 1.0),
    "output_tokens": ("output, tokens", 1.0),
    "depth_turns": ("depth, turns", 1.0),
    "reuse_share": ("reusable input, %", 100.0),
}


def _mix_section(comparison: Comparison) -> Section:
    names = [each.name for each in comparison.contenders]
    where = (
        f"at {agents(comparison.mix_levels)}"
        if comparison.mix_levels
        else "over all levels: none is common"
    )
    notes = [
        f"Completed requests {where}. The loop is closed, so a faster server completes other "
        "requests. gap: largest difference of the two cumulative distributions."
    ]
    return Section(
        "What they completed",
        heads=("mean/P10/P50/P90", *names, *(f"gap to {name}" for name in names[1:])),
        rows=list(map(_mix_row, comparison.mix)),
        notes=notes,
    )


def _mix_row(part: MixPart) -> list[str]:
    name, scale = _PART_NAMES[part.name]
    gaps = [ABSENT if gap is None else f"{gap:.1%}" for gap in part.gaps]
    return [name, *(_mix_cell(each, scale) for each in part.summaries), *gaps]


def _mix_cell(summary: MixSummary | None, scale: float) -> str:
    if summary is None:
        return ABSENT
    values = (summary.mean, summary.p10, summary.p50, summary.p90)
    return "/".join(_short(value * scale) for value in values)


def _short(value: float) -> str:
    return f"{value / 1000:.1f}k" if value >= 1000 else f"{value:.3g}"


# --- sensitivity ---------------------------------------------------------------------------------


def _sensitivity_section(comparison: Comparison, sensitivity: Sensitivity) -> Section:
    names = [each.name for each in comparison.contenders]
    heading = f"Sensitivity at {speed(sensitivity.target)} tok/s/user"
    if all(value is None for value in sensitivity.rows[0].values):
        return Section(heading, lead=["left out, since no run reaches it"])
    rows = []
    for row in sensitivity.rows:
        values = [
            (UNTRUSTED if name in row.untrusted and value is not None else "") + _value(value, why)
            for name, value, why in zip(names, row.values, row.why, strict=True)
        ]
        ratios = [_value_ratio(row.values[0], other) for other in row.values[1:]]
        rows.append([row.definition, *values, *ratios, _ahead(row)])
    notes = [_change(sensitivity), *_lacking(names, sensitivity)]
    return Section(
        heading,
        heads=("definition", *names, *(f"{names[0]} / {name}" for name in names[1:]), "ahead"),
        rows=rows,
        notes=[*notes, _OWN_INTERVAL],
    )


_OWN_INTERVAL = (
    "ahead: a run is where the 95 % interval of its ratio excludes 1. Every row takes the interval "
    "of the headline, as wide relatively. all faster, all slower: not reached."
)


def _change(sensitivity: Sensitivity) -> str:
    if sensitivity.changes:
        return f"THE WINNER CHANGES under: {'; '.join(sensitivity.changes)}."
    headline = sensitivity.rows[0]
    if headline.winner is None:
        return f"By the headline: {headline.undecided}."
    return "The winner is the same under every definition that names one."


def _lacking(names: Sequence[str], sensitivity: Sensitivity) -> list[str]:
    """Return why a run has nothing to compute a definition from."""
    why = [
        f"{name}: {why}."
        for row in sensitivity.rows
        for name, why in zip(names, row.why, strict=True)
        if why is not None and not why.startswith(NOT_REACHED)
    ]
    return list(dict.fromkeys(why))


def _value(value: float | None, why: str | None) -> str:
    """A value, else on which side of the target all levels are."""
    if value is not None:
        return rate(value)
    side = (why or "").rpartition("every valid level is ")
    return f"all {side[2]}" if side[1] else NOT_REACHED if side[2] else ABSENT


def _ahead(row: SensitivityRow) -> str:
    if row.winner is not None:
        return row.winner
    if row.undecided == NOT_TOLD_APART:
        return NOT_TOLD_APART
    if row.undecided == UNTRUSTED_ITL:
        return "not trusted"
    return ONE_START if sum(value is not None for value in row.values) > 1 else ABSENT


def _value_ratio(first: float | None, other: float | None) -> str:
    return ABSENT if first is None or not other else f"{first / other:.3f}"

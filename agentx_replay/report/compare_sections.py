"""A comparison: its sections, its plain values and rows. Its first screen is in
``compare_brief.py``.
"""

from collections.abc import Iterator, Mapping, Sequence
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
from agentx_replay.analysis.same_work import PLAN, Fact
from agentx_replay.analysis.starts import COVERS, MOST_NEEDED, ONE_START
from agentx_replay.analysis.workload import MixSummary
from agentx_replay.report.cost_section import (
    cost_sections,
    differences_section,
    economies_json,
    found_differences,
    questions_section,
)
from agentx_replay.report.numerals import (
    ABSENT,
    UNTRUSTED,
    agents,
    percent,
    rate,
    ratios,
    reading,
    speed,
    starts_named,
    throughput_unit,
    within,
)
from agentx_replay.report.run_sections import (
    comparability_lines,
    curve_json,
    uncertainty,
)
from agentx_replay.report.system_section import questions_json, several_configurations
from agentx_replay.report.tables import Section
from agentx_replay.report.targets import between, target_note, target_text, warned_at


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
                "left_out": [of._asdict() | {"why": why} for of, why in each.run.left_out.items()],
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

UNLIKE = "*"
"""Stands behind a ratio of runs that are not known to have done the same work."""
RATIO_PER_DOLLAR = "ratio per $"


def _target_section(comparison: Comparison, at: AtOneTarget) -> Section:
    (first, own), *others = zip(comparison.contenders, at.values, strict=True)
    kinds = {curve.headline_is for curve in comparison.curves}
    unit = throughput_unit(comparison.curves[0].gpus, kinds.pop() if len(kinds) == 1 else "overall")
    heads, rows = told_columns(target_rows(comparison, at, unit))
    notes = []
    for each, value in ((first, own), *others):
        told = [*warned_at(value, each.run.points), *several_configurations(each.run, value)]
        notes.append(f"{each.name}: {'; '.join([target_note(value, each.run.points), *told])}")
    for (_, value), ratio in zip(others, at.ratios, strict=True):
        if ratio.throughput is not None:
            said = [
                no_winner(ratio),
                *_spreads(ratio),
                *_split(ratio),
                *_other_levels(first, own, ratio, value),
            ]
            notes += [f"{first.name} / {ratio.over}: {each}" for each in said if each]
    return Section(f"At {speed(at.target)} tok/s/user", heads=heads, rows=rows, notes=notes)


def target_rows(comparison: Comparison, at: AtOneTarget, unit: str) -> list[dict[str, str]]:
    """Return a row a run: its cells by their headings, of throughputs in ``unit``."""
    first, *others = (each.name for each in comparison.contenders)
    over = f"{first} / {others[0] if len(others) == 1 else 'this run'}"
    heads = ("run", f"{unit} [95 %]", f"{over} [95 %]", RATIO_PER_DOLLAR, "Mtok/$", "$/Mtok")
    of_others = zip(at.ratios, comparison.unlike, strict=True)
    ratios_of = [(ABSENT, ABSENT), *(_ratio_cells(*each) for each in of_others)]
    rows = []
    for each, value, of in zip(comparison.contenders, at.values, ratios_of, strict=True):
        cells = (each.name, target_text(value), *of, *_per_dollar(each, value))
        rows.append(dict(zip(heads, cells, strict=True)))
    return rows


def told_columns(rows: Sequence[Mapping[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and cells of rows without the columns of which no cell has a value."""
    heads = [head for head in rows[0] if any(row[head] != ABSENT for row in rows)]
    return heads, [[row[head] for head in heads] for row in rows]


def _ratio_cells(ratio: Ratio, unlike: Sequence[Fact]) -> Iterator[str]:
    """Yield a ratio of throughput, and one per dollar."""
    cost = None if ratio.cost is None else ratio.cost.ratio
    mark = UNLIKE if unlike else ""
    for value, interval in ((ratio.throughput, ratio.interval), (cost, ratio.cost_interval)):
        yield ABSENT if value is None else within(f"{value:.3f}{mark}", interval, 2)


def _per_dollar(contender: Contender, value: TargetValue) -> list[str]:
    """Return million tokens per dollar, and dollars per million tokens."""
    throughput = value.throughput
    if throughput is None or contender.price is None:
        return [ABSENT, ABSENT]
    return [
        rate(tokens_per_dollar(throughput, contender.price, contender.utilisation) / 1e6),
        rate(dollars_per_million_tokens(throughput, contender.price, contender.utilisation)),
    ]


def no_winner(ratio: Ratio) -> str:
    """Return why a ratio names no winner, and how many starts a side would; empty if it does."""
    if ratio.told_apart:
        return ""
    why = f"{ratio.no_interval or NOT_TOLD_APART}, no winner named"
    if not any(each is not None for each in ratio.spreads):
        more = "; measure 3 starts a side, 5 for a purchase (sweep --resume --starts 5 --out DIR)"
        return why + (more if ratio.no_interval else "")  # none: a run against itself
    many = f"about {ratio.starts_needed}" if ratio.starts_needed else f"no {MOST_NEEDED}"
    return f"{why}; {many} starts a side would name one"


def _spreads(ratio: Ratio) -> list[str]:
    known = [f"{each:.1%}" for each in ratio.spreads if each is not None]
    return [f"starts spread by {' and '.join(known)}"] if known else []


def _split(ratio: Ratio) -> list[str]:
    """Return of what an advantage per dollar consists, if it names a winner."""
    cost = ratio.cost
    won = ratio.told_apart and ratio.cost_interval and ratio.cost_interval.excludes_one
    if not won or cost is None or cost.throughput_share is None or cost.price_share is None:
        return []
    return [
        f"throughput {cost.throughput_ratio:.3f} ({cost.throughput_ratio - 1:+.1%}) × price "
        f"{cost.price_ratio:.3f} = {cost.ratio:.3f} per dollar ({cost.ratio - 1:+.1%}), cost per "
        f"token {cost.cost_change:+.1%}: of the advantage, {cost.throughput_share:.0%} comes from "
        f"throughput and {cost.price_share:.0%} from price (shares of its logarithm)"
    ]


def _other_levels(
    first: Contender, own: TargetValue, ratio: Ratio, other: TargetValue
) -> list[str]:
    """Return that the two were read off other levels, where a ratio was."""
    if own.between is None or other.between is None or own.between == other.between:
        return []
    return [
        f"read off {between(own.between)} of {first.name} and {between(other.between)} of "
        f"{ratio.over}, so the ratio depends on the choice of levels, too"
    ]


# --- the same work? ------------------------------------------------------------------------------


def _work_section(comparison: Comparison) -> Section:
    words = {True: "same", False: "DIFFERENT", None: "not known"}
    in_part = comparison.did_same_work and any(comparison.at_levels_of_one)
    rows = [
        [fact.name, "in part" if in_part and fact.name == PLAN else words[fact.same],
         " / ".join(fact.said)]
        for fact in comparison.same_work
    ]  # fmt: skip
    notes = [
        *starts_left_out_lines(comparison),
        *(["Intervals of ratios: of the ratios of equal starts (--paired)."]
          if comparison.paired else []),
        *_definition_notes(comparison),
        *_validity_notes(comparison),
        uncertainty(comparison.curves),
    ]  # fmt: skip
    heads = ("what", "is it the same", "said")
    return Section("Did they do the same work?", heads=heads, rows=rows, notes=notes)


def _definition_notes(comparison: Comparison) -> list[str]:
    """Return what sets the throughputs of the runs apart, or all of them from others."""
    pairs = zip(comparison.contenders, comparison.curves, strict=True)
    kinds = {each.name: curve.headline_is for each, curve in pairs}
    notes = []
    if len(set(kinds.values())) > 1:
        told = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        notes.append(f"Throughputs of two definitions: {told}.")
    if comparison.per_system:
        notes.append(f"Per system: no GPU count of {', '.join(comparison.per_system)} (--gpus).")
    return notes


def starts_left_out_lines(comparison: Comparison) -> list[str]:
    """Return which starts are not compared, since a run lacks them, and the command for those."""
    pairs = list(zip(comparison.contenders, comparison.starts_left_out, strict=True))
    every = {start for _, starts in pairs for start in starts}
    notes = [
        f"{each.name}: {starts_named(starts)} left out, which another run lacks"
        for each, starts in pairs
        if starts
    ]
    return notes + [
        f"{each.name} lacks them: agentx-replay sweep --resume --out {each.run.path} "
        f"--starts {max(every)}"
        for each, starts in pairs
        if not every <= {*starts}
    ]


def _validity_notes(comparison: Comparison) -> list[str]:
    notes = []
    for contender in comparison.contenders:
        points = contender.run.points
        notes += [
            f"{contender.name}: {agents([level])}: left out: {'; '.join(why)}."
            for level, why in contender.run.left_out.items()
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
    return [name, *(_mix_cell(each, scale) for each in part.summaries), *map(percent, part.gaps)]


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
            reading(value, side, UNTRUSTED if name in row.untrusted else "")
            for name, value, side in zip(names, row.values, row.sides, strict=True)
        ]
        rows.append([row.definition, *values, *ratios(row.values), _ahead(row)])
    notes = [_change(sensitivity), *_lacking(names, sensitivity)]
    return Section(
        heading,
        heads=("definition", *names, *(f"{names[0]} / {name}" for name in names[1:]), "ahead"),
        rows=rows,
        notes=[*notes, _OWN_INTERVAL],
    )


_OWN_INTERVAL = (
    "ahead: a run is where the 95 % interval of its ratio excludes 1. Every row takes the interval "
    "of the headline, as wide relatively. all faster, all slower: every valid level is."
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
        for name, why, side in zip(names, row.why, row.sides, strict=True)
        if why is not None and side is None
    ]
    return list(dict.fromkeys(why))


def _ahead(row: SensitivityRow) -> str:
    if row.winner is not None:
        return row.winner
    if row.undecided == NOT_TOLD_APART:
        return NOT_TOLD_APART
    if row.undecided == UNTRUSTED_ITL:
        return "not trusted"
    return ONE_START if sum(value is not None for value in row.values) > 1 else ABSENT

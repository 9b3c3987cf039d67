"""What is said of runs side by side (``analysis/side_by_side.py``)."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from agentx_replay.analysis.comparison import NOT_TOLD_APART, Comparison
from agentx_replay.analysis.series import Series, SeriesEnd, series_ratios, series_values
from agentx_replay.analysis.side_by_side import (
    AtTarget,
    BreakEven,
    Capacities,
    CapacityRatio,
    LevelRatio,
    LevelRow,
    LevelSide,
    SideBySide,
)
from agentx_replay.analysis.starts import Interval
from agentx_replay.report.brief import Styled, wrapped_lines
from agentx_replay.report.numerals import (
    ABSENT,
    NOT_REACHED,
    agents,
    bounds,
    percent,
    rate,
    share,
    speed,
    throughput_unit,
    within,
)
from agentx_replay.report.objective_sections import answer
from agentx_replay.report.system_section import in_short
from agentx_replay.report.tables import Section
from agentx_replay.results.system_facts import System


def side_sections(comparison: Comparison, sides: SideBySide) -> list[Section]:
    return [
        levels_section(comparison, sides.levels),
        jobs_section(comparison, sides.levels),
        _targets_section(comparison, sides),
        _prices_section(sides.break_evens),
        *(_capacities_section(comparison, each) for each in sides.capacities),
    ]


def side_brief(comparison: Comparison, sides: SideBySide, width: int) -> Iterator[Styled]:
    """Yield the first screen's lines: equal concurrency, and capacities."""
    for line in _level_lines(comparison, sides.levels):
        yield from wrapped_lines(line, width)
    for each in sides.capacities:
        for ratio in each.ratios:
            said = f"{each.judged[0].objective.text}: {_capacity_ratio(comparison, ratio)}"
            yield from wrapped_lines(said, width, "title")


def side_json(sides: SideBySide) -> dict[str, Any]:
    return {
        "levels": [asdict(each) for each in sides.levels],
        "there": [[each and asdict(each) for each in at] for at in sides.at_targets],
        "break_even": [asdict(each) for each in sides.break_evens],
        "capacity": [
            {
                "objective": each.judged[0].objective.text,
                "agents": [of.capacity.agents for of in each.judged],
                "goodput": [[asdict(m) for m in of.means] for of in each.judged],
                "ratios": [asdict(ratio) for ratio in each.ratios],
            }
            for each in sides.capacities
        ],
    }


# --- at equal concurrency ------------------------------------------------------------------------


def levels_section(comparison: Comparison, rows: Sequence[LevelRow]) -> Section:
    """Return a row for each level that the first run and another one have."""
    names = [each.name for each in comparison.contenders]
    unit = throughput_unit(comparison.curves[0].gpus)
    heads = ["agents"]
    for name in names:
        heads += [f"{name}\n{unit}", "speed\ntok/s/user", "TTFT P90\ns", "hit\n%"]
    heads += [f"{names[0]} / {name}" for name in names[1:]]
    cells = [
        [
            str(row.concurrency),
            *(cell for side in row.sides for cell in _side_cells(side)),
            *map(_ratio_cell, row.ratios),
        ]
        for row in rows
    ]
    notes = [
        "Throughput at equal concurrency: the faster system also gives each agent more speed, so "
        "this is not a comparison at equal service. other plan: the two replayed other work there."
    ]
    return Section("At equal concurrency", heads=heads, rows=cells, notes=notes if cells else ())


def jobs_section(comparison: Comparison, rows: Sequence[LevelRow]) -> Section:
    """Return how many plays each run finishes at the levels that two have; empty if none does."""
    names = [each.name for each in comparison.contenders]
    gpus = [each.run.gpus for each in comparison.contenders]
    heads = ["agents"]
    for name in names:
        heads += [f"{name}\nan hour per agent", "an hour\nper GPU"]
    heads += [f"{names[0]} / {name}" for name in names[1:]]
    cells = [
        [
            str(row.concurrency),
            *(
                cell
                for side, count in zip(row.sides, gpus, strict=True)
                for cell in _job_cells(side, row.concurrency, count)
            ),
            *(ABSENT if of is None else _ratio(of.jobs, of.jobs_interval) for of in row.ratios),
        ]
        for row in rows
        if any(side is not None and side.jobs_per_agent_hour for side in row.sides)
    ]
    return Section("Jobs at equal concurrency", heads=heads, rows=cells)


def _job_cells(side: LevelSide | None, concurrency: int, gpus: int | None) -> list[str]:
    jobs = None if side is None else side.jobs_per_agent_hour
    return [rate(jobs), rate(None if jobs is None or not gpus else jobs * concurrency / gpus)]


def _side_cells(side: LevelSide | None) -> list[str]:
    if side is None:
        return [ABSENT] * 4
    rates = map(rate, (side.throughput, side.interactivity, side.ttft_p90_s))
    return [*rates, share(side.cache_hit)]


def _ratio_cell(ratio: LevelRatio | None) -> str:
    if ratio is None:
        return ABSENT
    return "other plan" if ratio.ratio is None else _ratio(ratio.ratio, ratio.interval)


def _ratio(value: float | None, interval: Interval | None) -> str:
    return ABSENT if value is None else within(f"{value:.3f}", interval, 3)


def _level_lines(comparison: Comparison, rows: Sequence[LevelRow]) -> Iterator[str]:
    """Yield the ratios at equal concurrency, in a line for each other run."""
    for number, other in enumerate(comparison.contenders[1:]):
        said = [
            f"{row.concurrency}: {of.ratio - 1:+.1%}"
            for row in rows
            if (of := row.ratios[number]) is not None and of.ratio is not None
        ]
        if said:
            pair = f"{comparison.contenders[0].name} against {other.name}"
            yield f"at equal agents, {pair} in throughput: {', '.join(said)}"


# --- at a target ---------------------------------------------------------------------------------


def _targets_section(comparison: Comparison, sides: SideBySide) -> Section:
    rows = [
        [speed(at.target), each.name, *_fact_cells(facts)]
        for at, found in zip(comparison.targets, sides.at_targets, strict=True)
        for each, facts in zip(comparison.contenders, found, strict=True)
        if facts is not None
    ]
    heads = ["tok/s/user", "run", "TTFT P50\ns", "TTFT P95\ns", "cached", "KV usage",
             "preemptions\na minute"]  # fmt: skip
    return Section("There: what each is like at a target", heads=heads, rows=rows)


def _fact_cells(facts: AtTarget) -> list[str]:
    return [
        rate(facts.ttft_p50_s),
        rate(facts.ttft_p95_s),
        percent(facts.cache_hit),
        percent(facts.kv_usage),
        rate(facts.preemptions_per_min),
    ]


# --- prices and capacities -----------------------------------------------------------------------


def _prices_section(found: Sequence[BreakEven]) -> Section:
    facts = [
        (
            f"at {speed(each.target)} tok/s/user",
            f"{each.name} costs as much per token as {each.other} if its GPU-hour costs "
            + within(f"${each.price:.2f}", each.interval, 2),
        )
        for each in found
    ]
    return Section("Break-even price", facts=facts)


def _capacities_section(comparison: Comparison, of: Capacities) -> Section:
    names = [each.name for each in comparison.contenders]
    facts = [(name, answer(judged)) for name, judged in zip(names, of.judged, strict=True)]
    notes = [_capacity_ratio(comparison, ratio) for ratio in of.ratios]
    notes += [
        f"{name}: {agents([mean.concurrency])}: goodput {within(rate(mean.total), mean.interval)}, "
        f"{percent(mean.attainment)} of requests"
        for name, judged in zip(names, of.judged, strict=True)
        for mean in judged.means
    ]
    return Section(f"Capacity under {of.judged[0].objective.text}", facts=facts, notes=notes)


def _capacity_ratio(comparison: Comparison, ratio: CapacityRatio) -> str:
    first = comparison.contenders[0].name
    what = "agents per GPU" if comparison.per_gpu else "agents"
    if ratio.ratio is None:
        return f"{first} / {ratio.over}: a capacity is not bracketed, so no ratio of {what}"
    if ratio.interval is None:
        sure = f"; {ratio.no_interval}: no winner named"
    else:
        apart = "" if ratio.interval.excludes_one else f", {NOT_TOLD_APART}"
        sure = f" {bounds(ratio.interval, 2)}{apart}"
    return f"{first} / {ratio.over}: {ratio.ratio:.2f}x the {what}{sure}"


# --- series --------------------------------------------------------------------------------------


def series_section(series: Series, targets: Sequence[float], unit: str) -> Section:
    """Return what several runs of one name give together at the targets."""
    rows, notes = [], []
    for values in series_values(series, targets):
        for each in values:
            single = each.single
            rows.append(
                [
                    speed(each.target),
                    each.name,
                    NOT_REACHED if each.throughput is None else rate(each.throughput),
                    ABSENT if single is None else f"{rate(single.throughput)} ({single.run})",
                ]
            )
            if each.ends:
                mixed = "; mixed: no single configuration reaches this" if each.mixed else ""
                where = " and ".join(map(_end, each.ends))
                notes.append(f"at {speed(each.target)}: {each.name}: between {where}{mixed}")
    notes += [
        f"at {speed(each.target)}: {next(iter(series))} / {each.over}: "
        + _ratio(each.ratio, each.interval)
        + ("" if each.interval else "; no interval: no winner named")
        for each in series_ratios(series, targets)
        if each.ratio is not None
    ]
    heads = ("tok/s/user", "series", f"{unit}\nenvelope", "best single\nconfiguration")
    return Section("Series of several runs", heads=heads, rows=rows, notes=notes)


def _end(end: SeriesEnd) -> str:
    given = in_short(System(end.configuration)) or "set up as is not given (--system)"
    return f"{end.run} at {agents([end.concurrency])} ({given})"


def series_json(series: Series, targets: Sequence[float]) -> dict[str, Any]:
    return {
        "series": [
            [asdict(each) | {"mixed": each.mixed} for each in values]
            for values in series_values(series, targets)
        ],
        "series_ratios": [asdict(each) for each in series_ratios(series, targets)],
    }

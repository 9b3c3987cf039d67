"""What is said of a run by an objective: the capacity and how it was found, goodput and jobs.

Not for what they are (``analysis/capacity.py``, ``goodput.py``).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from agentx_replay.analysis.capacity import LEAST_STARTS, Capacity, ClauseReach, Outcome
from agentx_replay.analysis.goodput import DEPTHS
from agentx_replay.analysis.judged import Judged, LevelGoodput
from agentx_replay.analysis.objective import MOST_FAILED, Objective
from agentx_replay.analysis.percentiles import percentiles
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.run import Run
from agentx_replay.analysis.starts import Interval, spread, t_quantile
from agentx_replay.report.brief import Styled, wrapped_lines
from agentx_replay.report.chart import Chart, linear_axis, log_axis
from agentx_replay.report.numerals import (
    ABSENT,
    agents,
    bounds,
    percent,
    rate,
    share,
    starts_named,
    throughput_unit,
)
from agentx_replay.report.tables import Section, by_heading
from agentx_replay.text_format import counted

_MORE_STARTS = 5


# --- the capacity --------------------------------------------------------------------------------


def capacity_brief(judged: Sequence[Judged], width: int) -> Iterator[Styled]:
    """Yield the first screen's lines on the capacity under each objective."""
    for each in judged:
        yield from wrapped_lines(f"capacity under {each.objective.text}", width, "title")
        for line in capacity_lines(each):
            yield from wrapped_lines(f"  {line}", width)


def capacity_verdict(judged: Judged) -> str:
    """Return the capacity and its binding clause in a sentence, for the head of the page."""
    binding = judged.capacity.binding
    clause = f"; binding: {binding.clause.name}" if binding is not None else ""
    return f"capacity under {judged.objective.text}: {answer(judged)}{clause}"


def capacity_lines(judged: Judged) -> list[str]:
    capacity = judged.capacity
    lines = [answer(judged), *_agreement(capacity)]
    if capacity.binding is not None:
        lines.append(_binding(capacity.binding, capacity.others))
    lines += _there(judged)
    if not capacity.monotone:
        named = ", ".join(f"{x:.1f}" for each in capacity.starts for x in each.crossings)
        lines.append(f"NOT MONOTONE: it crosses its bound at {named}; the lowest counts")
    if capacity.trouble is not None:
        level = agents([capacity.trouble.measurement])
        lines.append(f"not judged: {level}: {capacity.trouble.trouble}")
    return [*lines, *_more_starts(capacity)]


def _agreement(capacity: Capacity) -> list[str]:
    """Return what all starts agree on, and their crossings; nothing for one start."""
    if len(capacity.starts) < 2:
        return []
    ends = (("proven", capacity.at_least), ("refuted", capacity.below))
    said = [f"{word} {level}" for word, level in ends if level is not None]
    if capacity.values:
        said.append(f"starts {', '.join(f'{value:.1f}' for value in capacity.values)}")
    return [" · ".join(said)] if said else []


def answer(judged: Judged) -> str:
    """Return the number of agents, or the bound on it, in a line."""
    capacity = judged.capacity
    if capacity.agents is not None:
        sure = bounds(capacity.interval, 1) or f"({capacity.no_interval}: no interval)"
        return " · ".join([f"{capacity.agents:.1f} agents {sure}", *_per(judged, capacity.agents)])
    at_least, below = capacity.at_least, capacity.below
    if at_least is not None and below is not None:
        return (
            f"between {at_least} and {below} agents: no margin is known at the one that breaks it"
        )
    if at_least is not None:
        return f"at least {agents([at_least])}: every level of {_open(capacity)} keeps it"
    if below == 1:
        return "none: 1 agent breaks it"
    if below is not None:
        return f"fewer than {below} agents: every level of {_open(capacity)} breaks it"
    return "not bracketed by the levels measured"


def _open(capacity: Capacity) -> str:
    """Return the starts of which all levels are on one side."""
    return starts_named([x.start for x in capacity.starts if x.good is None or x.bad is None])


def _per(judged: Judged, number: float) -> list[str]:
    if not judged.gpus:
        return []
    per = [f"{number / judged.gpus:.2f} per GPU"]
    if judged.power is not None:
        said = f"of {rate(judged.power)} W/GPU"
        per.append(f"{number / judged.gpus / judged.power * 1e3:.2f} per kW {said}")
    if judged.price is not None:
        said = f"at {rate(judged.price)} $/GPU-hour"
        per.append(f"{number / judged.gpus / judged.price:.2f} per $/h {said}")
    return per


def _binding(first: ClauseReach, others: Sequence[ClauseReach]) -> str:
    said = []
    for each in others:
        if each.reached_at is not None:
            said.append(f"{each.clause.name} reaches its bound at {each.reached_at:.1f}")
        elif each.share_of_bound is not None:
            said.append(f"{each.clause.name} is at {each.share_of_bound:.0%} of its bound")
    more = f" ({'; '.join(said)})" if said else ""
    return f"binding: {first.clause.name}{more}"


def _there(judged: Judged) -> list[str]:
    there = judged.there
    if there is None:
        return []
    unit = throughput_unit(judged.gpus)
    said = [
        f"{rate(there.throughput)} {unit}" if there.throughput is not None else "",
        f"goodput {rate(there.goodput)}" if there.goodput is not None else "",
        f"{percent(there.attainment)} of requests keep every clause" if there.attainment else "",
        f"{percent(there.cache_hit)} cached" if there.cache_hit is not None else "",
    ]
    return [f"there: {', '.join(filter(None, said))}"] if any(said) else []


def _more_starts(capacity: Capacity) -> list[str]:
    """Return what more starts would buy at the spread seen; how to add them where there is one."""
    values = capacity.values
    if capacity.agents is None or len(values) >= _MORE_STARTS:
        return []
    if capacity.interval is None:
        return [
            f"no interval with {capacity.no_interval}: sweep --resume --starts {LEAST_STARTS} "
            "--out DIR"
        ]
    factor = math.exp(t_quantile(_MORE_STARTS - 1.0) * spread(values) / math.sqrt(_MORE_STARTS))
    then = bounds(Interval(capacity.agents / factor, capacity.agents * factor), 1)
    return [f"{_MORE_STARTS} starts: about {then} (sweep --resume --starts 5 --out DIR)"]


def capacity_section(run: Run, judged: Judged) -> Section:
    """Return the search: the levels in the order of their measurement, with their margins."""
    capacity = judged.capacity
    clauses = judged.objective.typed
    rows = [
        [
            each.measurement.in_words,
            _verdict(each, judged.objective),
            *(_of_bound(each, number) for number in range(len(clauses))),
            rate(each.design_effect),
        ]
        for each in _in_order(run, capacity.outcomes)
    ]
    return Section(
        f"Capacity under {judged.objective.text}",
        lead=capacity_lines(judged),
        figures=_search_figure(judged),
        heads=[
            "agents",
            "verdict",
            *(f"{c.name}\nof its bound" for c in clauses),
            "design\neffect",
        ],
        rows=rows,
        notes=[_HOW],
    )


_HOW = (
    "Levels in the order of their measurement. of its bound: value / bound, for a floor bound / "
    "value; above 1 breaks the clause. Capacity: where the worst clause reaches 1, interpolated in "
    "the logarithms between neighbouring levels of a start; the mean of the starts. design effect: "
    "so many responses tell as much of the worst percentile as one that is independent would."
)


def _in_order(run: Run, outcomes: Sequence[Outcome]) -> list[Outcome]:
    plans = run.sweep.get("plans")
    order = {name: place for place, name in enumerate(plans if isinstance(plans, dict) else ())}
    return sorted(outcomes, key=lambda each: order.get(str(each.measurement), len(order)))


def _verdict(outcome: Outcome, objective: Objective) -> str:
    if outcome.trouble:
        return "not judged"
    if outcome.stopped_early:
        return "breaks it (stopped early)"
    if outcome.passes:
        return "keeps it"
    broken = [
        clause.metric
        for clause, margin in zip(objective.clauses, outcome.margins, strict=True)
        if margin is not None and margin > 0.0 and clause.implied
    ]
    why = f" ({' and '.join(broken)} over {MOST_FAILED:.0%})" if broken else ""
    return f"breaks it{why}"


def _of_bound(outcome: Outcome, number: int) -> str:
    margin = outcome.margins[number] if outcome.margins else None
    return ABSENT if margin is None else f"{math.exp(margin):.2f}"


def _search_figure(judged: Judged) -> str:
    """Return the worst clause over its bound against agents, a line a start."""
    capacity = judged.capacity
    known = [each for each in capacity.outcomes if each.worst is not None]
    if len(known) < 2:
        return ""
    ratios = [max(math.exp(each.worst or 0.0), 0.05) for each in known]
    levels = [each.measurement.concurrency for each in known]
    chart = Chart(
        "The search",
        log_axis(min(levels) / 1.1, max(levels) * 1.1),
        log_axis(min(ratios) / 1.1, max(max(ratios) * 1.1, 1.2)),
        "agents",
        "the worst clause: value over bound",
        "Below 1 a level keeps the objective. A line a start.",
    )
    chart.line(np.array([chart.x.low, chart.x.high]), np.ones(2), "target", "the bound")
    if capacity.interval is not None:
        chart.bar((capacity.interval.low, capacity.interval.high), (1.0, 1.0), "s2 thick")
        chart.key("s2", "95 % interval of the capacity")
    for start in capacity.starts:
        own = [n for n, each in enumerate(known) if each.measurement.start == start.start]
        chart.line(np.array(levels, float)[own], np.array(ratios)[own], "s1 thin")
    for level, ratio, each in zip(levels, ratios, known, strict=True):
        chart.dot(
            level,
            ratio,
            "s1" if each.passes else "s2",
            f"{agents([each.measurement])}: {ratio:.2f}",
        )
    if capacity.agents is not None and chart.x.low <= capacity.agents <= chart.x.high:
        chart.vertical(capacity.agents, "target", f"{capacity.agents:.1f}")
    return chart.html()


# --- goodput -------------------------------------------------------------------------------------


def goodput_section(run: Run, judged: Judged) -> Section:
    unit = throughput_unit(judged.gpus)
    heads, rows = by_heading([_goodput_cells(judged, each, unit) for each in judged.levels])
    over_starts = [
        f"{agents([mean.concurrency])}: goodput {rate(mean.total)} {bounds(mean.interval)} {unit} "
        f"over {counted(mean.starts, 'start')}"
        for mean in judged.means
        if mean.interval is not None
    ]
    return Section(
        f"Goodput under {judged.objective.text}",
        figures=_goodput_figure(run.points, judged, unit),
        heads=heads,
        rows=rows,
        notes=[_GOODPUT, *over_starts],
    )


def _goodput_cells(judged: Judged, level: LevelGoodput, unit: str) -> dict[str, str]:
    dollars, of = judged.per_dollar(level.total), level.goodput
    return {
        "agents": level.measurement.in_words,
        "requests\nthat keep it": percent(of.requests.share),
        f"goodput\n{unit}": rate(level.total),
        "output\nof it": rate(level.output),
        **({"Mtok/$": rate(dollars and dollars / 1e6)} if judged.price is not None else {}),
        **({"tok/J": rate(judged.per_joule(level.total))} if judged.power is not None else {}),
        "plays\nthat keep it": share(of.plays.share),
        **{
            f"{_depth(*turns)}\n%": share(kept.share)
            for turns, kept in zip(DEPTHS, of.by_depth, strict=True)
        },
    }


_GOODPUT = (
    "Goodput: the headline's tokens that came with requests which keep every clause, each by "
    "itself; failed and cut ones keep none. A play keeps it if all its requests in the window do. "
    "turns: requests by their depth in their conversation."
)


def _depth(low: int, high: int | None) -> str:
    return f"turns {low}+" if high is None else f"turns {low}-{high}"


def _goodput_figure(points: Sequence[Point], judged: Judged, unit: str) -> str:
    """Return throughput and goodput against speed, over the first start's levels."""
    by_level = {each.measurement: each.total for each in judged.levels}
    found = [
        (point.on_curve[0], point.on_curve[1] / (judged.gpus or 1), by_level[point.measurement])
        for point in points
        if point.on_curve is not None and point.facts.start == 1
        and by_level.get(point.measurement) is not None
    ]  # fmt: skip
    if not found:
        return ""
    xs, throughputs, goodputs = (np.array(each, float) for each in zip(*sorted(found), strict=True))
    chart = Chart(
        "Goodput beside throughput",
        linear_axis(0, float(xs.max()) * 1.12, 6),
        linear_axis(0, float(throughputs.max()) * 1.12),
        "interactivity: tok/s/user at the P90 of response ITL",
        f"{unit}, reused input included",
    )
    chart.line(xs, throughputs, "s1", "throughput")
    chart.line(xs, goodputs, "s2", f"of it with requests that keep {judged.objective.text}")
    for x, all_of_it, kept in zip(xs, throughputs, goodputs, strict=True):
        chart.dot(x, all_of_it, "s1", f"{rate(all_of_it)} {unit}")
        chart.dot(x, kept, "s2", f"{rate(kept)} {unit}")
    return chart.html()


# --- jobs ----------------------------------------------------------------------------------------


def jobs_section(run: Run) -> Section:
    """Return how many plays ended, how long they took, and how much of it in the model."""
    found = []
    for point in run.points:
        jobs = point.jobs
        if jobs is None or not point.valid:
            continue
        gpus = point.facts.gpus
        p50, p90 = percentiles(np.array(jobs.whole_s), (0.5, 0.9)) if jobs.whole_s else (None, None)
        found.append({
            "agents": point.name,
            "plays\nended": str(jobs.finished),
            "an hour\nper agent": rate(jobs.per_hour / point.concurrency),
            "an hour\nper GPU": rate(jobs.per_hour / gpus if gpus else None),
            "play P50\ns": rate(p50),
            "play P90\ns": rate(p90),
            "time in\nthe model": percent(jobs.model_share),
        })  # fmt: skip
    heads, rows = by_heading(found)
    return Section("Jobs", heads=heads, rows=rows, notes=[_JOBS] if rows else ())


_JOBS = (
    "Plays that ended in the window, those begun at t* too. play: time of those that also began in "
    "it, skipped idle time left out; a window not much longer than plays sees the short ones. time "
    "in the model: the part of the agents' time in which an agent had a request in flight."
)


# --- all of it -----------------------------------------------------------------------------------


def objective_sections(run: Run, judged: Sequence[Judged]) -> list[Section]:
    """Return the sections on every objective; none where there is no objective."""
    if not judged:
        return []
    found = [(capacity_section(run, each), goodput_section(run, each)) for each in judged]
    return [*(section for pair in found for section in pair), jobs_section(run)]


def objective_json(run: Run, judged: Sequence[Judged]) -> dict[str, Any]:
    """Return the same as plain values; nothing where there is no objective."""
    if not judged:
        return {}
    return {
        "objectives": [_judged_json(each) for each in judged],
        "jobs": [
            point.measurement._asdict() | asdict(point.jobs)
            for point in run.points
            if point.jobs is not None
        ],
    }


def objective_cells(point: Point, judged: Sequence[Judged]) -> dict[str, Any]:
    """Return the columns of a point's row that depend on objectives; empty without objectives."""
    found = [
        outcome
        for each in judged
        for outcome in each.capacity.outcomes
        if outcome.measurement == point.measurement
    ]
    if not found:
        return {}
    return {
        "objective_margins": [each.worst for each in found],
        "design_effects": [each.design_effect for each in found],
    }


def capacity_json(of: Capacity) -> dict[str, Any]:
    """Return a capacity as plain values."""
    return asdict(of) | {
        "objective": of.objective.text,
        "monotone": of.monotone,
        "outcomes": [_outcome_json(each) for each in of.outcomes],
        "trouble": of.trouble and _outcome_json(of.trouble),
    }


def _outcome_json(of: Outcome) -> dict[str, Any]:
    return asdict(of) | {"measurement": of.measurement._asdict(), "passes": of.passes}


def _judged_json(judged: Judged) -> dict[str, Any]:
    return {
        "capacity": capacity_json(judged.capacity),
        "there": judged.there and asdict(judged.there),
        "goodput": [
            asdict(level)
            | {
                "measurement": level.measurement._asdict(),
                "per_dollar": judged.per_dollar(level.total),
                "per_joule": judged.per_joule(level.total),
            }
            for level in judged.levels
        ],
        "goodput_by_level": [asdict(each) for each in judged.means],
    }

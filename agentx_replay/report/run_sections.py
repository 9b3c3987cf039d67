"""What is said of a whole run: its findings, points, targets, starts and definitions.

The same sections stand on the page and under ``report --full``. Not for how far the numbers can be
relied on (``evidence_sections.py``), nor for the report's first screen (``brief.py``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agentx_replay.analysis.curve import (
    DEFINITIONS,
    Curve,
    CurvePoint,
    curves_by_start,
    value_at,
)
from agentx_replay.analysis.findings import (
    FAR_APART,
    FAR_APART_IN_SHORT_WINDOW,
    FEW_RESPONSES,
    Finding,
    Kind,
)
from agentx_replay.analysis.point import (
    Point,
    client_alone_failed,
    point_findings,
    point_row,
    run_findings,
)
from agentx_replay.analysis.run import NOT_BEGUN, Run
from agentx_replay.analysis.starts import (
    CONFIDENCE,
    COVERS,
    MEASURED_SPREADS,
    MOST_NEEDED,
    Interval,
    half_width,
    spread,
    starts_needed,
)
from agentx_replay.analysis.throughput import headline_of
from agentx_replay.analysis.workload import lanes_half_width
from agentx_replay.report.numerals import (
    ABSENT,
    FAR,
    UNTRUSTED,
    agents,
    bounds,
    milliseconds,
    rate,
    reading,
    share,
    speed,
    throughput_unit,
)
from agentx_replay.report.plan_lines import ONE_START_AHEAD
from agentx_replay.report.tables import Section
from agentx_replay.report.targets import by_target, target_line, warned_at
from agentx_replay.results.resume_command import resume_command, typed_again
from agentx_replay.results.run_directory import PointStatus
from agentx_replay.text_format import counted

# --- findings ------------------------------------------------------------------------------------

_SAID = {
    Kind.INVALID: "not valid: ",
    Kind.INCOMPARABLE: "not comparable: ",
    Kind.WARNING: "",
    Kind.BROKEN: "NOT KEPT: ",
}


def finding_lines(findings: Sequence[Finding], *kinds: Kind) -> list[str]:
    """Return the findings of some kinds, one a line, with the levels that each is of."""
    told: set[str] = set()
    return [
        f"{agents(each.levels)}: {_SAID[kind]}{each.text}{remedy_once(each, told)}"
        for kind in kinds
        for each in findings
        if each.kind is kind
    ]


def remedy_once(of: Finding, told: set[str]) -> str:
    """Return what helps, to stand behind a finding, unless it was ``told`` before."""
    said = f"; {of.remedy}" if of.remedy and of.remedy not in told else ""
    told.add(of.remedy)
    return said


def valid_count(points: Sequence[Point]) -> str:
    """2 of 4 levels valid; starts if levels have several."""
    valid = sum(point.valid for point in points)
    what = "start" if any(point.measurement.start > 1 for point in points) else "level"
    return f"{valid} of {counted(len(points), what)} valid"


def busy_line(points: Sequence[Point]) -> str:
    """Return what to do if this client alone kept levels from being valid, else nothing."""
    if not client_alone_failed(points):
        return ""
    late = [point.measurement for point in points if not point.valid]
    which, values = (f" {agents(late)}", "Those") if len(late) < len(points) else ("", "The")
    return (
        f"This machine was too busy to measure{which}: close other programs, or use one with more "
        f"cores, and run it again. {values} values are for looking only."
    )


def comparable_and_valid(point: Point) -> bool:
    """Whether a point may be set beside others: rules kept, and the measurement sound."""
    return point.comparable and point.valid


def comparability_lines(points: Sequence[Point]) -> list[str]:
    """Return why points are not comparable, and with what those are that are, each said once.

    The tool knows no fingerprint of the official corpus, so a point is comparable on a condition:
    with runs of its scenario on the same corpus. One that is not valid is compared with nothing.
    """
    found = [each for each in point_findings(points) if each.kind is Kind.INCOMPARABLE]
    of_all = [each for each in found if len(each.levels) == len(points)]
    lines = [f"not comparable: {'; '.join(each.text for each in of_all)}"] if of_all else []
    lines += finding_lines([each for each in found if each not in of_all], Kind.INCOMPARABLE)
    fit = [point for point in points if comparable_and_valid(point)]
    if fit:
        rules = fit[0].facts.rules
        where = "" if len(fit) == len(points) else f"{agents(p.measurement for p in fit)}: "
        corpus = f" {rules.corpus}" if rules.corpus else ""
        lines.append(
            f"{where}comparable with runs of scenario {rules.scenario} on the same corpus{corpus}"
        )
    return lines


def run_lines(points: Sequence[Point]) -> list[str]:
    """Return every finding of a run, the gravest first, and beside what it may be set."""
    lines = finding_lines(run_findings(points), Kind.INVALID, Kind.BROKEN, Kind.WARNING)
    if any(point.facts.gpus is None for point in points):
        lines.append("throughput is the whole system's: no GPU count was given (--gpus)")
    return lines + comparability_lines(points)


# --- levels without a point ----------------------------------------------------------------------


def unmeasured_lines(run: Run) -> list[str]:
    """Return what to say of them: levels not begun in one line, each other one in its own.

    Where that is the last line, ``go_on_lines`` has what it announces.
    """
    missing = run.unmeasured
    not_begun = [level for level, why in missing.items() if why == NOT_BEGUN]
    lines = [
        f"{agents([level])}: cannot be measured: {why}"
        if level in run.refused
        else f"{agents([level])}: missing: {why}, so its records are in no table"
        for level, why in missing.items()
        if why != NOT_BEGUN
    ]
    if not_begun:
        lines.append(f"not measured: {agents(not_begun)}; this goes on{typed_again(run.sweep)}:")
    elif _goes_on(run):
        lines.append(f"this goes on{typed_again(run.sweep)}:")
    elif client_alone_failed(run.points):
        lines.append(f"this measures again what is not valid{typed_again(run.sweep)}:")
    return lines


def go_on_lines(run: Run) -> list[str]:
    """Return the command that measures what is missing, else what is not valid, to be copied: a
    line not wrapped.
    """
    if _goes_on(run):
        return [resume_command(run.path)]
    # Another try may help where this client was what failed.
    again = client_alone_failed(run.points)
    return [f"{resume_command(run.path)} --again"] if again else []


def _goes_on(run: Run) -> bool:
    begun = any(point.status is not PointStatus.COMPLETE for point in run.points)
    return begun or NOT_BEGUN in run.unmeasured.values()


# --- points --------------------------------------------------------------------------------------

DEFINITIONS_OF_POINTS = (
    "ITL: the mean gap between a response's tokens, first token excluded; its percentiles are "
    "over responses, linear interpolation. tok/s/user: 1 / P90 ITL. token ITL: over all tokens. "
    "overall: input, reused input included, and output tokens of responses that ended well, over "
    "the time from the first send to the last end; window: the same tokens, counted as they happen "
    "in the measured window; of the two, the one that stands first in the table is the headline. "
    "uncached: the headline without cached input; output: its output only. hit: share of the input "
    "tokens of responses sent in the window that their usage calls cached; max: with an unlimited "
    "cache. TTFT: from send. e2e: from send to "
    f"end. few: under {FEW_RESPONSES} responses. !: over {FAR_APART:.0%} apart, "
    f"{FAR_APART_IN_SHORT_WINDOW:.0%} in windows under 900 s. ~: not to be trusted."
)
_LATENCIES = {
    "ITL P50\nms": "response_itl_p50_s",
    "ITL P90\nms": "response_itl_p90_s",
    "ITL P99\nms": "response_itl_p99_s",
    "token ITL P90\nms": "token_itl_p90_s",
    "TTFT P50\ns": "ttft_p50_s",
    "TTFT P90\ns": "ttft_p90_s",
    "TTFT P99\ns": "ttft_p99_s",
    "e2e P50\ns": "end_to_end_p50_s",
    "e2e P90\ns": "end_to_end_p90_s",
}
_ITL_OF_TOKENS = "token ITL P90\nms"
OUTCOMES = (
    ("length_mismatch", "wrong length"), ("failed", "failed"), ("overflow", "overflowed"),
    ("cut", "cut"),
)  # fmt: skip
"""How a request may end but well, as columns of a row."""


def ending_and_unit(points: Sequence[Point]) -> tuple[str, str]:
    """Return how the names of throughputs end in a row, and their unit."""
    per_gpu = all(point.facts.gpus is not None for point in points)
    return ("_per_gpu", "tok/s/GPU") if per_gpu else ("", "tok/s")


def valid_word(point: Point) -> str:
    """Return whether a point is valid, in a word; beside it that it is of few responses."""
    word = "yes" if point.valid else "NO"
    return f"{word}, few" if point.has("few-responses") else word


def points_section(points: Sequence[Point], missing: Sequence[str] = ()) -> Section:
    """Return every point by rising concurrency and start; ``missing`` says what has none."""
    ordered = sorted(points, key=lambda point: point.measurement)
    if not ordered:
        return Section("Points", lead=["no point was measured"])
    rows = [_point_cells(point, point_row(point), ordered) for point in ordered]
    nothing = [
        f"{name}\nreq" for _, name in OUTCOMES if {row[f"{name}\nreq"] for row in rows} <= _NONE
    ]
    heads = [head for head in rows[0] if head not in nothing]
    cells = [[row[head] for head in heads] for row in rows]
    return Section(
        "Points", reasons=missing, heads=heads, rows=cells, notes=[DEFINITIONS_OF_POINTS]
    )


_NONE = {"0", ABSENT}


def _point_cells(point: Point, row: Mapping[str, Any], points: Sequence[Point]) -> dict[str, str]:
    """Return the cells of one of ``points`` by their headings; the headline's throughput first."""
    of, unit = ending_and_unit(points)
    names = {"overall": "overall", "windowed": "window"}
    first = names.pop(headline_of(points[0].facts.rules.window_s))
    ((other, beside),) = names.items()
    far = FAR if point.has("throughputs-far-apart") else ""
    untrusted = UNTRUSTED if point.has("token-itl-untrusted") else ""
    latencies = {
        head: milliseconds(row[key]) if head.endswith("ms") else rate(row[key])
        for head, key in _LATENCIES.items()
    }
    token_itl = latencies[_ITL_OF_TOKENS]
    return {
        "agents": point.name,
        "valid": valid_word(point),
        "speed\ntok/s/user": rate(row["interactivity"]),
        f"{first}\n{unit}": rate(row[f"total_tokens_per_s{of}"]),
        f"{beside}\n{unit}": rate(row[f"{other}_tokens_per_s{of}"]) + far,
        f"uncached\n{unit}": rate(row[f"uncached_tokens_per_s{of}"]),
        f"output\n{unit}": rate(row[f"output_tokens_per_s{of}"]),
        "hit / max\n%": _hits(row),
        **{
            f"{name}\nreq": str(row[key]) if row["requests"] else ABSENT
            for key, name in (("ok", "ok"), *OUTCOMES)
        },
        **latencies,
        _ITL_OF_TOKENS: token_itl if token_itl == ABSENT else untrusted + token_itl,
    }


def _hits(row: Mapping[str, Any]) -> str:
    hit, possible = row["cache_hit"], row["cache_hit_theoretical"]
    return ABSENT if possible is None else f"{share(hit)} / {share(possible)}"


def points_json(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return the points by rising concurrency and start as plain values: the columns of
    points.parquet, the findings, and what the server tells of itself.
    """
    return [
        point_row(point)
        | {
            "findings": [finding.document() for finding in point.findings],
            "server": point.server and asdict(point.server),
        }
        for point in sorted(points, key=lambda point: point.measurement)
    ]


# --- the curve -----------------------------------------------------------------------------------


def targets_section(curve: Curve, points: Sequence[Point]) -> Section:
    """Return throughput at the targets, and the frontier."""
    if not curve.points:
        said = "no level is valid, so there is no curve, and no throughput at any speed"
        return Section("At target speeds", reasons=[said])
    unit = throughput_unit(curve.gpus, curve.headline_is)
    facts = [
        (
            f"at {names} tok/s/user",
            "; ".join([target_line(value, unit, points), *warned_at(value, points)]),
        )
        for names, value in by_target(curve.values, points)
    ]
    frontier = agents(point.concurrency for point in curve.frontier)
    notes = [f"Pareto frontier (no level is better in both): {frontier}"]
    return Section("At target speeds", facts=facts, notes=[*notes, uncertainty([curve])])


def curve_json(curve: Curve) -> dict[str, Any]:
    """Return the curve as plain values."""
    return {
        "gpus": curve.gpus,
        "headline": curve.headline_is,
        "frontier": [point.concurrency for point in curve.frontier],
        "intervals_cover": COVERS,
        "levels": [_level_json(curve, point) for point in curve.points],
        "at": [asdict(value) for value in curve.values],
    }


def _level_json(curve: Curve, point: CurvePoint) -> dict[str, Any]:
    intervals = curve.intervals.get(point.concurrency)
    return {
        **asdict(point),
        "intervals": intervals and asdict(intervals),
        "starts": [
            {"start": start, "interactivity": of.interactivity, "throughput": of.throughput}
            for start, of in curve.starts[point.concurrency].items()
        ],
    }


# --- starts --------------------------------------------------------------------------------------

_APART = 1.05
"""Two systems this far apart are what a person may want to tell apart."""
_READING = (
    "A level's point is the geometric mean of its valid starts. range: where they lie around it; "
    f"{CONFIDENCE:.0%}: the interval of the mean."
)
_INTERVALS = (
    f"Intervals: {CONFIDENCE:.0%}, Student's t over starts of the logarithm; they cover {COVERS}. "
    "A restart, another node or another day is not in them."
)
_ONE_START = (
    "1 start: no interval, for one start does not show how far another would lie (add starts with "
    "sweep --resume --starts 3 --out DIR)."
)


def uncertainty(curves: Sequence[Curve]) -> str:
    """Return what the intervals of one or more runs cover, or why there are none."""
    several = [any(len(starts) > 1 for starts in curve.starts.values()) for curve in curves]
    said = [_INTERVALS] if any(several) else []
    return " ".join(said if all(several) else [*said, _ONE_START])


def starts_section(curve: Curve, asked: int) -> Section:
    """Return how far starts lie apart: a row for each level with several valid ones."""
    unit = throughput_unit(curve.gpus, curve.headline_is)
    number = (f"{CONFIDENCE:.0%}", "range %")
    rows = []
    for point in curve.points:
        intervals = curve.intervals.get(point.concurrency)
        if intervals is None:
            continue
        starts = list(curve.starts[point.concurrency].values())
        speeds = [each.interactivity for each in starts]
        throughputs = [each.throughput for each in starts]
        rows.append(
            [
                str(point.concurrency),
                f"{len(starts)} of {asked}",
                *_around(point.interactivity, speeds, intervals.interactivity),
                *_around(point.throughput, throughputs, intervals.throughput),
            ]
        )
    heads = ("agents", "starts", "tok/s/user", *number, unit, *number)
    return Section("From start to start", heads=heads, rows=rows, notes=[_READING], rank=3)


def _around(mean: float, starts: Sequence[float], interval: Interval) -> list[str]:
    ends = [
        f"{round((end / mean - 1.0) * 100, 1) + 0.0:+.1f}" for end in (min(starts), max(starts))
    ]
    return [rate(mean), bounds(interval), " ".join(ends)]


def lanes_section(run: Run) -> Section:
    """Return what lanes alone say of throughput, by level and start."""
    found = [
        (point.name, lanes_half_width(point.lanes))
        for point in run.curve_points
        if point.lanes is not None
    ]
    rows = [[name, ABSENT if half is None else f"±{half:.1%}"] for name, half in found]
    note = (
        "How far throughput had lain apart, had other lanes of the same start been drawn "
        "(bootstrap); not what another start would give."
    )
    heads = ("agents", "lanes")
    return Section("From lane to lane", heads=heads, rows=rows, notes=[note], rank=3)


def planned_starts(starts: int, simulated: Sequence[Point] = ()) -> list[str]:
    """Return what so many starts a side would show of a ratio at the spreads measured before, and
    at those between the ``simulated`` starts how many would name a winner.
    """
    low, high = MEASURED_SPREADS
    shown = ", ".join(
        f"{half_width(low, each):.0%} to {half_width(high, each):.0%} with {each} starts each"
        for each in sorted({max(starts, 3), 5})
    )
    lines = [
        f"to name a winner two systems must differ by more than {shown} (starts of one system were "
        f"seen to differ by {low:.0%} to {high:.0%})"
    ]
    if starts == 1:
        lines.insert(0, ONE_START_AHEAD)
    levels: dict[int, list[float]] = {}
    for curve in curves_by_start(simulated).values():
        for point in curve:
            levels.setdefault(point.concurrency, []).append(point.throughput)
    return lines + [line for level in sorted(levels.items()) for line in _winner(*level)]


def _winner(concurrency: int, throughputs: Sequence[float]) -> list[str]:
    if len(throughputs) < 2:
        return []
    seen = spread(throughputs)
    needed = starts_needed(_APART, (seen, seen))
    many = f"over {MOST_NEEDED}" if needed is None else f"{needed}"
    return [
        f"  {agents([concurrency])}: simulated starts spread by {seen:.1%} in throughput, so "
        f"{many} starts a side would name a winner of two systems {_APART - 1:.0%} apart"
    ]


# --- sensitivity ---------------------------------------------------------------------------------


def sensitivity_section(run: Run, curve: Curve) -> Section:
    """Return throughput at the targets under every definition."""
    heading = "Sensitivity to definitions"
    if not curve.points:
        return Section(heading)
    targets = [value.target for value in curve.values]
    slow = [point.measurement for point in run.points if point.has("token-itl-untrusted")]
    rows, lacking = [], []
    for definition in DEFINITIONS:
        values = [
            value_at(run.points, definition, target, run.levels_by_start) for target in targets
        ]
        mark = UNTRUSTED if definition.speed == "token" and slow else ""
        rows.append([definition.name, *(reading(each.value, each.side, mark) for each in values)])
        why = [each.why for each in values if each.why is not None and each.side is None]
        lacking += [f"{definition.name}: {each}." for each in why[:1]]
    unit = throughput_unit(run.gpus, run.headline_is)
    text = (
        f"The same records, {unit}, with one definition changed in each row. all faster, all "
        "slower: no value, since every valid level is. Comparing two systems, look whether the "
        "order holds in every row (agentx-replay compare)."
    )
    lacking += [f"{UNTRUSTED}: {agents(slow)}: see the warnings."] if slow else []
    heads = ["definition", *(f"at {speed(target)}\ntok/s/user" for target in targets)]
    return Section(heading, lead=[text], heads=heads, rows=rows, notes=lacking)

"""What a person needs first, on one screen of 80 columns; the rest is under ``--full`` and on the
page.

Lines are (text, style) for ``cli/output.py``. Not for deciding or wording findings.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from agentx_replay.analysis.curve import Curve, level_row
from agentx_replay.analysis.findings import OF_THE_CURVE, Finding, Kind
from agentx_replay.analysis.point import Point, run_findings
from agentx_replay.analysis.run import Run
from agentx_replay.report.evidence_sections import replay_exact
from agentx_replay.report.numerals import (
    ABSENT,
    agents,
    milliseconds,
    rate,
    throughput_unit,
    within,
)
from agentx_replay.report.run_sections import (
    OUTCOMES,
    busy_line,
    comparable_and_valid,
    ending_and_unit,
    go_on_lines,
    remedy_once,
    unmeasured_lines,
    valid_count,
)
from agentx_replay.report.tables import tables_side_by_side
from agentx_replay.report.targets import by_target, passed_over, target_line
from agentx_replay.text_format import wrapped

Styled = tuple[str, str]
_MOST_WARNINGS = 3
_LEAST_SHOWN = 0.001
_IN_TABLE = "requests-not-ok"
_HIT = "cache hit\nof max, %"
_SPARE = ("output", _HIT, "ITL P90", "overflowed", "wrong length")
"""Columns that a narrow terminal does without, in this order."""
NOT_COMPARABLE = "not comparable: "
NOT_VALID = "NOT VALID"


def run_brief(run: Run, curve: Curve, heading: str, width: int) -> Iterator[Styled]:
    """Yield the report of a run: what was measured, the levels, the targets, what to mind."""
    busy = busy_line(run.points)
    clients = (each for each in run_findings(run.points) if each.blame == "client")
    told = {each.remedy for each in clients if busy}
    yield from wrapped_lines(busy, width, "warning")
    yield from wrapped_lines(heading, width, "title")
    yield from wrapped_lines(f"{valid_count(run.points)} · {comparable(run.points)}", width)
    yield "", ""
    yield from _levels(run.points, curve, width)
    yield from _findings(run.points, Kind.INVALID, told, width)
    for line in unmeasured_lines(run):
        yield from wrapped_lines(line, width, "bad")
    for line in go_on_lines(run):
        yield line, ""
    yield "", ""
    yield from _targets(run.points, curve, width)
    yield "", ""
    yield from _findings(run.points, Kind.BROKEN, told, width)
    yield from _findings(run.points, Kind.WARNING, told, width)
    yield from wrapped_lines(_evidence(run.points), width)


def wrapped_lines(text: str, width: int, style: str = "") -> list[Styled]:
    return [(line, style) for line in wrapped(text, width)]


def comparable(points: Sequence[Point]) -> str:
    found = [f for f in run_findings(points) if f.kind is Kind.INCOMPARABLE]
    if found:
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        return f"{NOT_COMPARABLE}{found[0].text}{more}"
    if not all(map(comparable_and_valid, points)):
        return "what is not valid is comparable with nothing"
    return f"comparable with runs of {points[0].facts.rules.scenario} on the same corpus"


# --- levels --------------------------------------------------------------------------------------


def _levels(points: Sequence[Point], curve: Curve, width: int) -> Iterator[Styled]:
    """Yield a row a level: of several starts the mean over the valid ones, with its interval."""
    levels = [list(of) for _, of in groupby(points, lambda point: point.concurrency)]
    columns = _columns(levels, curve)
    for spare in _SPARE:
        wide = [max(map(len, (*head.split("\n"), *cells))) for head, cells in columns.items()]
        if sum(wide) + 2 * len(wide) - 2 <= width:
            break
        columns.pop(spare, None)
    styles = [
        "" if _valid(starts) == len(starts) else "warning" if _valid(starts) else "bad"
        for starts in levels
    ]
    rows = list(zip(*columns.values(), strict=True))
    for heads, lines in tables_side_by_side(list(columns), rows, width):
        yield from ((head, "title") for head in heads)
        yield from zip(lines, styles, strict=True)


def _columns(levels: Sequence[Sequence[Point]], curve: Curve) -> dict[str, list[str]]:
    """Return the cells of each column by its heading."""
    rows = [level_row(starts) for starts in levels]
    found = [curve.intervals.get(row["concurrency"]) for row in rows]
    mark = " [95 %]" if any(found) else ""
    of, unit = ending_and_unit(levels[0])
    columns = {
        "agents": [str(row["concurrency"]) for row in rows],
        f"tok/s/user{mark}": [
            within(rate(row["interactivity"]), each.interactivity if each else None)
            for row, each in zip(rows, found, strict=True)
        ],
        f"{unit}{mark}": [
            within(rate(row[f"total_tokens_per_s{of}"]), each.throughput if each else None)
            for row, each in zip(rows, found, strict=True)
        ],
        "output": [rate(row[f"output_tokens_per_s{of}"]) for row in rows],
        _HIT: list(map(_hit, rows)),
        "ITL P90": [_with_unit(milliseconds(row["response_itl_p90_s"]), "ms") for row in rows],
        "TTFT P90": [_with_unit(_seconds(row["ttft_p90_s"]), "s") for row in rows],
    }
    all_valid = all(point.valid for starts in levels for point in starts)
    several = max(map(len, levels)) > 1
    if several and not all_valid:
        columns["valid"] = [f"{_valid(starts)}/{len(starts)}" for starts in levels]
    for key, name in OUTCOMES:
        if any(row[key] for row in rows):
            columns[name] = [str(row[key]) for row in rows]
    if not several and not all_valid:
        columns[""] = ["" if _valid(starts) else NOT_VALID for starts in levels]
    return columns


def _valid(starts: Sequence[Point]) -> int:
    return sum(point.valid for point in starts)


def _hit(row: Mapping[str, Any]) -> str:
    """93 of 93: per cent of the input that was cached, of what an unlimited cache would hold."""
    hit, possible = row["cache_hit"], row["cache_hit_theoretical"]
    return ABSENT if hit is None or possible is None else f"{hit * 100:.0f} of {possible * 100:.0f}"


def _seconds(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _with_unit(text: str, unit: str) -> str:
    return text if text == ABSENT else f"{text} {unit}"


# --- targets -------------------------------------------------------------------------------------


def _targets(points: Sequence[Point], curve: Curve, width: int) -> Iterator[Styled]:
    if not curve.points:
        yield "no level is valid, so there is no throughput at any speed", ""
        return
    unit = throughput_unit(curve.gpus)
    told = list(by_target(curve.values, points))
    widest = max((len(names) for names, _ in told), default=0)
    for number, (names, value) in enumerate(told):
        named = "" if number else " tok/s/user"
        said = "; ".join([target_line(value, unit, points), *passed_over(value, points)])
        yield from wrapped_lines(f"at {names:>{widest}}{named}: {said}", width)


# --- what to mind --------------------------------------------------------------------------------


_MARKS = {Kind.INVALID: "", Kind.BROKEN: "! not kept: ", Kind.WARNING: "! "}


def _findings(points: Sequence[Point], kind: Kind, told: set[str], width: int) -> Iterator[Styled]:
    """Yield a line for each code: the finding of its last level, and on which others it is."""
    mark, style = _MARKS[kind], "bad" if kind is Kind.INVALID else "warning"
    starts = Counter(point.concurrency for point in points)
    by_code: dict[str, list[Finding]] = {}
    for finding in run_findings(points):
        if finding.kind is kind and finding.code != _IN_TABLE:
            by_code.setdefault(finding.code, []).append(finding)
    for number, (code, found) in enumerate(by_code.items()):
        if number == _MOST_WARNINGS and len(by_code) > _MOST_WARNINGS + 1:
            yield f"{mark}and {len(by_code) - number} more kinds (--full)", style
            return
        of = {} if code in OF_THE_CURVE else starts
        others = [level for each in found[:-1] for level in each.levels]
        also = f" (also at {agents(others, of)}, with other numbers)" if others else ""
        said = "not valid: " if kind is Kind.INVALID else ""
        text = f"{said}{found[-1].text}{also}{remedy_once(found[-1], told)}"
        line = f"{mark}{agents(found[-1].levels, of)}: {text}"
        yield from wrapped_lines(line, width, style)


def _evidence(points: Sequence[Point]) -> str:
    reports = [point.fidelity for point in points if point.fidelity is not None]
    broken = any(point.texts(Kind.BROKEN) for point in points)
    exact = bool(reports) and not broken and all(map(replay_exact, reports))
    replay = "replay exact" if exact else "replay not exact (--full)" if reports else "no replay"
    clients = [point.instrument for point in points if point.instrument is not None]
    errors = [
        f"{name} {_at_most(shifts)}"
        for name, found in (
            ("ITL", [each.itl_shift for each in clients]),
            ("TTFT", [each.ttft_shift for each in clients]),
        )
        if (shifts := [each for each in found if each is not None])
    ]
    if not errors:
        return f"{replay} · client error not measured"
    stamps = " and ".join(sorted({each.timestamps for each in clients}))
    return f"{replay} · client error at P90: {', '.join(errors)} ({stamps} timestamps)"


def _at_most(shifts: Sequence[float]) -> str:
    most = max(shifts)
    return f"≤ {most:.1%}" if most >= _LEAST_SHOWN else f"< {_LEAST_SHOWN:.1%}"

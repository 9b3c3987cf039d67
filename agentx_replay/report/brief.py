"""What a person needs first, on one screen of 80 columns; the rest is under ``--full`` and on the
page.

Lines are (text, style) for ``cli/output.py``. Not for deciding or wording findings.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentx_replay.analysis.curve import Curve
from agentx_replay.analysis.findings import Finding, Kind
from agentx_replay.analysis.point import Point, client_alone_failed, point_row, run_findings
from agentx_replay.analysis.run import Run
from agentx_replay.report.evidence_sections import replay_exact
from agentx_replay.report.numerals import (
    ABSENT,
    agents,
    milliseconds,
    rate,
    speed,
    target_line,
)
from agentx_replay.report.run_sections import (
    OUTCOMES,
    beyond_together,
    comparable_and_valid,
    go_on_lines,
    per_gpu,
    unmeasured_lines,
)
from agentx_replay.report.tables import columns_lines
from agentx_replay.wording import counted, wrapped

Styled = tuple[str, str]
_MOST_WARNINGS = 3
_LEAST_SHOWN = 0.001
_IN_TABLE = "requests-not-ok"
_SPARE = ("output", "cache hit", "overflowed", "wrong length")
"""Columns that a narrow terminal does without, in this order."""
NOT_COMPARABLE = "not comparable: "
NOT_VALID = "NOT VALID"
FOR_LOOKING = (
    "This machine was too busy to measure: close other programs, or use one with more cores, and "
    "run it again. The values are for looking only."
)


def run_brief(run: Run, curve: Curve, heading: str, width: int) -> Iterator[Styled]:
    """Yield the report of a run: what was measured, the levels, the targets, what to mind."""
    if client_alone_failed(run.points):
        yield from wrapped_lines(FOR_LOOKING, width, "warning")
    yield from wrapped_lines(heading, width, "title")
    yield from wrapped_lines(_verdict(run.points), width)
    yield "", ""
    yield from _levels(run.points, width)
    findings = run_findings(run.points)
    yield from _findings(findings, Kind.INVALID, "", width, "bad")
    for line in unmeasured_lines(run):
        yield from wrapped_lines(line, width, "bad")
    for line in go_on_lines(run):
        yield line, ""
    yield "", ""
    yield from _targets(curve, width)
    yield "", ""
    yield from _findings(findings, Kind.BROKEN, "! not kept: ", width, "warning")
    yield from _findings(findings, Kind.WARNING, "! ", width, "warning")
    yield from wrapped_lines(_evidence(run.points), width)


def wrapped_lines(text: str, width: int, style: str = "") -> list[Styled]:
    return [(line, style) for line in wrapped(text, width)]


def _verdict(points: Sequence[Point]) -> str:
    valid = sum(point.valid for point in points)
    what = "start" if any(point.measurement.start > 1 for point in points) else "level"
    return f"{valid} of {counted(len(points), what)} valid · {comparable(points)}"


def comparable(points: Sequence[Point]) -> str:
    found = [f for f in run_findings(points) if f.kind is Kind.INCOMPARABLE]
    if found:
        more = f", and {len(found) - 1} more (--full)" if len(found) > 1 else ""
        return f"{NOT_COMPARABLE}{found[0].text}{more}"
    if not all(map(comparable_and_valid, points)):
        return "what is not valid is comparable with nothing"
    return f"comparable with runs of {points[0].facts.rules.scenario} on the same corpus"


# --- levels --------------------------------------------------------------------------------------


def _levels(points: Sequence[Point], width: int) -> Iterator[Styled]:
    rows = [point_row(point) for point in points]
    columns = _fitting(_columns(rows, points), width)
    head, *lines = columns_lines(columns)
    yield head, "title"
    for point, line in zip(points, lines, strict=True):
        yield line, "" if point.valid else "bad"


def _columns(rows: Sequence[Mapping[str, Any]], points: Sequence[Point]) -> list[list[str]]:
    of, unit = ("_per_gpu", "tok/s/GPU") if per_gpu(points) else ("", "tok/s")
    columns = [
        ["agents", *(point.name for point in points)],
        ["tok/s/user", *(rate(row["interactivity"]) for row in rows)],
        [unit, *(rate(row[f"total_tokens_per_s{of}"]) for row in rows)],
        ["output", *(rate(row[f"output_tokens_per_s{of}"]) for row in rows)],
        ["cache hit", *map(_hit, rows)],
        ["ITL P90", *(_with_unit(milliseconds(row["response_itl_p90_s"]), "ms") for row in rows)],
        ["TTFT P90", *(_with_unit(_seconds(row["ttft_p90_s"]), "s") for row in rows)],
    ]
    columns += [
        [name, *(str(row[key]) for row in rows)]
        for key, name in OUTCOMES
        if any(row[key] for row in rows)
    ]
    if not all(point.valid for point in points):
        columns.append(["", *("" if point.valid else NOT_VALID for point in points)])
    return columns


def _hit(row: Mapping[str, Any]) -> str:
    """93 of 93: per cent of the input that was cached, of what an unlimited cache would hold."""
    hit, possible = row["cache_hit"], row["cache_hit_theoretical"]
    return ABSENT if hit is None or possible is None else f"{hit * 100:.0f} of {possible * 100:.0f}"


def _seconds(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _with_unit(text: str, unit: str) -> str:
    return text if text == ABSENT else f"{text} {unit}"


def _fitting(columns: list[list[str]], width: int) -> list[list[str]]:
    """Return columns without those that may be spared, as far as the width demands."""
    for spare in _SPARE:
        if sum(max(map(len, column)) + 2 for column in columns) - 2 <= width:
            break
        columns = [column for column in columns if column[0] != spare]
    return columns


# --- targets -------------------------------------------------------------------------------------


def _targets(curve: Curve, width: int) -> Iterator[Styled]:
    if not curve.points:
        yield "no level is valid, so there is no throughput at any speed", ""
        return
    unit = "tok/s" if curve.gpus is None else "tok/s/GPU"
    told = list(beyond_together(curve.values))
    names = [", ".join(speed(each.target) for each in values) for _, values in told]
    widest = max(map(len, names), default=0)
    for number, (name, (value, _)) in enumerate(zip(names, told, strict=True)):
        named = "" if number else " tok/s/user"
        yield from wrapped_lines(f"at {name:>{widest}}{named}: {target_line(value, unit)}", width)


# --- what to mind --------------------------------------------------------------------------------


def _findings(
    findings: Sequence[Finding], kind: Kind, mark: str, width: int, style: str
) -> Iterator[Styled]:
    """Yield a line for each code: the finding of its last level, and on which others it is."""
    by_code: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.kind is kind and finding.code != _IN_TABLE:
            by_code.setdefault(finding.code, []).append(finding)
    for number, found in enumerate(by_code.values()):
        if number == _MOST_WARNINGS and len(by_code) > _MOST_WARNINGS + 1:
            yield f"{mark}and {len(by_code) - number} more kinds (--full)", style
            return
        others = [level for each in found[:-1] for level in each.levels]
        also = f" (the like at {agents(others)})" if others else ""
        said = "not valid: " if kind is Kind.INVALID else ""
        line = f"{mark}{agents(found[-1].levels)}: {said}{found[-1].text}{also}"
        yield from wrapped_lines(line, width, style)


def _evidence(points: Sequence[Point]) -> str:
    reports = [point.fidelity for point in points if point.fidelity is not None]
    broken = any(point.texts(Kind.BROKEN) for point in points)
    exact = bool(reports) and not broken and all(map(replay_exact, reports))
    replay = "replay exact" if exact else "replay not exact (--full)" if reports else "no replay"
    clients = [point.instrument for point in points if point.instrument is not None]
    shifts = [each.itl_shift for each in clients if each.itl_shift is not None]
    if not shifts:
        return f"{replay} · client error not measured"
    stamps = " and ".join(sorted({each.timestamps for each in clients}))
    most = f"at most {max(shifts):.1%}" if max(shifts) >= _LEAST_SHOWN else "under 0.1%"
    return f"{replay} · client error {most} of P90 ITL ({stamps} timestamps)"

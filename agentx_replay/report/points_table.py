"""The table of points, for a terminal and for scripts. It prints numbers; it computes none.

Throughput is per GPU where every point has a GPU count; otherwise it is the system's, and the
heading says so.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from agentx_replay.analysis.findings import FAR_APART, FEW_RESPONSES
from agentx_replay.analysis.metrics import PointSummary
from agentx_replay.analysis.percentiles import Distribution
from agentx_replay.analysis.point import Point, point_row
from agentx_replay.analysis.throughput import Throughput
from agentx_replay.report.numerals import ABSENT, UNTRUSTED, rate, share
from agentx_replay.report.point_notes import audit_lines, invalid_lines, warning_lines
from agentx_replay.report.verdict_lines import beside_text, throughput_names, valid_word
from agentx_replay.wording import wrapped

_GAP = "  "

DEFINITIONS = (
    "ITL: the mean gap between a response's tokens, first token excluded; its percentiles are "
    "over responses, linear interpolation. speed: 1 / P90 ITL. token ITL: over all tokens. "
    "overall: input, reused input included, and output tokens of responses that ended well, over "
    "the time from the first send to the last end; window: the same tokens, counted as they happen "
    "in the measured window; "
    "of the two, the one that stands first in the table is the headline. uncached: the headline "
    "without cached input; output: its output only. hit: cached / "
    "input tokens as the server reports, and with an unlimited cache. TTFT: from send. "
    f"e2e: from send to end. few: under {FEW_RESPONSES} responses. !: over {FAR_APART:.0%} apart, "
    "in windows of 900 s and more. "
    "~: not to be trusted."
)


@dataclass(frozen=True, slots=True)
class _Cells:
    """One column: two lines of heading (the second is the unit) and a cell a point."""

    heading: str
    unit: str
    cells: list[str]

    def lines(self) -> list[str]:
        texts = [self.heading, self.unit, *self.cells]
        width = max(len(text) for text in texts)
        return [text.rjust(width) for text in texts]


def points_table(
    points: Sequence[Point],
    *,
    missing: Sequence[str] = (),
    go_on: Sequence[str] = (),
    curve: Sequence[str] = (),
    audit: Sequence[str] = (),
    closing: Sequence[str] = (),
    width: int = 100,
) -> str:
    """Return the points by rising concurrency and start as two tables, throughput and latency, no
    wider than 100 columns; then, wrapped to ``width``: why points are not valid and levels
    ``missing``, and as it is the command to ``go_on``; the lines of the ``curve``; what to mind;
    what was kept, with the lines of an ``audit``; and the definitions, ``closing`` last.
    """
    ordered = sorted(points, key=lambda point: point.measurement)
    if not ordered:
        return "no point was measured"
    blocks = [
        _ruled(_throughput_columns(ordered)),
        _ruled(_latency_columns(ordered)),
        [*_wrapped([*invalid_lines(ordered), *missing], width), *go_on],
        curve,
        _wrapped(warning_lines(ordered), width),
        _wrapped([*audit_lines(ordered), *audit], width),
        _wrapped([DEFINITIONS, *closing], width),
    ]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def _wrapped(lines: Sequence[str], width: int) -> list[str]:
    """Return lines wrapped, what follows two columns further in than their beginning."""
    return [part for line in lines for part in wrapped(line, width)]


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


def _ruled(columns: list[_Cells]) -> list[str]:
    rows = [_GAP.join(cells) for cells in zip(*(c.lines() for c in columns), strict=True)]
    return [*rows[:2], "-" * len(rows[0]), *rows[2:]]


def _name(points: list[Point]) -> _Cells:
    """Return the level of each point, with its start but for the first: 16, 16-s2."""
    return _Cells("conc", "lanes", [point.name for point in points])


def _throughput_columns(points: list[Point]) -> list[_Cells]:
    per_gpu = _per_gpu(points)
    unit = "tok/s/GPU" if per_gpu else "tok/s"
    summaries = [point.summary for point in points]
    headlines = [_shown(point, "headline", per_gpu=per_gpu) for point in points]
    others = [_shown(point, "beside", per_gpu=per_gpu) for point in points]
    first, beside = throughput_names(points)
    counts = [s.counts if s else None for s in summaries]
    return [
        _name(points),
        _Cells("speed", "tok/s/user", [rate(s.interactivity if s else None) for s in summaries]),
        _Cells(first, unit, [rate(h.total_tokens_per_s if h else None) for h in headlines]),
        _Cells(beside, unit, [beside_text(*each) for each in zip(points, others, strict=True)]),
        _Cells("uncached", unit, [rate(h.uncached_tokens_per_s if h else None) for h in headlines]),
        _Cells("output", unit, [rate(h.output_tokens_per_s if h else None) for h in headlines]),
        _Cells("hit", "%/max %", [_hits(s) for s in summaries]),
        _Cells("ok", "req", [str(c.measured) if c else ABSENT for c in counts]),
        _Cells("bad", "req", [str(c.sent - c.measured) if c else ABSENT for c in counts]),
        _Cells("valid", "", [valid_word(p) for p in points]),
    ]


def _latency_columns(points: list[Point]) -> list[_Cells]:
    return [_name(points), *(_latency_column(points, *shown) for shown in _LATENCIES)]


_LATENCIES = (
    # heading, distribution of the summary, percentile, unit, how many of the unit are in a second
    ("ITL P50", "response_itl", "p50_s", "ms", 1e3),
    ("ITL P90", "response_itl", "p90_s", "ms", 1e3),
    ("ITL P99", "response_itl", "p99_s", "ms", 1e3),
    ("token ITL P90", "token_itl", "p90_s", "ms", 1e3),
    ("TTFT P50", "ttft", "p50_s", "s", 1.0),
    ("TTFT P90", "ttft", "p90_s", "s", 1.0),
    ("TTFT P99", "ttft", "p99_s", "s", 1.0),
    ("e2e P50", "end_to_end", "p50_s", "s", 1.0),
    ("e2e P90", "end_to_end", "p90_s", "s", 1.0),
)


def _latency_column(
    points: list[Point], heading: str, name: str, percentile: str, unit: str, per_s: float
) -> _Cells:
    found: list[Distribution | None] = [getattr(point.summary, name, None) for point in points]
    texts = [rate(getattr(d, percentile) * per_s if d else None) for d in found]
    if name == "token_itl":
        texts = [
            UNTRUSTED + text if d is not None and point.has("token-itl-untrusted") else text
            for point, d, text in zip(points, found, texts, strict=True)
        ]
    return _Cells(heading, unit, texts)


def _per_gpu(points: list[Point]) -> bool:
    return all(point.facts.gpus is not None for point in points)


def _shown(
    point: Point, which: Literal["headline", "beside"], *, per_gpu: bool
) -> Throughput | None:
    if point.summary is None:
        return None
    throughput: Throughput | None = getattr(point.summary.rates, which)
    if throughput is None or not per_gpu:
        return throughput
    return throughput.per(point.facts.gpus)


def _hits(summary: PointSummary | None) -> str:
    if summary is None:
        return ABSENT
    return f"{share(summary.cache_hit)}/{share(summary.cache_hit_theoretical)}"

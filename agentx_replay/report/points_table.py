"""The table of points, for a terminal and for scripts. It prints numbers; it computes none.

Throughput is per GPU where every point has a GPU count; otherwise it is the system's, and the
heading says so.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentx_replay.analysis.percentiles import Distribution
from agentx_replay.analysis.point import Point, point_row
from agentx_replay.analysis.throughput import Throughput, explanation

_ABSENT = "-"
_GAP = "  "

DEFINITIONS = (
    "ITL: P90 over responses of the mean gap between a response's tokens, first token excluded, "
    "linear interpolation. tok/s/user: 1 / P90 ITL. Tokens: input, reused input included, and "
    "output, of responses that ended well, over the time from the first send to the last end; "
    "new: without cached input; out: output only; window: counted as they happen in the measured "
    "window. TTFT: from send. Hit: cached / input tokens as the server reports, and with an "
    "unlimited cache."
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


def points_table(points: Sequence[Point], width: int = 100) -> str:
    """Return the points by rising concurrency as text no wider than ``width`` columns (at least
    100), then every reason against a point, notes on it, and the definitions.
    """
    ordered = sorted(points, key=lambda point: point.concurrency)
    if not ordered:
        return "no point was measured"
    columns = [column.lines() for column in _columns(ordered)]
    rows = [_GAP.join(cells).rstrip() for cells in zip(*columns, strict=True)]
    rows.insert(2, "-" * max(len(row) for row in rows))
    notes = [line for point in ordered for line in _notes(point)]
    paragraphs = [*notes, *_shared_notes(ordered), "", DEFINITIONS]
    wrapped = [
        line
        for text in paragraphs
        for line in textwrap.wrap(text, width, subsequent_indent="  ") or [""]
    ]
    return "\n".join([*rows, "", *wrapped])


def points_json(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return the points by rising concurrency as plain values: the columns of points.parquet."""
    return [point_row(point) for point in sorted(points, key=lambda point: point.concurrency)]


def _columns(points: list[Point]) -> list[_Cells]:
    unit = "tok/s/GPU" if _per_gpu(points) else "tok/s"
    summaries = [point.summary for point in points]
    headlines = [_shown(point, windowed=False, per_gpu=_per_gpu(points)) for point in points]
    windowed = [_shown(point, windowed=True, per_gpu=_per_gpu(points)) for point in points]
    counts = [s.counts if s else None for s in summaries]
    return [
        _Cells("conc", "lanes", [str(point.concurrency) for point in points]),
        _Cells("P90 ITL", "ms", [_ms(s.response_itl if s else None) for s in summaries]),
        _Cells("speed", "tok/s/user", [_rate(s.interactivity if s else None) for s in summaries]),
        _Cells("total", unit, [_rate(h.total_tokens_per_s if h else None) for h in headlines]),
        _Cells("window", unit, [_rate(w.total_tokens_per_s if w else None) for w in windowed]),
        _Cells("new", unit, [_rate(h.uncached_tokens_per_s if h else None) for h in headlines]),
        _Cells("out", unit, [_rate(h.output_tokens_per_s if h else None) for h in headlines]),
        _Cells("TTFT", "P50/P90 s", [_seconds(s.ttft if s else None) for s in summaries]),
        _Cells(
            "hit",
            "%/%",
            [
                f"{_share(s.cache_hit)}/{_share(s.cache_hit_theoretical)}" if s else _ABSENT
                for s in summaries
            ],
        ),
        _Cells("ok", "", [str(c.measured) if c else _ABSENT for c in counts]),
        _Cells("bad", "", [str(c.sent - c.measured) if c else _ABSENT for c in counts]),
        _Cells("valid", "", ["yes" if p.verdict.valid else "NO" for p in points]),
    ]


def _per_gpu(points: list[Point]) -> bool:
    return all(point.facts.gpus is not None for point in points)


def _shown(point: Point, *, windowed: bool, per_gpu: bool) -> Throughput | None:
    if point.summary is None:
        return None
    rates = point.summary.rates
    throughput = rates.windowed if windowed else rates.headline
    if throughput is None or not per_gpu:
        return throughput
    return throughput.per(point.facts.gpus)


def _ms(found: Distribution | None) -> str:
    return f"{found.p90_s * 1e3:.2f}" if found else _ABSENT


def _seconds(found: Distribution | None) -> str:
    return f"{found.p50_s:.3g}/{found.p90_s:.3g}" if found else _ABSENT


def _rate(value: float | None) -> str:
    """At least three significant digits: 12.3, 1,234."""
    if value is None:
        return _ABSENT
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _share(value: float | None) -> str:
    return f"{value * 100:.1f}" if value is not None else _ABSENT


def _notes(point: Point) -> list[str]:
    """Return what is to be said about one point alone."""
    label = f"concurrency {point.concurrency}"
    notes = [f"{label} is not valid: {reason}" for reason in point.verdict.invalid_reasons]
    summary = point.summary
    if summary is None:
        return notes
    counts = summary.counts
    bad = [
        f"{number} {what}"
        for number, what in (
            (counts.failed, "failed"),
            (counts.overflow, "overflowed the context"),
            (counts.cut, "cut"),
            (counts.length_mismatch, "of another length than asked"),
            (counts.retries, "sent again on a new connection"),
        )
        if number
    ]
    if bad:
        kinds = ", ".join(f"{name} {number}" for name, number in counts.categories)
        notes.append(
            f"{label}: of {counts.sent} requests {', '.join(bad)}"
            + (f" (errors: {kinds})" if kinds else "")
        )
    difference = summary.rates.difference
    why = explanation(difference) if difference else None
    if why is not None:
        notes.append(f"{label}: {why}")
    if point.instrument is not None and not point.instrument.token_itl_trusted:
        notes.append(f"{label}: loop lag is over 10 % of the ITL; do not trust its token ITL")
    return notes


def _shared_notes(points: list[Point]) -> list[str]:
    """Return what holds for the whole run, each said once."""
    reasons = dict.fromkeys(r for point in points for r in point.verdict.incomparable_reasons)
    notes = [f"not comparable: {'; '.join(reasons)}"] if reasons else []
    if not _per_gpu(points):
        notes.append("throughput is the whole system's: no GPU count was given (--gpus)")
    return notes

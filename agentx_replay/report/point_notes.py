"""What is to be said about points under their table, in the order in which it matters.

First why points are not valid, then what to mind, last what shows that all went as recorded. Each
level has one line of a kind; the whole is on the page and in ``point.json``.
"""

from collections.abc import Callable, Sequence

from agentx_replay.analysis.caution import cautions, curve_cautions, token_itl_trusted
from agentx_replay.analysis.metrics import Counts
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.throughput import worth_explaining
from agentx_replay.report.fidelity_lines import broken_line, counted_line, kept_line
from agentx_replay.report.numerals import UNTRUSTED
from agentx_replay.report.verdict_lines import comparability_lines
from agentx_replay.wording import counted


def invalid_lines(points: Sequence[Point]) -> list[str]:
    """Return every reason why a point is not valid."""
    return [
        f"{_label(point)} is not valid: {reason}"
        for point in points
        for reason in point.verdict.invalid_reasons
    ]


def warning_lines(points: Sequence[Point]) -> list[str]:
    """Return what to mind about points, and what holds for the whole run once."""
    lines = [f"{_label(point)}: {line}" for point in points for line in _warnings(point)]
    lines += [f"CAUTION: {caution}" for caution in curve_cautions(points)]
    lines += comparability_lines(points)
    if any(point.facts.gpus is None for point in points):
        lines.append("throughput is the whole system's: no GPU count was given (--gpus)")
    return lines


def audit_lines(points: Sequence[Point]) -> list[str]:
    """Return, under a heading for each, what was kept of the recording, what was counted, the
    client's own error and how throughput in the window differs; a line a level, where there is one.
    """
    return [line for heading, of in _AUDITS for line in _under(heading, points, of)]


def _under(heading: str, points: Sequence[Point], of: Callable[[Point], str | None]) -> list[str]:
    found = [(point.name, line) for point in points if (line := of(point)) is not None]
    width = max((len(name) for name, _ in found), default=0)
    return [heading, *(f"  {name:>{width}}: {line}" for name, line in found)] if found else []


def _label(point: Point) -> str:
    return f"concurrency {point.name}"


def _warnings(point: Point) -> list[str]:
    """Return what is not as it should be in a point, beside what makes it invalid."""
    lines = [f"CAUTION: {caution}" for caution in cautions(point)]
    if point.summary is not None and (failed := _failures(point.summary.counts)) is not None:
        lines.append(failed)
    if not token_itl_trusted(point):
        lines.append(f"loop lag is over 10 % of the ITL; do not trust its token ITL ({UNTRUSTED})")
    if point.fidelity is not None and (broken := broken_line(point.fidelity)) is not None:
        lines.append(broken)
    return lines


def _failures(counts: Counts) -> str | None:
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
    if not bad:
        return None
    kinds = ", ".join(f"{name} {number}" for name, number in counts.categories)
    said = f"of {counted(counts.sent, 'request')} {', '.join(bad)}"
    return f"{said} (errors: {kinds})" if kinds else said


def _kept(point: Point) -> str | None:
    return kept_line(point.fidelity) if point.fidelity is not None else None


def _counts(point: Point) -> str | None:
    return counted_line(point.fidelity) if point.fidelity is not None else None


def _client(point: Point) -> str | None:
    of = point.instrument
    if of is None:
        return None
    parts = [
        f"{name} {value_s * 1e3:.1f} ms"
        for name, value_s in (("send lag", of.send_lag_p99_s), ("loop lag", of.loop_lag_p99_s))
        if value_s is not None
    ]
    if of.busiest_cpu_share is not None:
        parts.append(f"{of.busiest_cpu_share:.0%} of a core")
    if of.itl_shift is not None:
        parts.append(f"P90 ITL could move by {of.itl_shift:.1%}")
    return ", ".join(parts) or None


def _window(point: Point) -> str | None:
    of = point.summary.rates.difference if point.summary is not None else None
    if of is None or not worth_explaining(of):
        return None
    return (
        f"{of.relative:+.1%}: drain {counted(round(of.drained_tokens), 'token')}, cut "
        f"{counted(round(of.cut_tokens), 'token')}, ramp {of.ramp_s:.1f} s, end {of.drain_s:+.1f} s"
    )


_AUDITS: tuple[tuple[str, Callable[[Point], str | None]], ...] = (
    ("fidelity to the recording, by concurrency (more in report.html and point.json):", _kept),
    ("clamped, dropped, repeated or skipped, by concurrency:", _counts),
    ("the client's own error, by concurrency (lags P99, the busiest worker):", _client),
    (
        "throughput in the window, by concurrency, from total (drain: came after the window; "
        "cut: in it, of cut responses; ramp: opening to first send; end: close to last end):",
        _window,
    ),
)

"""Notes under the table of points, the most important first.

First why points are not valid, then what to mind, last what shows that all went as recorded. Each
level has one line of a kind; the whole is on the page and in ``point.json``.
"""

from collections.abc import Callable, Sequence

from agentx_replay.analysis.findings import Kind
from agentx_replay.analysis.point import Point, run_findings
from agentx_replay.analysis.throughput import worth_explaining
from agentx_replay.report.fidelity_lines import counted_line, kept_line
from agentx_replay.report.server_words import server_text
from agentx_replay.report.verdict_lines import comparability_lines, finding_lines
from agentx_replay.wording import counted


def invalid_lines(points: Sequence[Point]) -> list[str]:
    """Return every reason why a point is not valid."""
    return finding_lines(run_findings(points), Kind.INVALID)


def warning_lines(points: Sequence[Point]) -> list[str]:
    """Return what to mind about points, and what holds for the whole run once."""
    findings = run_findings(points)
    lines = [*finding_lines(findings, Kind.WARNING), *finding_lines(findings, Kind.BROKEN)]
    lines += comparability_lines(points)
    if any(point.facts.gpus is None for point in points):
        lines.append("throughput is the whole system's: no GPU count was given (--gpus)")
    return lines


def audit_lines(points: Sequence[Point]) -> list[str]:
    """Return, under a heading for each, what was kept of the recording, what was counted, the
    client's own error and how throughput in the window differs; a line a level, where there is one.
    """
    return [line for heading, of in _AUDITS for line in _under(heading, points, of)]


def window_lines(points: Sequence[Point]) -> list[str]:
    """Return how throughput in the window differs, the heading first."""
    return _under(_WINDOW_HEADING, points, _window)


def _under(heading: str, points: Sequence[Point], of: Callable[[Point], str | None]) -> list[str]:
    found = [(point.name, line) for point in points if (line := of(point)) is not None]
    width = max((len(name) for name, _ in found), default=0)
    return [heading, *(f"  {name:>{width}}: {line}" for name, line in found)] if found else []


def _kept(point: Point) -> str | None:
    return kept_line(point.fidelity) if point.fidelity is not None else None


def _counts(point: Point) -> str | None:
    return counted_line(point.fidelity) if point.fidelity is not None else None


def _client(point: Point) -> str | None:
    of = point.instrument
    if of is None:
        return None
    parts = [f"{of.timestamps} timestamps"]
    parts += [
        f"{name} {value_s * 1e3:.1f} ms"
        for name, value_s in (("send lag", of.send_lag_p99_s), ("loop lag", of.loop_lag_p99_s))
        if value_s is not None
    ]
    if of.busiest_cpu_share is not None:
        parts.append(f"{of.busiest_cpu_share:.0%} of a core")
    parts += [
        f"{name} within {shift:.1%}"
        for name, shift in (("P90 ITL", of.itl_shift), ("TTFT", of.ttft_shift))
        if shift is not None
    ]
    if of.late_event_share:
        parts.append(f"{of.late_event_share:.2%} of them upper bounds")
    return ", ".join(parts)


def _window(point: Point) -> str | None:
    of = point.summary.rates.difference if point.summary is not None else None
    if of is None or not worth_explaining(of):
        return None
    return (
        f"{of.relative:+.1%}: drain {counted(round(of.drained_tokens), 'token')}, cut "
        f"{counted(round(of.cut_tokens), 'token')}, ramp {of.ramp_s:.1f} s, end {of.drain_s:+.1f} s"
    )


_WINDOW_HEADING = (
    "throughput in the window, by concurrency, from the overall (drain: came after the window; "
    "cut: in it, of cut responses; ramp: opening to first send; end: close to last end):"
)
_AUDITS: tuple[tuple[str, Callable[[Point], str | None]], ...] = (
    ("fidelity to the recording, by concurrency (more in report.html and point.json):", _kept),
    ("clamped, dropped, repeated or skipped, by concurrency:", _counts),
    ("the client's own error, by concurrency (lags P99, the busiest worker):", _client),
    ("what the server tells of itself, by concurrency:", server_text),
    (_WINDOW_HEADING, _window),
)

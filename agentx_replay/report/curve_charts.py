"""The figures of a whole run: the curve with its targets, and how latencies are spread."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from urllib.parse import quote

import numpy as np

from agentx_replay.analysis.curve import Curve, CurvePoint, PointInterval
from agentx_replay.analysis.findings import Kind
from agentx_replay.analysis.percentiles import Spread
from agentx_replay.analysis.point import Point, Profile, point_row
from agentx_replay.analysis.responses import Floats
from agentx_replay.analysis.run import Run
from agentx_replay.analysis.starts import Interval
from agentx_replay.report.chart import Axis, Chart, linear_axis, log_axis, stylesheet
from agentx_replay.report.numerals import (
    UNTRUSTED,
    agents,
    rate,
    speed,
    throughput_unit,
)
from agentx_replay.report.targets import target_text

_MARGIN = 1.12
_FAR_END = 2.0
"""The end of an interval of two starts may lie so far away that the curve would be a dot beside it:
beyond so many times the greatest value the figure does not follow."""
_DOT, _NAME = 0.01, 0.09
"""Widths of half a dot, and of a level's name beside it on a phone, in shares of the figure."""


STYLES = ("s1", "s3", "s4", "s5")
"""The colours of curves in one picture; s2 is of targets."""


@dataclass(frozen=True, slots=True)
class Series:
    """A curve of a picture, with the points of its run; without a ``name`` it is the only one."""

    curve: Curve
    points: Sequence[Point]
    name: str = ""
    style: str = STYLES[0]


def curve_figure(series: Sequence[Series]) -> str:
    """Return curves in one picture: points with their intervals, the frontiers, and the targets
    they reach; of the points those that are not valid beside them. Nothing if there are none.
    """
    curves = [each.curve for each in series]
    unit = throughput_unit(curves[0].gpus, curves[0].headline_is)
    not_valid = [(each, *found) for each in series for found in _not_valid(each)]
    speeds = [*chain(*map(_speeds, curves)), *(speed for _, _, speed, _ in not_valid)]
    if not speeds:
        return ""
    throughputs = [*chain(*map(_throughputs, curves)), *(of for _, _, _, of in not_valid)]
    chart = Chart(
        "Throughput against speed",
        linear_axis(0, max(speeds) * _MARGIN, 6),
        linear_axis(0, max(throughputs) * _MARGIN),
        "interactivity: tok/s/user at the P90 of response ITL — faster to the right",
        f"{unit}, reused input included",
        "Each point is a level, named by its number of agents. Up and to the right is better.",
        380,
    )
    for each in series:
        _line(chart, each)
    for target in dict.fromkeys(value.target for curve in curves for value in curve.values):
        if target <= chart.x.high:
            chart.vertical(target, "target", f"{speed(target)}")
    for found in not_valid:
        _ring(chart, *found)
    for each in series:
        for point in each.curve.points:
            _point(chart, point, each, unit)
        _read_off(chart, each, unit)
    for style, text in _legend(series, bool(not_valid)):
        chart.key(style, text)
    picture = quote(chart.svg(stylesheet()))
    link = f'<a download="curve.svg" href="data:image/svg+xml,{picture}">curve.svg</a>'
    return f'{chart.html()}<p class="small">The picture: {link}</p>'


def _line(chart: Chart, of: Series) -> None:
    xs = np.array([point.interactivity for point in of.curve.points])
    ys = np.array([point.throughput for point in of.curve.points])
    if len(xs) > 1:
        legend = "" if of.name else "interpolation between neighbouring levels"
        chart.line(xs, ys, f"{of.style} thin", legend)


def _read_off(chart: Chart, of: Series, unit: str) -> None:
    for value in of.curve.values:
        if value.interval is not None:
            ends = (value.interval.low, value.interval.high)
            chart.bar((value.target, value.target), ends, "s2 thick")
        if value.throughput is not None:
            said = f"{of.name} at {speed(value.target)} tok/s/user: {target_text(value)} {unit}"
            chart.dot(value.target, value.throughput, "s2", said.lstrip())


def _legend(series: Sequence[Series], not_valid: bool) -> Iterator[tuple[str, str]]:
    """Yield a style with its meaning for everything that is drawn."""
    curves = [each.curve for each in series]
    starts = any(curve.intervals for curve in curves)
    values = [value for curve in curves for value in curve.values]
    style = series[0].style
    for drawn, of, text in (
        *((bool(each.name), each.style, each.name) for each in series),
        (any(curve.points for curve in curves), f"dot {style}", "level on the frontier"),
        (not_valid, "ring", "not valid: for looking only, in no interpolation"),
        (starts, "dot hollow small", "one start of a level, whose mean is its point"),
        (
            any(len(curve.frontier) < len(curve.points) for curve in curves),
            "dot hollow",
            "level that another one beats in both",
        ),
        (starts, f"error {style}", "95 % interval of a level, in both"),
        (any(v.throughput is not None for v in values), "dot s2", "read off at a target"),
        (any(v.interval for v in values), "s2", "95 % interval of what is read off"),
    ):
        if drawn:
            yield of, text


def _point(chart: Chart, point: CurvePoint, of: Series, unit: str) -> None:
    curve = of.curve
    intervals = curve.intervals.get(point.concurrency)
    if intervals is not None:
        _cross(chart, point, intervals, of.style)
    level = f"{of.name} {agents([point.concurrency])}".lstrip()
    for start in _several(curve, point.concurrency):
        speed_of, throughput = start.interactivity, start.throughput
        said = f"one start: {rate(speed_of)} tok/s/user, {rate(throughput)} {unit}"
        chart.dot(speed_of, throughput, "hollow small", said)
    hover = f"{level}: {rate(point.interactivity)} tok/s/user, {rate(point.throughput)} {unit}"
    style = of.style if point in curve.frontier else "hollow"
    chart.dot(point.interactivity, point.throughput, style, hover)
    in_the_middle = of.name and point == curve.points[len(curve.points) // 2]
    name = f"{of.name}: {point.concurrency}" if in_the_middle else str(point.concurrency)
    under = _target_beside(chart, point, curve)
    chart.label(point.interactivity, point.throughput, name, under=under)


def _several(curve: Curve, concurrency: int) -> Sequence[CurvePoint]:
    """Return the starts of a level that has more than one."""
    starts = curve.starts[concurrency]
    return list(starts.values()) if len(starts) > 1 else ()


def _target_beside(chart: Chart, point: CurvePoint, curve: Curve) -> bool:
    """Whether a target's line passes where a level's name would stand, right above its point."""
    targets = [value.target for value in curve.values]
    distances = chart.x.place(targets) - chart.x.place([point.interactivity])
    return bool(((distances > -_DOT) & (distances < _NAME)).any())


def _cross(chart: Chart, point: CurvePoint, intervals: PointInterval, style: str) -> None:
    speeds, throughputs = intervals.interactivity, intervals.throughput
    at, up = point.interactivity, point.throughput
    chart.bar((speeds.low, speeds.high), (up, up), f"{style} error")
    chart.bar((at, at), (throughputs.low, throughputs.high), f"{style} error")


def _not_valid(of: Series) -> Iterator[tuple[Point, float, float]]:
    """Yield the points that are on no curve and can still be seen, with speed and throughput."""
    per = "" if of.curve.gpus is None else "_per_gpu"
    for point in of.points:
        row = point_row(point)
        at, throughput = row["interactivity"], row[f"total_tokens_per_s{per}"]
        if not point.valid and at is not None and throughput is not None:
            yield point, at, throughput


def _ring(chart: Chart, of: Series, point: Point, at: float, throughput: float) -> None:
    why = next(each for each in point.findings if each.kind is Kind.INVALID)
    level = f"{of.name} {agents([point.measurement])}".lstrip()
    chart.ring(at, throughput, f"{level}: not valid: {why.text}")
    name = f"{of.name} {point.name}: not valid".lstrip()
    chart.label(at, throughput, name, "not-valid")


def _speeds(curve: Curve) -> list[float]:
    """Return what the axis reaches: every start, and targets and intervals not far beyond."""
    starts = [each.interactivity for level in curve.starts.values() for each in level.values()]
    near = [v.target for v in curve.values if v.target <= max(starts, default=0.0) * 1.5]
    return [*_reached(starts, [each.interactivity for each in curve.intervals.values()]), *near]


def _throughputs(curve: Curve) -> list[float]:
    starts = [each.throughput for level in curve.starts.values() for each in level.values()]
    return _reached(starts, [each.throughput for each in curve.intervals.values()])


def _reached(starts: Sequence[float], intervals: Sequence[Interval]) -> list[float]:
    most = max(starts, default=0.0)
    return [*starts, *(each.high for each in intervals if each.high <= most * _FAR_END)]


# --- latencies -----------------------------------------------------------------------------------


_OF_TOKENS = "Token ITL"
_UNTRUSTED = f"Dashed and marked {UNTRUSTED}: the client was too slow to measure it."
_SPREADS: tuple[tuple[str, Callable[[Profile], Spread | None], float, str], ...] = (
    ("Response ITL", lambda profile: profile.response_itl, 1e3, "ms"),
    (_OF_TOKENS, lambda profile: profile.token_itl, 1e3, "ms"),
    ("Time to first token", lambda profile: profile.ttft, 1.0, "s"),
    ("End to end", lambda profile: profile.end_to_end, 1.0, "s"),
)
_SHARES = ((0.0, "0"), (0.5, "P50"), (0.9, "P90"), (0.99, "P99"), (0.999, "P99.9"))


def latency_figures(run: Run) -> str:
    """Return a percentile plot for each latency, one line a level."""
    return "".join(
        figure
        for title, pick, scale, unit in _SPREADS
        if (figure := _spread_figure(run.points, title, pick, scale, unit))
    )


def _spread_figure(
    points: Sequence[Point],
    title: str,
    pick: Callable[[Profile], Spread | None],
    scale: float,
    unit: str,
) -> str:
    untrusted = {
        point.measurement
        for point in points
        if title == _OF_TOKENS and point.has("token-itl-untrusted")
    }
    spreads = [
        (point.measurement, found)
        for point in points
        if point.profile is not None and (found := pick(point.profile)) is not None
    ]
    positive = [s.values_s[s.values_s > 0] * scale for _, s in spreads]
    values = np.concatenate([[], *positive])
    if not len(values):
        return ""
    last = max(float(s.shares[-1]) for _, s in spreads)
    chart = Chart(
        title,
        Axis(0.0, max(last, 0.9), tuple(t for t in _SHARES if t[0] <= max(last, 0.9)), _nines),
        log_axis(float(values.min()), float(values.max())),
        "percentile",
        unit,
        _UNTRUSTED if untrusted else "",
        height_px=240,
    )
    for number, (of, found) in enumerate(spreads):
        shade = 10 if len(spreads) == 1 else round(10 * number / (len(spreads) - 1))
        ys = np.where(found.values_s > 0, found.values_s * scale, np.nan)
        dashed, mark = (" dashed", UNTRUSTED) if of in untrusted else ("", "")
        start = f", start {of.start}" if of.start > 1 else ""
        legend = f"{mark}{agents([of.concurrency])}{start}"
        chart.line(found.shares, ys, f"ramp r{shade}{dashed}", legend)
    # Starts of a level end beside each other: one of them bears its name, the legend tells all.
    firsts = {of.concurrency: (of, found) for of, found in reversed(spreads)}
    for of, found in firsts.values():
        mark, end = UNTRUSTED if of in untrusted else "", float(found.values_s[-1]) * scale
        if end > 0:
            chart.label(float(found.shares[-1]), end, f"{mark}{of.concurrency}", "end")
    return chart.html()


def _nines(shares: Floats) -> Floats:
    """Stretch the tail: each nine takes as much room as the one before."""
    stretched: Floats = -np.log10(1.0 - np.asarray(shares, np.float64))
    return stretched

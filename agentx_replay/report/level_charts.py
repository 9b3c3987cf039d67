"""The figures of one concurrency level over time: lanes, load, cache, the server, the client."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from agentx_replay.analysis.client_lag import lag_p99_by_second, samples_of
from agentx_replay.analysis.point import Point, level_metrics
from agentx_replay.analysis.responses import Floats, Window
from agentx_replay.analysis.run import read_requests
from agentx_replay.analysis.server import (
    Metrics,
    Speculation,
    gauge_over_time,
    growth_in,
    growth_over_time,
    mean_alive_at,
    speculation,
)
from agentx_replay.analysis.timeline import (
    Timeline,
    lane_runs,
    mean_alive,
    share_over_time,
    timeline_of,
)
from agentx_replay.report.chart import Axis, Chart, linear_axis, log_axis
from agentx_replay.results.run_directory import StoredPoint
from agentx_replay.results.server_names import Metric
from agentx_replay.text_format import counted
from agentx_replay.units import NS_PER_S

_MOST_BINS = 180
_FEWEST_BINS = 10
_LEAST_BIN_S = 2.0
"""Twice the interval between two scrapes, so that no bin is without one."""
_LANE_COLUMNS = 1200
_FEWER_LANE_COLUMNS = 600
_MANY_LANES = 128
_TALLEST_LANES_PX = 640
_SHARE_AXIS = Axis(0, 1.02, tuple((v / 100, f"{v} %") for v in (0, 25, 50, 75, 100)))
_GAUGES = (Metric.RUNNING, Metric.WAITING)
_COUNTERS = (
    " The server's counters move when a prompt is looked up and are read once a second; a response "
    "counts when its first token comes. So they differ from step to step, and over the window "
    "they are compared under “The cache, counted twice”."
)


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """The figures of a level as HTML, and what its server says of speculative decoding."""

    html: str
    speculation: Speculation | None


@dataclass(frozen=True, slots=True, eq=False)
class _Stage:
    """What all figures of a level share: time in s since the window opened, in bins."""

    length_s: float
    edges_s: Floats
    x: Axis


def level_figures(level: Point) -> LevelFigures | None:
    """Return the figures of a level; None where its window never opened."""
    window, stored = level.facts.window, level.stored
    if window is None or stored is None:
        return None
    requests = timeline_of(read_requests(stored), window)
    metrics = level_metrics(stored.directory, window)
    stage = _stage(requests, window)
    figures = [
        _lanes(stored, requests, window, stage),
        _load(requests, metrics, stage),
        _cache(requests, metrics, stage),
        _kv(metrics, stage),
        _client(level, stored, window, stage),
    ]
    return LevelFigures("".join(figures), speculation(metrics, window.length_s))


def _stage(requests: Timeline, window: Window) -> _Stage:
    """Return the span from the first send, warm-up included, to the last end."""
    start_s = min(float(requests.send_s.min(initial=0.0)), 0.0)
    end_s = max(float(requests.end_s.max(initial=0.0)), window.length_s)
    bins = int(np.clip((end_s - start_s) / _LEAST_BIN_S, _FEWEST_BINS, _MOST_BINS))
    x = linear_axis(start_s, end_s, 6, lambda value: f"{value:g}")
    return _Stage(window.length_s, np.linspace(start_s, end_s, bins + 1), x)


def _chart(stage: _Stage, title: str, y: Axis, unit: str, note: str, height_px: int = 200) -> Chart:
    chart = Chart(title, stage.x, y, "seconds since the window opened", unit, note, height_px)
    chart.band(stage.x.low, 0.0, "outside")
    chart.band(stage.length_s, stage.x.high, "outside")
    return chart


# --- lanes ---------------------------------------------------------------------------------------


def _lanes(stored: StoredPoint, requests: Timeline, window: Window, stage: _Stage) -> str:
    lanes = stored.concurrency
    row_px = min(max(_TALLEST_LANES_PX / lanes, 2.0), 22.0)
    ticks = linear_axis(0, lanes, min(lanes, 8)).ticks
    # Lane 0 is on top; a lane's name stands in the middle of its row.
    named = tuple((lanes - v - 0.5, t) for v, t in ticks if v < lanes and v == int(v))
    chart = _chart(
        stage,
        "What each lane was doing",
        Axis(0, lanes, named),
        "lane",
        "One row a lane: the main conversation above, its subagents below. Empty is waiting by the "
        "recording's own gaps. Shaded: before and after the measured window.",
        round(row_px * lanes),
    )
    columns = _LANE_COLUMNS if lanes <= _MANY_LANES else _FEWER_LANE_COLUMNS
    edges_s = np.linspace(stage.x.low, stage.x.high, columns + 1)
    rows = ((True, 0.34, 0.5, "main"), (False, 0.78, 0.3, "sub"))
    for is_main, middle, thickness, style in rows:
        chosen = requests.is_main == is_main
        spans = (
            ("first-token", requests.send_s, requests.first_s),
            (style, requests.first_s, requests.end_s),
        )
        for name, start_s, end_s in spans:
            runs = lane_runs(requests.lane[chosen], start_s[chosen], end_s[chosen], lanes, edges_s)
            chart.rows(
                (runs.row + middle) / lanes,
                runs.start / columns,
                runs.length / columns,
                f"run {name}",
                row_px * thickness,
            )
    _restarts(chart, stored, window, lanes)
    bad = ~requests.good
    if bad.any():
        heights = lanes - requests.lane[bad].astype(np.float64) - 0.5
        chart.marks(requests.end_s[bad], heights, "dot small bad")
        chart.key("bad", "failed or cut")
    chart.key("first-token", "waiting for the first token")
    chart.key("main", "generating, main conversation")
    if not requests.is_main.all():
        chart.key("sub", "generating, subagent")
    chart.key("restart", "the next session begins")
    return chart.html()


def _restarts(chart: Chart, stored: StoredPoint, window: Window, lanes: int) -> None:
    plays = stored.plays()
    again = plays["play_number"].to_numpy() > 0
    start_s = (plays["start_ns"].to_numpy()[again] - window.open_ns) / NS_PER_S
    lane = plays["lane"].to_numpy()[again]
    chart.uprights(start_s, lanes - lane - 1.0, 1.0, "restart")


# --- load ----------------------------------------------------------------------------------------


def _load(requests: Timeline, metrics: Metrics, stage: _Stage) -> str:
    edges_s = stage.edges_s
    note = "Averages over time."
    alive = partial(mean_alive, edges_s=edges_s)
    if Metric.RUNNING in metrics or Metric.WAITING in metrics:
        # A gauge is known at scrapes alone: the client is looked at when the server is, so that
        # the two can be set side by side.
        asked_s = np.unique(np.concatenate([s.at_s for m in _GAUGES for s in metrics.get(m, ())]))
        alive = partial(mean_alive_at, at_s=asked_s, edges_s=edges_s)
        note = "Client and server at the same instants, about one a second; averages of these."
    in_flight = alive(requests.send_s, requests.end_s)
    waiting = alive(requests.send_s, requests.first_s)
    lines = [
        (in_flight, "s1", "in flight (client)"),
        (waiting, "s2 dashed", "of these, waiting for the first token"),
    ]
    for metric, style, name in (
        (Metric.RUNNING, "s3", "running (server)"),
        (Metric.WAITING, "s4 dashed", "queued (server)"),
    ):
        if metric in metrics:
            lines.append((gauge_over_time(metric, metrics[metric], edges_s), style, name))
    highest = max((float(np.nanmax(v)) for v, _, _ in lines if not np.isnan(v).all()), default=1.0)
    chart = _chart(
        stage, "In flight and queue", linear_axis(0, max(highest, 1.0) * 1.05), "requests", note
    )
    for values, style, name in lines:
        chart.steps(edges_s, values, style, name)
    return chart.html()


def _cache(requests: Timeline, metrics: Metrics, stage: _Stage) -> str:
    edges_s = stage.edges_s
    counters = Metric.CACHE_HITS in metrics and Metric.CACHE_QUERIES in metrics
    chart = _chart(
        stage,
        "Cache hit",
        _SHARE_AXIS,
        "share of prompt tokens",
        "What the server took from its prefix cache, beside what an unlimited cache would hold for "
        "exactly these requests." + (_COUNTERS if counters else ""),
    )
    if not np.isnan(requests.cached).all():
        cached = np.where(requests.good, np.nan_to_num(requests.cached), np.nan)
        measured = share_over_time(cached, requests.prompt, requests.first_s, edges_s)
        chart.steps(edges_s, measured, "s1", "measured (usage of each response)")
    if counters:
        hits = growth_over_time(metrics[Metric.CACHE_HITS], edges_s)
        queries = growth_over_time(metrics[Metric.CACHE_QUERIES], edges_s)
        told = np.where(queries > 0, hits / np.where(queries > 0, queries, 1.0), np.nan)
        chart.steps(edges_s, told, "s3", "server's counters")
    elif Metric.CACHE_HIT in metrics:
        gauge = gauge_over_time(Metric.CACHE_HIT, metrics[Metric.CACHE_HIT], edges_s)
        chart.steps(edges_s, gauge, "s3", "server's gauge")
    possible = share_over_time(requests.reusable, requests.planned, requests.first_s, edges_s)
    chart.steps(edges_s, possible, "s2 dashed", "unlimited cache (theoretical)")
    return chart.html()


def _kv(metrics: Metrics, stage: _Stage) -> str:
    """Return the server's memory over time; nothing where it does not tell."""
    if Metric.KV_USAGE not in metrics:
        return ""
    edges_s = stage.edges_s
    most = max(float(each.values.max()) for each in metrics[Metric.KV_USAGE])
    note = f"At most {most:.1%} in any scrape."
    number = growth_in(metrics, Metric.PREEMPTIONS, stage.length_s)
    if number is not None:
        note += f" {counted(round(number), 'request')} preempted in the window."
    chart = _chart(stage, "KV cache in use", _SHARE_AXIS, "share", note)
    usage = gauge_over_time(Metric.KV_USAGE, metrics[Metric.KV_USAGE], edges_s)
    chart.steps(edges_s, usage, "s3", "server's gauge")
    return chart.html()


# --- the client itself ---------------------------------------------------------------------------


def _client(level: Point, stored: StoredPoint, window: Window, stage: _Stage) -> str:
    """Return the instrument's own lag over time; nothing for a run in virtual time."""
    samples = samples_of(stored.instrument())
    if samples is None:
        return ""
    lag_ns = lag_p99_by_second(samples)
    at_s = np.array([second + 0.5 - window.open_ns / NS_PER_S for second in lag_ns])
    lag_ms = np.array(list(lag_ns.values())) / 1e6
    kept = (at_s >= stage.x.low) & (at_s <= stage.x.high)
    at_s, lag_ms = at_s[kept], np.maximum(lag_ms[kept], 1e-3)
    if not len(at_s):
        return ""
    summary = level.summary
    itl = summary.response_itl if summary else None
    limit_ms = itl.p90_s * 100 if itl else None
    ends_ms = [float(lag_ms.min()), float(lag_ms.max()), *([limit_ms] if limit_ms else [])]
    chart = _chart(
        stage,
        "The client's own lag",
        log_axis(min(ends_ms), max(ends_ms)),
        "ms, P99 of each second",
        "How late the client's timers fired. Stamps can be off by this much.",
    )
    chart.line(at_s, lag_ms, "s1", "loop lag")
    if limit_ms is not None:
        ends = np.array([stage.x.low, stage.x.high])
        chart.line(ends, np.full(2, limit_ms), "s4 dashed", "10 % of the P90 ITL")
    return chart.html()

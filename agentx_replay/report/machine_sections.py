"""What is said of client machines: by ``check``, by ``plan``, and in the report of levels that
several played.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from agentx_replay.analysis.machines import Interval, MachineFacts
from agentx_replay.analysis.point import Point
from agentx_replay.report.numerals import ABSENT, percent
from agentx_replay.report.tables import Section, by_heading
from agentx_replay.text_format import counted

_NOTE = (
    "Clock: by how much the driver's and the machine's could disagree at most, and how far they "
    "moved apart in the level; no TTFT, ITL or lag compares two clocks. P90 with its 95 % "
    "interval, from lanes drawn with replacement."
)


def machines_section(points: Sequence[Point]) -> Section:
    """Return what each machine saw of each level."""
    heads, rows = by_heading([cells for point in points for cells in _cells(point)])
    if not rows:
        return Section("By client machine")
    close, sent = (sum(each) for each in zip(*(p.close_sends for p in points), strict=True))
    order = (
        f"{close:,} of {sent:,} sends came so soon after one of another machine that their order "
        "is not known."
    )
    return Section("By client machine", heads=heads, rows=rows, notes=[_NOTE, order], rank=3)


def _cells(point: Point) -> Iterator[dict[str, str]]:
    for index, machine in enumerate(point.facts.machines):
        seen = point.machine_latencies[index] if point.machine_latencies else None
        client = seen.instrument if seen else None
        yield {
            "agents": point.name,
            "machine": machine.host,
            "workers": str(machine.workers),
            "most CPU\nof one": percent(client.busiest_cpu_share if client else None),
            "lanes": str(seen.lanes) if seen else ABSENT,
            "clock\n± ms": f"{machine.clock_bound_ns / 1e6:.2f}",
            "drift\nms": _drift(machine),
            "P90 ITL\nms": _interval(seen.response_itl if seen else None),
            "P90 TTFT\nms": _interval(seen.ttft if seen else None),
        }


def _drift(machine: MachineFacts) -> str:
    return ABSENT if machine.clock_drift_ns is None else f"{machine.clock_drift_ns / 1e6:+.2f}"


def _interval(found: Interval | None) -> str:
    if found is None:
        return ABSENT
    p90, least, most = (each * 1e3 for each in (found.p90_s, found.least_s, found.most_s))
    return f"{p90:.1f} ({least:.1f} – {most:.1f})"


def checked_lines(found: dict[str, Any]) -> list[str]:
    """Return what ``check`` found of a machine, as ``fleet_check`` says it."""
    clock = found["clock"]
    connects = ", ".join(f"{each * 1e3:.2f}" for each in found["connect_p50_s"])
    ceiling = found["client"]["ceiling"]
    lines = [
        f"machine {found['host']}: {counted(found['cores'], 'core')}, Python {found['python']}, "
        f"agentx-replay {found['version']}, Ray {found['ray']}",
        f"  round trip:         P50 {clock['round_trip_p50_s'] * 1e3:.1f} ms, P99 "
        f"{clock['round_trip_p99_s'] * 1e3:.1f} ms",
        f"  clock:              {-clock['ahead_ns'] / 1e6:+,.2f} ms from this one's, known to "
        f"{clock['bound_ns'] / 1e6:.2f} ms",
        f"  connects in:        {connects} ms",
        f"  one worker drives:  {ceiling['streams']:,} streams",
    ]
    return lines + [f"  FAIL: {what}" for what in found["limits"]]


def planned_line(agents: int, machines: int, workers: int, memory_bytes: int) -> str:
    """Return what a level asks of each of several machines, at most."""
    lanes = -(-agents // machines)
    return (
        f"{counted(agents, 'agent')} on {counted(machines, 'machine')}: at most "
        f"{counted(lanes, 'lane')} and as many connections, {counted(workers, 'worker')} and "
        f"{memory_bytes / 1e6:,.0f} MB on each"
    )

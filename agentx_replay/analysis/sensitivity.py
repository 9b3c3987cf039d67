"""The same records under other definitions: what a result would be if terms meant something else.

One row changes one definition of the headline: the percentile, what is an ITL, what counts as a
token, what it is divided by. Not for judging which definition is right.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agentx_replay.analysis.curve import CurvePoint, TargetValue, target_value
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.throughput import Rates


@dataclass(frozen=True, slots=True)
class Definition:
    """One row: its name, and the keys of the speed and the throughput it takes."""

    name: str
    speed: str
    throughput: str


DEFINITIONS = (
    Definition("headline: P90 response ITL, total tokens", "p90", "total"),
    Definition("P50 instead of P90", "p50", "total"),
    Definition("P95 instead of P90", "p95", "total"),
    Definition("P99 instead of P90", "p99", "total"),
    Definition("P90 by the rule sorted[int(0.9·n)]", "p90_by_index", "total"),
    Definition("token ITL", "token", "total"),
    Definition("ITL by AgentX's divisor: output tokens − 1", "agentx", "total"),
    Definition("P90 of each response's gaps, then median", "within", "total"),
    Definition("ITL up to the end of the stream", "full", "total"),
    Definition("ITL with TTFT: end to end / output tokens", "with_ttft", "total"),
    Definition("ITL of cut responses added", "with_cut", "total"),
    Definition("ITL from events in the window alone", "in_window", "total"),
    Definition("window throughput", "p90", "windowed"),
    Definition("overall throughput", "p90", "overall"),
    Definition("throughput by agentx-harness 1.0.12", "p90", "phase"),
    Definition("without reused input", "p90", "uncached"),
    Definition("output tokens only", "p90", "output"),
)


def value_at(points: Sequence[Point], definition: Definition, target: float) -> TargetValue | str:
    """Return throughput, per GPU where every point has a GPU count, at the target interactivity
    under a definition, of the ``points`` on a curve; or why a level has nothing to compute it from.
    """
    per_gpu = all(point.facts.gpus is not None for point in points)
    curves: dict[int, list[CurvePoint]] = {}
    for point in sorted(points, key=lambda each: each.measurement):
        if point.summary is None or point.on_curve is None:
            continue
        speed = point.speeds[definition.speed]
        throughput = _throughput(point.summary.rates, definition.throughput)
        if speed is None or throughput is None:
            lacking = "speed" if speed is None else "throughput"
            return f"concurrency {point.concurrency} has no such {lacking}"
        at = CurvePoint(
            point.concurrency, speed, throughput / ((point.facts.gpus or 1) if per_gpu else 1)
        )
        curves.setdefault(point.facts.start, []).append(at)
    return target_value(dict(sorted(curves.items())), target)


def _throughput(rates: Rates, key: str) -> float | None:
    """Return the throughput of the system that a definition takes, in tokens/s."""
    if key in ("uncached", "output"):
        return getattr(rates.headline, f"{key}_tokens_per_s", None)
    of = rates.headline if key == "total" else getattr(rates, key)
    return of.total_tokens_per_s if of else None

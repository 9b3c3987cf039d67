"""What a run's curve says in a terminal: throughput at target speeds, frontier, uncertainty."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from agentx_replay.analysis.curve import Curve, TargetValue
from agentx_replay.analysis.frontier import CurvePoint
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.starts import COVERS
from agentx_replay.report.numerals import columns, speed, target_note, target_text, throughput_unit
from agentx_replay.report.start_lines import start_lines
from agentx_replay.report.verdict_lines import warnings_at


def curve_lines(curve: Curve, points: Sequence[Point], width: int = 100) -> list[str]:
    """Return throughput at the targets, with the warnings on the ``points`` that it was read off,
    the frontier, and how far starts of a level lie apart, wrapped to ``width``.
    """
    unit = throughput_unit(curve.gpus, curve.headline_is)
    if not curve.points:
        return ["no valid point: no curve, and no throughput at any speed"]
    rows = [["at tok/s/user", unit, ""]]
    rows += [
        [
            ", ".join(speed(each.at.target) for each in values),
            target_text(value),
            "; ".join([target_note(value, unit), *warnings_at(value, points)]),
        ]
        for value, values in _beyond_together(curve.values)
    ]
    heads = columns([row[:2] for row in rows], left=0)
    lines = []
    for head, row in zip(heads, rows, strict=True):
        lines += textwrap.wrap(
            f"{head}  {row[2]}".rstrip(),
            width,
            subsequent_indent=" " * (len(heads[0]) + 2),
        )
    frontier = ", ".join(str(point.concurrency) for point in curve.frontier)
    lines.append(f"frontier (points no other is better than in both): concurrency {frontier}")
    return [*lines, *start_lines(curve, points, width)]


def _beyond_together(
    values: Sequence[TargetValue],
) -> Iterator[tuple[TargetValue, list[TargetValue]]]:
    """Yield values to be said in one: those beyond the same end of the curve with the nearest of
    them, of which what is said holds for the others too; every other one alone.
    """
    for _, group in groupby(values, lambda v: v.at.every_level_is or v.at.target):
        found = sorted(group, key=lambda value: value.at.target)
        yield found[-1 if found[0].at.every_level_is == "faster" else 0], found


def curve_json(curve: Curve) -> dict[str, Any]:
    """Return the curve as plain values."""
    return {
        "gpus": curve.gpus,
        "headline": curve.headline_is,
        "frontier": [point.concurrency for point in curve.frontier],
        "intervals_cover": COVERS,
        "levels": [_level_json(curve, point) for point in curve.points],
        "at": [asdict(value) for value in curve.values],
    }


def _level_json(curve: Curve, point: CurvePoint) -> dict[str, Any]:
    intervals = curve.intervals.get(point.concurrency)
    return {
        **asdict(point),
        "intervals": intervals and asdict(intervals),
        "starts": [
            {"start": start, "interactivity": of.interactivity, "throughput": of.throughput}
            for start, of in curve.starts[point.concurrency].items()
        ],
    }

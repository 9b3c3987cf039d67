"""A run as it is reported: its levels read back one by one, each reduced to what reports need.

A level's responses are let go before the next level is read; its token events are never held.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from agentx_replay.analysis.bootstrap import LaneTokens, lane_tokens
from agentx_replay.analysis.frontier import CurvePoint
from agentx_replay.analysis.mix import MIX_COLUMNS, Mix, mix_of
from agentx_replay.analysis.point import (
    Point,
    curve,
    curve_point,
    curves_by_start,
    point_from_records,
)
from agentx_replay.analysis.profile import Profile, profile_of
from agentx_replay.analysis.responses import records_of
from agentx_replay.analysis.sensitivity import LevelVariants, level_variants
from agentx_replay.analysis.throughput import Headline, headline_of
from agentx_replay.analysis.window import Window, happened_in
from agentx_replay.errors import UsageError
from agentx_replay.results.layout import Measurement, measurement_of
from agentx_replay.results.run_directory import (
    StoredPoint,
    check_place,
    check_records,
    read_points,
    read_sweep,
)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What a level on the curve gives beyond its point."""

    concurrency: int
    lanes: LaneTokens
    variants: LevelVariants
    mix: Mix


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredLevel:
    """One level of a run, or one start of it; ``profile`` is None where its window never opened,
    ``evidence`` where its point is not on the curve. ``sessions_played`` counts the different
    recorded sessions of which a request was sent in the window.
    """

    stored: StoredPoint
    point: Point
    profile: Profile | None
    evidence: Evidence | None
    sessions_played: int

    @property
    def plan_fingerprint(self) -> str | None:
        """The fingerprint of what it played; None where an older version wrote the point."""
        return self.stored.document.get("plan_fingerprint")


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run directory: ``sweep.json`` and the levels by rising concurrency and start, finished or
    not.

    ``refused`` says why a level, or a start of one, cannot be read: something in its directory is
    damaged, or is not its own.
    """

    path: Path
    sweep: Mapping[str, Any]
    levels: tuple[MeasuredLevel, ...]
    refused: Mapping[Measurement, str] = field(default_factory=dict)

    @property
    def points(self) -> list[Point]:
        """Every point, valid or not."""
        return [level.point for level in self.levels]

    @property
    def curve(self) -> list[CurvePoint]:
        """One point a level that has a valid one, per GPU where every point has a GPU count."""
        return curve(self.points)

    @property
    def curves(self) -> dict[int, list[CurvePoint]]:
        """The curve of each start that has a valid point, by start."""
        return curves_by_start(self.points)

    @property
    def gpus(self) -> int | None:
        """How many GPUs throughput is divided by; None: it is the system's.

        Raises ``UsageError`` where levels differ, since they are then no one curve.
        """
        counts = {point.facts.gpus for point in self.points}
        if len(counts) > 1:
            raise UsageError(
                "gpu-counts-differ",
                f"the levels of {self.path} were measured with different GPU counts",
                "keep levels of different systems in directories of their own",
            )
        return next(iter(counts), None)

    @property
    def headline_is(self) -> Headline:
        """Which throughput is the headline, by the window of the first level."""
        return headline_of(self.points[0].facts.rules.window_s)

    def per_system(self) -> "Run":
        """Return the run as if no GPU count were known: its throughput is the system's."""
        return replace(self, levels=tuple(_without_gpus(level) for level in self.levels))

    @property
    def evidence(self) -> list[Evidence]:
        """What the levels on the curve give, and each valid start, in order of concurrency."""
        return [level.evidence for level in self.levels if level.evidence is not None]

    @property
    def variants(self) -> list[list[LevelVariants]]:
        """The levels on the curve of each start under other definitions."""
        found: dict[int, list[LevelVariants]] = {}
        for level in self.levels:
            if level.evidence is not None:
                found.setdefault(level.point.facts.start, []).append(level.evidence.variants)
        return [found[start] for start in sorted(found)]


def read_run(path: Path, gpus: int | None = None, known: Sequence[Point] = ()) -> Run:
    """Return a run directory, also of a run that goes on or was cut short.

    ``gpus`` is what to divide by where the run was measured without a GPU count. Points ``known``
    to the process that measured or checked them are not computed and checked again. A level that
    cannot be read takes nothing off the others. Raises ``UsageError`` where it is no run, has no
    point yet, or none that can be read.
    """
    sweep = read_sweep(path)
    stored = read_points(path)
    if not stored:
        raise UsageError(
            "run-without-point",
            f"{path} has no point yet: no level in it has a point.json",
            "wait until a level has begun; if nothing runs any more, measure it again",
        )
    levels, refused = [], {}
    points = {point.measurement: point for point in known}
    for each in stored:
        try:
            levels.append(_read_level(each, gpus, points.get(each.measurement)))
        except UsageError as error:
            refused[measurement_of(each.directory) or each.measurement] = error
    if not levels:
        raise next(iter(refused.values()))
    why = {of: f"{error.what}; {error.what_to_do}" for of, error in refused.items()}
    return Run(path, sweep, tuple(levels), why)


def _without_gpus(level: MeasuredLevel) -> MeasuredLevel:
    point = level.point
    return replace(level, point=replace(point, facts=replace(point.facts, gpus=None)))


def _read_level(stored: StoredPoint, gpus: int | None, known: Point | None) -> MeasuredLevel:
    check_place(stored)
    if known is None:
        check_records(stored)
    records = records_of(stored.stored_requests().groups)
    point = known or point_from_records(stored, records)
    if gpus is not None and point.facts.gpus is None:
        point = replace(point, facts=replace(point.facts, gpus=gpus))
    window = point.facts.window
    if window is None:
        return MeasuredLevel(stored, point, None, None, 0)
    requests = stored.requests(_REQUEST_COLUMNS)
    profile, played = profile_of(records, window), _sessions_played(requests, window)
    if point.summary is None or curve_point(point, per_gpu=False) is None:
        return MeasuredLevel(stored, point, profile, None, played)
    evidence = Evidence(
        point.concurrency,
        lane_tokens(records.responses, window, point.concurrency, _first_sessions(requests)),
        level_variants(records, point.summary, window, point.concurrency),
        mix_of(requests, window),
    )
    return MeasuredLevel(stored, point, profile, evidence, played)


_PLAY = ("ordinal", "lane", "session_id")
_REQUEST_COLUMNS = (*_PLAY, *MIX_COLUMNS)


def _sessions_played(requests: pa.Table, window: Window) -> int:
    """Count from requests, which a killed run has on disk where its plays are not."""
    inside = happened_in(requests["send_ns"].to_numpy(), window)
    return len(requests["session_id"].filter(pa.array(inside)).unique())


def _first_sessions(requests: pa.Table) -> dict[int, str]:
    """Return the session that each lane played first."""
    plays = set(zip(*(requests[name].to_pylist() for name in _PLAY), strict=True))
    return {lane: session for _, lane, session in sorted(plays, reverse=True)}

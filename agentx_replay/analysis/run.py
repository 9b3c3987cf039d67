"""A run as it is reported: its points read back one by one, each reduced to what reports need.

A level's responses are let go before the next level is read; its token events are never held.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from agentx_replay.analysis.findings import Kind
from agentx_replay.analysis.point import Point, stored_point
from agentx_replay.analysis.responses import (
    REQUEST_COLUMNS,
    Requests,
    Window,
    in_window_set,
    measured,
    requests_of,
)
from agentx_replay.analysis.throughput import Headline, headline_of
from agentx_replay.analysis.told_facts import contradictions
from agentx_replay.errors import UsageError
from agentx_replay.results.layout import (
    Measurement,
    measurement_named,
    measurement_of,
    point_file,
    sweep_file,
)
from agentx_replay.results.run_directory import StoredPoint, check_place, read_points, read_sweep
from agentx_replay.results.system_facts import System, system_on_record

NOT_BEGUN = "not begun"
DEFAULT_TARGETS = (30.0, 50.0, 150.0)
"""Interactivities in tokens/s/user: the three at which results are usually quoted."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run directory: ``sweep.json`` and its points by rising concurrency and start, valid or
    finished or not.

    ``refused`` says why a level, or a start of one, cannot be read: something in its directory is
    damaged, or is not its own. ``only_starts`` are those that are looked at; None: all.
    """

    path: Path
    sweep: Mapping[str, Any]
    points: tuple[Point, ...]
    refused: Mapping[Measurement, str] = field(default_factory=dict)
    only_starts: Collection[int] | None = None

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was asked for; nothing where ``sweep.json`` does not tell."""
        settings = self.sweep.get("settings")
        return settings if isinstance(settings, dict) else {}

    @property
    def starts(self) -> int:
        """How many starts of each level were asked for."""
        return int(self.sweep.get("starts", 1))

    @property
    def targets(self) -> tuple[float, ...]:
        """The speeds in tokens/s/user that were asked for; the default if none is on record."""
        asked = self.settings.get("at")
        fit = isinstance(asked, list) and all(
            isinstance(each, int | float) and 0.0 < each < math.inf for each in asked
        )
        return tuple(map(float, asked)) if asked and fit else DEFAULT_TARGETS

    @property
    def system(self) -> System:
        """The facts of the system, none where nobody gave any."""
        return system_on_record(self.sweep, str(self.path))

    @property
    def searched(self) -> bool:
        """Whether a search chose its levels, of each start its own."""
        return self.settings.get("search") is not None

    @property
    def levels_by_start(self) -> Mapping[int, Collection[int]] | None:
        """The levels of each start where starts have their own, None where they have the same."""
        if not self.searched:
            return None
        found: dict[int, set[int]] = {}
        for point in self.points:
            found.setdefault(point.facts.start, set()).add(point.concurrency)
        return found

    @property
    def curve_points(self) -> list[Point]:
        return [point for point in self.points if point.on_curve is not None]

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
        return headline_of(self.points[0].facts.rules.window_s)

    @property
    def _asked(self) -> set[Measurement]:
        """What ``sweep.json`` says was to be measured: of a search what it came to."""
        plans = self.sweep.get("plans")
        if self.searched and isinstance(plans, dict):
            return {of for name in plans if (of := measurement_named(name)) is not None}
        starts, levels = range(1, self.starts + 1), self.sweep.get("levels", [])
        return {Measurement(level, start) for level in levels for start in starts}

    @property
    def unmeasured(self) -> dict[Measurement, str]:
        """Why each level that was asked for, or has a directory, has no point, or none that can be
        read; by level and start.
        """
        found = {
            of: f"{directory.name} has no {point_file(directory).name}"
            for directory in self.path.glob("c*")
            if directory.is_dir() and (of := measurement_of(directory)) is not None
        }
        shown = {point.measurement for point in self.points}
        missing = {of: found.get(of, NOT_BEGUN) for of in (self._asked | found.keys()) - shown}
        only = self.only_starts
        every = sorted({**missing, **self.refused}.items())
        return {of: why for of, why in every if only is None or of.start in only}

    @property
    def left_out(self) -> dict[Measurement, tuple[str, ...]]:
        """Why each level, or start of one, is on no curve: not measured, or not valid."""
        unmeasured = {of: (why,) for of, why in self.unmeasured.items()}
        invalid = {
            point.measurement: point.texts(Kind.INVALID) for point in self.points if not point.valid
        }
        return dict(sorted({**unmeasured, **invalid}.items()))

    def of_starts(self, starts: Collection[int]) -> "Run":
        points = tuple(point for point in self.points if point.facts.start in starts)
        return replace(self, points=points, only_starts=starts)

    def per_system(self) -> "Run":
        """Return the run as if no GPU count were known: its throughput is the system's."""
        return replace(self, points=tuple(_with_gpus(point, None) for point in self.points))


def read_run(
    path: Path,
    gpus: int | None = None,
    known: Sequence[Point] = (),
    system: System | None = None,
) -> Run:
    """Return a run directory, also of a run that goes on or was cut short.

    ``gpus`` is what to divide by where the run was measured without a GPU count. Facts of
    ``system`` stand in place of those on record. Points ``known``
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
    facts = system_on_record(sweep, str(sweep_file(path))).updated(system or System())
    said = {"now --gpus says": gpus, "the facts say gpus =": facts.get("gpus")}
    gpus = facts.get("gpus") if gpus is None else gpus
    found, refused = [], {}
    ready = {point.measurement: point for point in known}
    for each in stored:
        try:
            point = _read(each, ready.get(each.measurement))
            point = point if point.facts.gpus is not None else _with_gpus(point, gpus)
            found.append(_against_told(point, facts))
        except UsageError as error:
            refused[measurement_of(each.directory) or each.measurement] = error
    for point in found:
        _refuse_other_gpus(point, said)
    if not found:
        raise next(iter(refused.values()))
    why = {of: f"{error.what}; {error.what_to_do}" for of, error in refused.items()}
    return Run(path, {**sweep, "system": facts.document()}, tuple(found), why)


def _read(stored: StoredPoint, known: Point | None) -> Point:
    check_place(stored)
    if known is None:
        return stored_point(stored)
    return known if known.stored is not None else replace(known, stored=stored)


def _refuse_other_gpus(point: Point, said: Mapping[str, int | None]) -> None:
    for where, gpus in said.items():
        if point.facts.gpus is not None and gpus not in (None, point.facts.gpus):
            raise UsageError(
                "gpus-not-as-measured",
                f"the run was measured with --gpus {point.facts.gpus}, and {where} {gpus}",
                "correct that or leave it out, or measure the run again",
            )


def _against_told(point: Point, facts: System) -> Point:
    if not facts.facts:
        return point
    told = dict(point.stored.document.get("told") or {}) if point.stored else {}
    if point.server is not None and point.server.pool_tokens is not None:
        told["kv_cache_pool_tokens"] = point.server.pool_tokens
    return replace(point, contradicted=contradictions(facts.at(point.concurrency), told))


def _with_gpus(point: Point, gpus: int | None) -> Point:
    return replace(point, facts=replace(point.facts, gpus=gpus))


def read_requests(stored: StoredPoint) -> Requests:
    return requests_of(stored.stored_requests().groups(REQUEST_COLUMNS))


@dataclass(frozen=True, slots=True)
class Served:
    """``requests`` sent to a server, and the input and output ``tokens`` of those that ended well,
    as it counts them.
    """

    requests: int
    tokens: int


def served(requests: Requests, window: Window, servers: int) -> tuple[Served, ...]:
    sent = in_window_set(requests, window)
    well = sent & measured(requests)
    tokens = np.nan_to_num(requests.prompt_tokens) + np.nan_to_num(requests.completion_tokens)
    of = requests.replica
    return tuple(
        Served(int((sent & (of == each)).sum()), int(tokens[well & (of == each)].sum()))
        for each in range(servers)
    )


def urls_of(run: Run) -> Sequence[str]:
    """Return the servers of a run that has several, in their order; none where it has one."""
    target = run.sweep.get("target")
    url = target.get("url") if isinstance(target, dict) else None
    return list(map(str, url)) if isinstance(url, list) and len(url) > 1 else []


def served_by_level(run: Run) -> dict[Measurement, tuple[Served, ...]]:
    """Return what each server did at each level whose window opened; none for a single server."""
    servers = len(urls_of(run))
    if not servers:
        return {}
    return {
        point.measurement: served(read_requests(point.stored), window, servers)
        for point in run.points
        if point.stored is not None and (window := point.facts.window) is not None
    }

"""The fidelity report of a level that was killed before it could make one.

What was sent is on record, and what the recording says is where the run read it: the plan is made
again from there, and must have the fingerprint that the run wrote down.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentx_replay.analysis.fidelity import Fidelity
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.run import Run
from agentx_replay.errors import UsageError
from agentx_replay.experiment.conformity import level_fidelity
from agentx_replay.experiment.sessions import SessionSource
from agentx_replay.experiment.settings import scenario_on_record
from agentx_replay.plan.plan import GraphLibrary, Plan
from agentx_replay.results.run_directory import PointStatus


def with_late_fidelity(run: Run) -> tuple[Run, list[str]]:
    """Return the run with the fidelity reports of its unfinished levels, and why one has none.

    A level whose window never opened has none, and its other reasons say why.
    """
    recording = _Recording(run.sweep)
    points, untold = [], []
    for point in run.points:
        if _unfinished(point):
            try:
                points.append(replace(point, fidelity=recording.report(point)))
                continue
            except UsageError as error:
                untold.append(
                    f"concurrency {point.name} has no fidelity report: {error.what} "
                    f"[{error.code}]; {error.what_to_do}"
                )
        points.append(point)
    return replace(run, points=tuple(points)), untold


@dataclass(slots=True)
class _Recording:
    """The recorded sessions of a run, read when first asked for."""

    sweep: Mapping[str, Any]
    _library: tuple[GraphLibrary, str] | None = field(default=None)

    def report(self, point: Point) -> Fidelity | None:
        """Return a level's report. Raises ``UsageError`` where the recording cannot be had."""
        if self._library is None:
            self._library = _read(self.sweep)
        library, corpus_fingerprint = self._library
        plan = Plan(library.scenario, corpus_fingerprint, library, point.concurrency)
        if plan.fingerprint != point.plan_fingerprint:
            raise UsageError(
                "late-plan-differs",
                "it was not finished, and the plan made again from its recording is another one",
                "report it with the version of agentx-replay that ran it",
            )
        if point.stored is None:
            return None
        facts, directory = point.facts, point.stored.directory
        live_history = facts.rules.live_history
        return level_fidelity(plan, directory, facts.window, killed=True, live_history=live_history)


def _read(sweep: Mapping[str, Any]) -> tuple[GraphLibrary, str]:
    """Return the recorded sessions and the corpus's fingerprint."""
    try:
        source = SessionSource.from_document(sweep["source"])
        scenario = scenario_on_record(sweep)
    except (KeyError, ValueError, UsageError) as error:
        raise UsageError(
            "late-settings-unknown",
            "it was not finished, and its sweep.json does not say, as this version knows them, by "
            "which rules it ran and where its recorded sessions are",
            "report it with the version of agentx-replay that ran it",
        ) from error
    try:
        corpus, selection = source.read()
    except UsageError as error:
        raise _changed(source, f"cannot be read ({error.what})") from error
    if corpus.fingerprint != sweep.get("corpus", {}).get("fingerprint"):
        raise _changed(source, "are not those that it played any more")
    return GraphLibrary(selection, scenario), corpus.fingerprint


def _unfinished(point: Point) -> bool:
    """Whether a level's window opened and nobody was left to close it."""
    return point.status is PointStatus.RUNNING and point.facts.window is not None


def _changed(source: SessionSource, how: str) -> UsageError:
    return UsageError(
        "late-sessions-changed",
        f"it was not finished, and its recorded sessions in {source.traces} {how}",
        "put them back there to have one",
    )

"""A sweep: one corpus, one target, several levels in order, one run directory.

Of several starts all levels of one are measured, then all of the next: a server that changes with
time then shows as a difference between starts, not between levels. Another ``LevelSource`` decides
otherwise.

What only a level needs is imported when there is one, so that the server is asked sooner.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from agentx_replay import __version__
from agentx_replay.analysis.facts import Conduct, Rules
from agentx_replay.analysis.findings import FIELD_REFUSED
from agentx_replay.endpoint.kernel_stamps import granted_buffer_bytes
from agentx_replay.experiment.interrupts import Interrupts
from agentx_replay.experiment.levels import Done, FixedLevels, LevelSource
from agentx_replay.experiment.open_files import refuse_too_few
from agentx_replay.experiment.prompting import calibration_for, prompting_of
from agentx_replay.experiment.resumption import (
    Earlier,
    earlier_run,
    refuse_differences,
    resumed,
    with_options,
)
from agentx_replay.experiment.settings import Screen, Settings, Target
from agentx_replay.plan.plan import GraphLibrary, Plan
from agentx_replay.plan.selection import Selection
from agentx_replay.prompts.calibration import Calibration, as_document, summary_document
from agentx_replay.results.layout import Measurement, point_directory
from agentx_replay.results.run_directory import PointStatus, RunDirectory
from agentx_replay.results.schema import REQUESTS
from agentx_replay.shipped import shipped_directory
from agentx_replay.traces.model import Corpus

if TYPE_CHECKING:
    from agentx_replay.analysis.early import EarlyRule
    from agentx_replay.analysis.point import Point, PointFacts
    from agentx_replay.experiment.part import Part

_BUNDLED = "the bundled synthetic sessions"
_NO_SERVER = {
    "simulator in virtual time": "virtual time: the modelled engine, no wire",
    "built-in simulator": "the built-in simulator, not a server",
}
"""What it was that was measured, by the kind of a target that is no server."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a sweep need not prepare again: its sessions and calibration, as sweeps of other rules
    and levels have them. ``probes`` are those that found its levels, as they are put on record.
    """

    corpus: Corpus
    selection: Selection
    calibration: Calibration
    probes: tuple[Mapping[str, Any], ...] = ()


class Sweep:
    """Prepares on construction (corpus, plans, directory), then runs level by level.

    ``levels`` says which; without it the fixed list of the settings. Raises ``UsageError`` for a
    corpus that cannot be read or does not fit, for an output directory that is taken, and for a run
    that cannot be resumed as the same experiment.
    """

    def __init__(
        self,
        settings: Settings,
        target: Target,
        levels: LevelSource | None = None,
        prepared: Prepared | None = None,
    ) -> None:
        self.interrupted = False
        self._settings = settings
        self._target = target
        self.earlier = earlier = earlier_run(settings.out) if settings.resume else None
        if earlier is not None:  # before a corpus is read of which an option may leave nothing
            now = with_options(earlier.document, settings)
            refuse_differences(earlier, now, accept=settings.accept_differences)
        self._source = settings.source(target.max_context)
        if prepared is None:
            self.corpus, self.selection = self._source.read()
        else:
            self.corpus, self.selection = prepared.corpus, prepared.selection
        self._levels = levels or FixedLevels(settings.concurrency, settings.starts)
        self._library = GraphLibrary(self.selection, settings.scenario)
        self.kept_points = _kept_points(earlier, again=settings.again) if earlier else []
        if earlier is not None:
            complete = tuple(point.stored for point in self.kept_points if point.stored)
            earlier = replace(earlier, complete=complete)
        self._run = RunDirectory.create(
            settings.out, resume=settings.resume, secrets=target.secrets
        )
        document = self._document()
        if prepared is not None and prepared.probes:
            document["probes"] = prepared.probes
        accept = settings.accept_differences
        if earlier is not None:
            # Before it is calibrated, which takes seconds: its cost is compared below.
            before = {"calibration": earlier.document.get("calibration", {})}
            refuse_differences(earlier, document | before, accept=accept)
        self.calibration = prepared.calibration if prepared else calibration_for(settings, target)
        self._prompting = prompting_of(self.calibration, settings, target)
        document["calibration"] = summary_document(self.calibration)
        if earlier is not None:
            document = resumed(earlier, document, accept=accept)
        self._run.write_calibration(as_document(self.calibration))
        self._run.write_sweep(document)
        self._on_record = document

    @property
    def prepared(self) -> Prepared:
        return Prepared(self.corpus, self.selection, self.calibration)

    @property
    def kept(self) -> list[Measurement]:
        """What stands from before, which is not run again."""
        return [point.measurement for point in self.kept_points]

    @property
    def ahead(self) -> tuple[Measurement, ...]:
        """The levels that are certain to be measured, in this order."""
        return self._levels.ahead(self.kept_points)

    @property
    def due(self) -> list[Plan]:
        """The plans of the levels ahead."""
        return list(map(self._plan, self.ahead))

    def _plan(self, level: Measurement) -> Plan:
        scenario, corpus = self._settings.scenario, self.corpus.fingerprint
        return Plan(scenario, corpus, self._library, *level)

    def run(self, screen: Screen) -> Iterator[Point]:
        """Measure one level after the other until the source of levels is done; yield each point
        when it is on disk.

        A level during which a person interrupted is the last; ``interrupted`` says so then.
        """
        from agentx_replay.analysis.point import point_row
        from agentx_replay.experiment.level import run_level

        interrupts = Interrupts(screen.say)
        points = {point.measurement: point for point in self.kept_points}
        for plan in self.due:
            self._refuse_too_few_files(plan)
        while not isinstance(level := self._levels.next_level(tuple(points.values())), Done):
            early = self._levels.early_rule(tuple(points.values()))
            plan = self._plan(level)
            self._refuse_too_few_files(plan)
            self._put_on_record(level, plan, screen)
            left = {*self._levels.ahead(tuple(points.values())), level}
            screen.levels_left(len(left), self._settings.scenario.window_s)
            part, facts = self._part(plan, early), self._facts(plan)
            starts = self._settings.starts
            point = run_level(part, facts, starts, self._target, self._run, screen, interrupts)
            self.interrupted = interrupts.came or point.status is PointStatus.INTERRUPTED
            points[level] = point
            self._run.write_points([point_row(each) for each in points.values()])
            yield point
            if self.interrupted:
                return
            if point.facts.conduct.failure_code == "machine-lost":
                screen.say("no other level is measured without that machine; go on with --resume")
                return
            if not self._settings.anyway and (wrong := self._all_wrong(level)):
                screen.say(f"{wrong}; no other level is measured (--anyway measures all)")
                return
        if level.why:
            screen.say(level.why)

    def _all_wrong(self, level: Measurement) -> str:
        from agentx_replay.experiment.wrong import WRONG_BY, all_wrong

        return all_wrong(REQUESTS.read(point_directory(self._settings.out, level), WRONG_BY))

    def _refuse_too_few_files(self, plan: Plan) -> None:
        if not self._target.virtual:
            machines = self._target.machines
            allowed = None if machines is None else machines.open_files
            refuse_too_few(plan.concurrency, self._workers(plan), allowed)

    def _put_on_record(self, level: Measurement, plan: Plan, screen: Screen) -> None:
        """Add a level that was not certain beforehand to ``sweep.json``, and say so."""
        document = self._on_record
        if str(level) in document["plans"]:
            return
        screen.say(f"  level added: {level.in_words}, plan {plan.fingerprint}")
        document["plans"][str(level)] = plan.fingerprint
        document["levels"] = sorted({*document["levels"], level.concurrency})
        self._run.write_sweep(document)

    def _part(self, plan: Plan, early: EarlyRule | None) -> Part:
        """Return a level as one process plays it."""
        from agentx_replay.experiment.part import Part

        settings, resumptions = self._settings, len(self._on_record.get("resumed", ()))
        attempt = max(resumptions, self._run.attempts(Measurement(plan.concurrency, plan.start)))
        workers = self._workers(plan)
        later = f"-s{plan.start}" if plan.start > 1 else ""
        return Part(
            plan=plan,
            source=self._source,
            prompting=self._prompting,
            attempt=attempt,
            run_id=settings.salt[:8] + later + (f"-a{attempt}" if attempt else ""),
            open=self._target.open,
            workers=workers,
            early=early if self._target.machines is None else None,
        )

    def _workers(self, plan: Plan) -> int:
        from agentx_replay.experiment.workers import workers_for

        machines = self._target.machines
        count = workers_for if machines is None else machines.workers
        return count(plan.concurrency, self._settings.workers, self._target.timestamps)

    def _facts(self, plan: Plan) -> PointFacts:
        """Return what is known of a level before it runs."""
        from agentx_replay.analysis.point import PointFacts

        return PointFacts(
            plan.concurrency,
            self._settings.gpus,
            None,
            rules_of(self._settings, self.corpus, self.selection, self._target.facts),
            Conduct(),
            plan.start,
            seed=plan.seed,
            timestamps=self._target.timestamps,
            refusals=tuple(w.text for w in self._target.warnings if w.code == FIELD_REFUSED),
        )

    def _document(self) -> dict[str, Any]:
        """Return ``sweep.json`` but for the calibration, which is made later."""
        settings, levels = self._settings, self._levels.ahead(())
        machines = self._target.machines
        return {
            "command": settings.command,
            "started_unix_s": time.time(),
            "versions": {"agentx-replay": __version__, "python": platform.python_version()},
            "host": {
                "platform": _platform(),
                "cpus": len(os.sched_getaffinity(0)),
                "receive_buffer_bytes": granted_buffer_bytes(),
            },
            "scenario": asdict(settings.scenario) | {"fingerprint": settings.scenario.fingerprint},
            "corpus": _corpus_document(self.corpus, self.selection),
            "source": self._source.document(),
            "plans": {str(level): self._plan(level).fingerprint for level in levels},
            "levels": list(dict.fromkeys(level.concurrency for level in levels)),
            "starts": settings.starts,
            "gpus": settings.gpus,
            "system": _system_document(settings.system),
            "salt": settings.salt,
            "tool_messages": settings.tool_messages,
            "live_history": settings.live_history,
            "target": self._target.facts,
            "timestamps": self._target.timestamps,
            "settings": settings.document(),
            **({"machines": machines.document()} if machines is not None else {}),
        }


def _kept_points(earlier: Earlier, *, again: bool) -> list[Point]:
    """Return what stands, looked at as a report does; with ``again`` what is valid. Raises
    ``UsageError`` where none could be.
    """
    from agentx_replay.analysis.point import stored_point

    points = [stored_point(stored) for stored in earlier.complete]
    return [point for point in points if point.valid or not again]


def _system_document(system: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts as they are kept. Raises ``UsageError`` for one that cannot be."""
    if not system:
        return {}
    from agentx_replay.results.system_facts import system_of

    return system_of(system, "system").document()


def _platform() -> str:
    """Return what ``platform.platform()`` does without the process that it starts to ask for the
    kind of processor: for a moment that one counts all the memory of this one as its own.
    """
    system = os.uname()
    libc = "".join(platform.libc_ver()) or "another-libc"
    return f"{system.sysname}-{system.release}-{system.machine}-with-{libc}"


def rules_of(
    settings: Settings, corpus: Corpus, selection: Selection, target: Mapping[str, Any]
) -> Rules:
    """Return how far a run keeps its scenario's rules; ``target`` are the facts of what is
    measured. Sessions past the scenario's own number are its rule, not a departure from it.
    """
    return Rules(
        scenario=settings.scenario.name,
        comparable=settings.scenario.comparable,
        window_s=settings.scenario.window_s,
        overridden=settings.scenario.overridden,
        sessions_left_out=sum(
            out.sessions
            for out in selection.left_out
            if out.cause in ("session", "too_large", "duplicate")
        ),
        requests_left_out=sum(out.requests for out in selection.left_out if out.cause == "request"),
        other_corpus=_BUNDLED if settings.traces == shipped_directory("traces") else None,
        tool_messages=settings.tool_messages,
        live_history=settings.live_history,
        no_server=_NO_SERVER.get(str(target.get("kind"))),
        sessions=len(selection.sessions),
        max_sessions=settings.scenario.max_sessions,
        corpus=corpus.fingerprint,
        requests_too_long=selection.requests_too_long,
        requests_recorded=sum(len(session.requests()) for session in corpus.sessions),
    )


def _corpus_document(corpus: Corpus, selection: Selection) -> dict[str, Any]:
    return {
        "name": corpus.name,
        "fingerprint": corpus.fingerprint,
        "sessions": len(corpus.sessions),
        "played": [session.id for session in selection.sessions],
        "left_out": [asdict(each) for each in selection.left_out],
        "skipped": corpus.skipped,
    }

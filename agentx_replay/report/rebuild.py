"""A run's report as a whole: read once, said in text or plain values, written beside the run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentx_replay.analysis.capacity import answered
from agentx_replay.analysis.curve import Curve, curve_of
from agentx_replay.analysis.judged import Judged, asked_objectives, judge
from agentx_replay.analysis.objective import objectives_of
from agentx_replay.analysis.point import Point, client_alone_failed, point_row, run_findings
from agentx_replay.analysis.run import Run, read_run
from agentx_replay.report.brief import Styled, run_brief
from agentx_replay.report.disclosure import BUILT_IN, disclosure_section, heading, part_of
from agentx_replay.report.evidence_sections import evidence_sections
from agentx_replay.report.objective_sections import (
    capacity_brief,
    capacity_json,
    capacity_verdict,
    objective_cells,
    objective_json,
    objective_sections,
)
from agentx_replay.report.page import page, write_page
from agentx_replay.report.run_sections import (
    curve_json,
    go_on_lines,
    lanes_section,
    points_json,
    points_section,
    run_lines,
    sensitivity_section,
    starts_section,
    targets_section,
    unmeasured_lines,
)
from agentx_replay.report.system_section import questions_json, system_sections
from agentx_replay.report.tables import Section, csv_text, sections_text
from agentx_replay.results.layout import report_file
from agentx_replay.results.run_directory import RunDirectory
from agentx_replay.results.system_facts import System
from agentx_replay.text_format import wrapped


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """A run and its curve at the targets asked for."""

    run: Run
    curve: Curve
    judged: tuple[Judged, ...] = ()

    @classmethod
    def of(
        cls,
        path: Path,
        targets: Sequence[float],
        known: Sequence[Point] = (),
        system: System | None = None,
        slo: Sequence[str] = (),
    ) -> "Report":
        """Read a run directory, but for points ``known`` already, with facts of the ``system`` in
        place of those on record; judge it by ``slo``, else by the objectives it was measured with.
        Raises ``UsageError`` where it is none or holds no point.
        """
        objectives = objectives_of(slo)
        run = read_run(path, known=known, system=system)
        judged = judge(run, objectives or asked_objectives(run))
        return cls(run, curve_of(run, targets), judged)

    @property
    def sound(self) -> bool:
        """Whether every level that was asked for has a valid point; of a search, whether it has an
        answer and could judge every level. A built-in simulator is there to be looked at, so a
        client that is too busy for it is no failure.
        """
        points = self.run.points
        if self.run.searched:
            return all(answered(each.capacity) for each in self.judged)
        demo = part_of(self.run.sweep, "target").get("kind") == BUILT_IN
        return not self.run.unmeasured and (
            all(point.valid for point in points) or (demo and client_alone_failed(points))
        )

    def brief(self, width: int) -> Iterator[Styled]:
        """Yield what a person needs first, as lines of text and style."""
        yield from capacity_brief(self.judged, width)
        yield from run_brief(self.run, self.curve, heading(self.run), width)

    def text(self, width: int = 100) -> str:
        """Return everything that is known of the run, for a terminal of ``width`` columns."""
        run, curve = self.run, self.curve
        sections = [
            points_section(run.points),
            targets_section(curve, run.points),
            starts_section(curve, run.starts),
            *objective_sections(run, self.judged),
            Section("Findings", reasons=run_lines(run.points)),
            *evidence_sections(run),
            lanes_section(run),
            sensitivity_section(run, curve),
            *system_sections(run, curve),
            disclosure_section(run),
        ]
        missing = [part for line in unmeasured_lines(run) for part in wrapped(line, width)]
        missing += go_on_lines(run)
        return sections_text(sections, width) + "\n\n" * bool(missing) + "\n".join(missing)

    def csv(self) -> str:
        """Return the points as CSV, of the columns of ``points.parquet``."""
        points = sorted(self.run.points, key=lambda point: point.measurement)
        return csv_text([point_row(point) for point in points])

    def plain(self) -> dict[str, Any]:
        """Return the same as plain values."""
        return {
            "out": str(self.run.path),
            "points": points_json(self.run.points),
            "findings": [each.document() for each in run_findings(self.run.points)],
            "not_measured": [
                of._asdict() | {"why": why} for of, why in self.run.unmeasured.items()
            ],
            "curve": curve_json(self.curve),
            "system": self.run.system.document(),
            "questions": questions_json(self.run),
            **objective_json(self.run, self.judged),
            "page": str(report_file(self.run.path)),
        }

    def write(self) -> Path:
        """Write ``points.parquet``, a search's ``capacity`` in ``sweep.json``, and the page; return
        where the page is.

        Raises ``UsageError`` where the disk refuses.
        """
        run = RunDirectory(self.run.path)
        run.write_points(
            [point_row(each) | objective_cells(each, self.judged) for each in self.run.points]
        )
        if self.run.searched:
            found = [capacity_json(each.capacity) for each in self.judged]
            run.write_sweep(dict(self.run.sweep) | {"capacity": found})
        sections = objective_sections(self.run, self.judged)
        capacities = [capacity_verdict(each) for each in self.judged]
        html = page(self.run, self.curve, sections, capacities)
        return write_page(report_file(self.run.path), html)

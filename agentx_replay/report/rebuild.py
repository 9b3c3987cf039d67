"""A run's report as a whole: read once, said in text or plain values, written beside the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentx_replay.analysis.by_server import served_by_level
from agentx_replay.analysis.curve import Curve, curve_of
from agentx_replay.analysis.point import Point, point_row, run_findings
from agentx_replay.analysis.run import Run, read_run
from agentx_replay.report.curve_lines import curve_json, curve_lines
from agentx_replay.report.page import page
from agentx_replay.report.points_table import points_json, points_table
from agentx_replay.report.replica_lines import served_lines
from agentx_replay.report.start_lines import lanes_lines, uncertainty
from agentx_replay.report.unmeasured import go_on_lines, unmeasured, unmeasured_lines
from agentx_replay.results.durable import disk_faults_explained, write_bytes_durably
from agentx_replay.results.layout import report_file
from agentx_replay.results.run_directory import RunDirectory


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """A run and its curve at the targets asked for."""

    run: Run
    curve: Curve

    @classmethod
    def of(cls, path: Path, targets: Sequence[float], known: Sequence[Point] = ()) -> "Report":
        """Read a run directory, but for points ``known`` already. Raises ``UsageError`` where it is
        none or holds no point.
        """
        run = read_run(path, known=known)
        return cls(run, curve_of(run, targets))

    @property
    def sound(self) -> bool:
        """Whether every level that was asked for has a valid point."""
        return not unmeasured(self.run) and all(p.valid for p in self.run.points)

    @property
    def _reaches_a_target(self) -> bool:
        values = self.curve.values
        return any(value.at.throughput is not None or value.missed for value in values)

    def text(self, *, full: bool = False) -> str:
        """Return the points, throughput at the targets and the frontier, for a terminal; with
        ``full`` also what lanes alone say of throughput.
        """
        return points_table(
            self.run.points,
            missing=unmeasured_lines(self.run),
            go_on=go_on_lines(self.run),
            curve=curve_lines(self.curve, self.run.points),
            audit=[
                *served_lines(served_by_level(self.run)),
                *(lanes_lines(self.run) if full else ()),
            ],
            closing=[uncertainty([self.curve])] if self._reaches_a_target else (),
        )

    def plain(self) -> dict[str, Any]:
        """Return the same as plain values."""
        return {
            "out": str(self.run.path),
            "points": points_json(self.run.points),
            "findings": [each.document() for each in run_findings(self.run.points)],
            "not_measured": [
                of._asdict() | {"why": why} for of, why in unmeasured(self.run).items()
            ],
            "curve": curve_json(self.curve),
            "page": str(report_file(self.run.path)),
        }

    def write(self) -> Path:
        """Write ``points.parquet`` and the page, and return where the page is.

        Raises ``UsageError`` where the disk refuses.
        """
        RunDirectory(self.run.path).write_points([point_row(point) for point in self.run.points])
        path = report_file(self.run.path)
        with disk_faults_explained(path):
            write_bytes_durably(path, page(self.run, self.curve).encode())
        return path

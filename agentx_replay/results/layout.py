"""Where each file of a run directory lies; tables of records know their own places.

Names only: nothing is read or written here.
"""

import re
from pathlib import Path
from typing import NamedTuple

_NAME = re.compile(r"([0-9]+)(?:-s([0-9]+))?")


class Measurement(NamedTuple):
    """One measurement of a level: its concurrency, and which start of it this is, from 1."""

    concurrency: int
    start: int = 1

    def __str__(self) -> str:
        """Return what it is called: 8, and its later starts 8-s2, 8-s3."""
        return f"{self.concurrency}{_suffix(self.start)}"

    @property
    def in_words(self) -> str:
        """Return what people read: 8, and of its later starts 8 (start 2)."""
        return str(self.concurrency) + (f" (start {self.start})" if self.start > 1 else "")


def _suffix(start: int) -> str:
    return f"-s{start}" if start > 1 else ""


def point_directory(run: Path, measurement: Measurement) -> Path:
    """``c0008``: the directory of one concurrency level; of its second start ``c0008-s2``."""
    return run / f"c{measurement.concurrency:04d}{_suffix(measurement.start)}"


def measurement_of(directory: Path) -> Measurement | None:
    """Return what a directory is named after; None where no measurement's has just that name."""
    named = measurement_named(directory.name[1:])
    return named if named and directory == point_directory(directory.parent, named) else None


def measurement_named(name: str) -> Measurement | None:
    """Return the measurement that is called so: 8, 8-s2; None if none is."""
    found = _NAME.fullmatch(name)
    return Measurement(int(found[1]), int(found[2] or 1)) if found else None


def unfinished_directory(run: Path) -> Path:
    """Return where attempts at levels are that were begun again later, each as it was left."""
    return run / "unfinished"


def latency_log(point: Path) -> Path:
    return point / "latency.hlog"


def point_file(point: Path) -> Path:
    return point / "point.json"


def lock_file(run: Path) -> Path:
    """Return what the process that writes the run holds locked; it may be alone in a directory that
    counts as empty.
    """
    return run / ".lock"


def sweep_file(run: Path) -> Path:
    return run / "sweep.json"


def calibration_file(run: Path) -> Path:
    return run / "calibration.json"


def report_file(run: Path) -> Path:
    return run / "report.html"

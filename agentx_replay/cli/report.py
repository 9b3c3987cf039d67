"""``agentx-replay report``: table, curve and page of a run directory, at any time."""

import errno
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from agentx_replay.analysis.point import Point
from agentx_replay.cli.options import GroupedCommand, options_of
from agentx_replay.cli.output import say, say_document, say_styled, width
from agentx_replay.cli.system import given_system
from agentx_replay.cli.values import NamedPath
from agentx_replay.errors import UsageError
from agentx_replay.experiment.late_fidelity import with_late_fidelity
from agentx_replay.report.rebuild import Report
from agentx_replay.results.system_facts import System
from agentx_replay.text_format import wrapped

Form = Literal["brief", "full", "csv", "json"]
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@click.command(cls=GroupedCommand, params=options_of("report"))
@click.argument("directory", type=NamedPath(path_type=Path))
@click.option("--full", is_flag=True, help="Print all that the page says.")
def report(
    directory: Path,
    at: tuple[float, ...] | None,
    slo: tuple[str, ...],
    full: bool,
    as_csv: bool,
    as_json: bool,
    system: Path | None,
    fact: tuple[str, ...],
) -> None:
    """Print the points and the curve of the run in DIRECTORY and rebuild its HTML page.

    The run may be going on, or have been cut short. Facts of the system win over those on record.

    \b
    agentx-replay report results/NAME
    agentx-replay report results/NAME --at 40,80
    agentx-replay report results/NAME --slo 'itl:p90<=33ms,ttft:p95<=5s'
    """
    form: Form = "json" if as_json else "csv" if as_csv else "full" if full else "brief"
    given = given_system(system, fact)
    found = show(directory, at or (), form, system=given, slo=slo)
    sys.exit(0 if found.sound else 1)


def show(
    directory: Path,
    at: tuple[float, ...],
    form: Form,
    known: Sequence[Point] = (),
    system: System | None = None,
    slo: Sequence[str] = (),
) -> Report:
    """Print a run's report, then write its page: a disk that refuses takes nothing off the screen.

    Points ``known`` already are not computed again, facts of ``system`` win over those on record.
    Raises ``UsageError`` where the directory holds
    no run, or its page cannot be written.
    """
    found = Report.of(directory, at, known, system, slo)
    run, without_fidelity = with_late_fidelity(found.run)
    found = replace(found, run=run)
    if form == "json":
        say_document(found.plain())
    elif form == "csv":
        say(found.csv())
    elif form == "full":
        say(found.text(width()))
    else:
        say_styled(found.brief(width()))
    path = _written(found)
    if form in ("brief", "full"):
        for line in without_fidelity:
            say("\n".join(wrapped(line, width())))
        more = f"everything: agentx-replay report {directory} --full"
        together = len(f"{path} · {more}") <= width()
        say(str(path) if form == "full" else f"{path}{' · ' if together else chr(10)}{more}")
    return found


def _written(report: Report) -> Path:
    """Write a run's page. Raises ``UsageError`` that says what is and what is not there."""
    try:
        return report.write()
    except UsageError as error:
        full = isinstance(error.__cause__, OSError) and error.__cause__.errno in _NO_ROOM
        raise UsageError(
            "page-not-written",
            f"the report is whole, but its page was not written: {error.what}",
            error.what_to_do
            if full
            else "copy the run to where you may write, and report on the copy",
        ) from None

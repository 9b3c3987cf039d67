"""``agentx-replay report``: table, curve and page of a run directory, at any time."""

import sys
from dataclasses import replace
from pathlib import Path

import click
import orjson

from agentx_replay.cli.options import NamedPath, targets_option
from agentx_replay.cli.output import say
from agentx_replay.experiment.late_fidelity import with_late_fidelity
from agentx_replay.report.rebuild import Report
from agentx_replay.wording import wrapped


@click.command()
@click.argument("directory", type=NamedPath(path_type=Path))
@targets_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def report(directory: Path, at: tuple[float, ...], as_json: bool) -> None:
    """Print the points and the curve of the run in DIRECTORY and rebuild its HTML page.

    The run may be going on, or have been cut short.

    \b
    agentx-replay report results/NAME
    agentx-replay report results/NAME --at 40,80
    """
    found = show(directory, at, as_json=as_json)
    sys.exit(0 if found.sound else 1)


def show(directory: Path, at: tuple[float, ...], *, as_json: bool) -> Report:
    """Print a run's report, then write its page: a disk that refuses takes nothing off the screen.

    Raises ``UsageError`` where the directory holds no run, or cannot be written.
    """
    found = Report.of(directory, at)
    run, without_fidelity = with_late_fidelity(found.run)
    found = replace(found, run=run)
    say(orjson.dumps(found.plain()).decode() if as_json else found.text())
    path = found.write()
    if not as_json:
        for line in without_fidelity:
            say("\n" + "\n".join(wrapped(line)))
        say(f"\npage: {path}")
    return found

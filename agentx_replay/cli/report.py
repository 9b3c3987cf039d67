"""``agentx-replay report``: the table of a run directory, at any time."""

import sys
from pathlib import Path

import click
import orjson

from agentx_replay.analysis.point import stored_point
from agentx_replay.errors import UsageError
from agentx_replay.report.points_table import points_json, points_table
from agentx_replay.results.run_directory import read_points, read_sweep


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def report(directory: Path, as_json: bool) -> None:
    """Print the table of points in DIRECTORY, also of a run that is going on or was cut short.

    \b
    agentx-replay report results/NAME
    """
    read_sweep(directory)
    points = [stored_point(stored) for stored in read_points(directory)]
    if not points:
        raise UsageError(f"{directory} has no point yet", "wait until a level has begun")
    if as_json:
        click.echo(orjson.dumps({"out": str(directory), "points": points_json(points)}).decode())
    else:
        click.echo(points_table(points))
    sys.exit(0 if all(point.verdict.valid for point in points) else 1)

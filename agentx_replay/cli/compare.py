"""``agentx-replay compare``: runs against each other, at target speeds and per dollar."""

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from agentx_replay import library
from agentx_replay.analysis.comparison import Comparison
from agentx_replay.analysis.objective import objectives_of
from agentx_replay.analysis.run import read_run
from agentx_replay.analysis.side_by_side import lowest_ratio, side_by_side
from agentx_replay.cli.options import GroupedCommand, options_of
from agentx_replay.cli.output import say, say_document, say_styled, width
from agentx_replay.cli.system import named_systems
from agentx_replay.cli.values import NamedPath, Note, NumbersByName, Real
from agentx_replay.errors import UsageError
from agentx_replay.report.compare_brief import compare_brief, whole_comparison
from agentx_replay.report.compare_sections import (
    compare_json,
    compare_rows,
)
from agentx_replay.report.numerals import throughput_unit
from agentx_replay.report.page import compare_page, write_page
from agentx_replay.report.side_sections import (
    series_json,
    series_section,
    side_brief,
    side_json,
    side_sections,
)
from agentx_replay.report.tables import csv_text, sections_markdown, sections_text


@click.command(cls=GroupedCommand, params=options_of("compare"))
@click.argument("directories", type=NamedPath(path_type=Path), nargs=-1, metavar="RUN RUN…")
@click.option(
    "--price",
    type=NumbersByName(),
    metavar="NAME=USD,…",
    help="Dollars per GPU-hour of each run, by the name of its directory.",
)
@click.option(
    "--price-source",
    type=Note(),
    metavar="TEXT",
    help="Where the prices are from, and of which day.",
)
@click.option(
    "--power", type=NumbersByName(), metavar="NAME=WATTS,…", help="Watts per GPU of each run."
)
@click.option(
    "--utilisation",
    type=NumbersByName(),
    metavar="NAME=SHARE,…",
    help="Share of GPU-hours in which each system works. Default: 1.",
)
@click.option(
    "--system", multiple=True, metavar="NAME=FILE", help="Facts of a run's system; repeatable."
)
@click.option(
    "--fact", multiple=True, metavar="NAME:KEY=VALUE", help="One fact of a run; repeatable."
)
@click.option(
    "--gpus", type=NumbersByName(), metavar="NAME=N,…", help="GPUs of runs measured without."
)
@click.option(
    "--paired",
    is_flag=True,
    help="Compare start by start; decide it before looking, since starts rarely pair.",
)
@click.option(
    "--html",
    type=NamedPath(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write a page: the curves in one picture, and everything.",
)
@click.option(
    "--fail-below",
    type=Real(0.0, min_open=True),
    metavar="RATIO",
    help="Exit with 1 if a ratio of throughput is lower, as 0.95 in CI.",
)
@click.option("--full", is_flag=True, help="Print everything known of the comparison.")
@click.option("--markdown", is_flag=True, help="Print everything as Markdown.")
def compare(
    directories: tuple[Path, ...],
    at: tuple[float, ...] | None,
    price: dict[str, float] | None,
    price_source: str | None,
    power: dict[str, float] | None,
    utilisation: dict[str, float] | None,
    system: tuple[str, ...],
    fact: tuple[str, ...],
    gpus: dict[str, float] | None,
    paired: bool,
    as_json: bool,
    as_csv: bool,
    html: Path | None,
    slo: tuple[str, ...],
    fail_below: float | None,
    full: bool,
    markdown: bool,
) -> None:
    """Compare the first RUN with each other one, at the same interactivity.

    A winner is named if the interval over starts excludes 1: measure --starts 3 or more of each, 5
    for a purchase. Nothing is extrapolated: at a target that every level of a run is faster than,
    or slower, there is no ratio. Exits with 1 where the runs are not known to have done the same
    work, or no ratio could be formed.

    \b
    agentx-replay compare results/a results/b --at 30,50,150 --price a=1.50,b=2.26
    agentx-replay compare results/a results/b --html a-b.html
    agentx-replay compare a=results/a1+results/a2 results/b
    """
    if sum((as_json, as_csv, markdown)) > 1:
        raise UsageError(
            "two-formats", "--json, --csv and --markdown are formats of their own", "choose one"
        )
    members = _series(directories)
    paths = {name: path for of in members.values() for name, path in of.items()}
    prices, powers, counts, utilisations = (
        _of_runs(option, numbers or {}, members)
        for option, numbers in (
            ("price", price), ("power", power), ("gpus", gpus), ("utilisation", utilisation)
        )
    )  # fmt: skip
    objectives = objectives_of(slo)
    _check_utilisation(utilisations)
    systems = named_systems(system, fact, tuple(paths))
    runs = {
        name: read_run(path, gpus=_whole(counts, name), system=systems.get(name))
        for name, path in paths.items()
    }
    comparison = library.compare(
        runs, at or (), price=prices, power=powers, utilisation=utilisations, paired=paired
    )
    sides = side_by_side(comparison, objectives)
    more, told = side_sections(comparison, sides), side_json(sides)
    if len(members) < len(paths):
        of_runs = {each.name: each.run for each in comparison.contenders}
        series = {name: {run: of_runs[run] for run in of} for name, of in members.items()}
        targets = [each.target for each in comparison.targets]
        unit = throughput_unit(comparison.curves[0].gpus)
        more = [series_section(series, targets, unit), *more]
        told |= series_json(series, targets)
    if html is not None:
        write_page(html, compare_page(comparison, price_source, more))
    if as_json:
        say_document(compare_json(comparison, price_source) | told)
    elif markdown:
        say(sections_markdown(whole_comparison(comparison, price_source, more)))
    elif as_csv:
        say(csv_text(compare_rows(comparison)))
    elif full:
        say(sections_text(whole_comparison(comparison, price_source, more), width()))
    else:
        say_styled(compare_brief(comparison, width(), price_source))
        say_styled(side_brief(comparison, sides, width()))
        if len(members) < len(paths):
            say(sections_text(more[:1], width()))
        say("everything: the same with --full")
    formed = any(ratio.throughput is not None for at in comparison.targets for ratio in at.ratios)
    too_low = _too_low(comparison, fail_below)
    if too_low:
        click.echo(too_low, err=True)
    sys.exit(0 if formed and comparison.did_same_work and not too_low else 1)


def _too_low(comparison: Comparison, least: float | None) -> str:
    """Return that a ratio is below ``--fail-below``; empty if none is."""
    lowest = lowest_ratio(comparison)
    if least is None or lowest is None or lowest[0] >= least:
        return ""
    return (
        f"a ratio of {lowest[0]:.3f} at {lowest[1]:g} tok/s/user is below {least:g} (--fail-below)"
    )


def _series(arguments: tuple[Path, ...]) -> dict[str, dict[str, Path]]:
    """Return the runs by name, by the name of their series: ``NAME=RUN+RUN`` is one of several
    runs, called NAME/RUN, any other argument one of its own.
    """
    split = [_split(each) for each in arguments]
    alone = [paths[0] for name, paths in split if not name]
    named = iter(_named(tuple(alone), others=len(split) - len(alone)).items())
    found: dict[str, dict[str, Path]] = {}
    for name, paths in split:
        if not name:
            own, path = next(named)
            members = {own: path}
        elif len(paths) == 1:
            own, members = name, {name: paths[0]}
        else:
            own = name
            members = {f"{name}/{run}": path for run, path in _named(paths, others=1).items()}
        if own in found:
            raise UsageError(
                "series-named-twice", f"two series are called {own}", "name each of them otherwise"
            )
        found[own] = members
    return found


def _split(argument: Path) -> tuple[str, tuple[Path, ...]]:
    """Return the name and the runs of ``NAME=RUN+RUN``; no name for a path."""
    name, equals, runs = str(argument).partition("=")
    if argument.exists() or not equals or not name or "/" in name:
        return "", (argument,)
    return name, tuple(Path(each) for each in runs.split("+"))


def _of_runs(
    option: str, numbers: Mapping[str, float], members: Mapping[str, Mapping[str, Path]]
) -> dict[str, float]:
    """Return numbers by the names of runs, those of a series for each of its runs."""
    own = {run: [run] for of in members.values() for run in of}
    runs_of = own | {series: list(of) for series, of in members.items()}
    for name in numbers:
        if name not in runs_of:
            raise UsageError(
                "named-number-of-no-run",
                f"--{option} names {name!r}, which is none of the runs",
                f"the runs are called {', '.join(own)}; {name}=DIR in place of DIR names a run",
            )
    return {run: number for name, number in numbers.items() for run in runs_of[name]}


def _named(directories: tuple[Path, ...], others: int = 0) -> dict[str, Path]:
    """Return the runs by name: a directory's own, its whole path where two are called the same."""
    if len(directories) + others < 2:
        raise UsageError(
            "one-run-to-compare",
            "a comparison needs at least two run directories",
            "write agentx-replay compare results/A results/B",
        )
    own = [directory.resolve().name for directory in directories]
    unique = len(set(own)) == len(own)
    paths = dict(zip(own if unique else map(str, directories), directories, strict=True))
    if len(paths) < len(directories):
        raise UsageError("run-named-twice", "a run is named twice", "name each run directory once")
    return paths


def _check_utilisation(utilisation: Mapping[str, float]) -> None:
    for name, share in utilisation.items():
        if share > 1.0:
            raise UsageError(
                "utilisation-over-one",
                f"--utilisation {name}={share:g} is over 1",
                "give the share of hours in which the system works, as in 0.6",
            )


def _whole(gpus: Mapping[str, float], name: str) -> int | None:
    count = gpus.get(name)
    if count is not None and not count.is_integer():
        raise UsageError(
            "gpus-not-whole", f"--gpus {name}={count:g} is not a whole number", "count the GPUs"
        )
    return None if count is None else int(count)

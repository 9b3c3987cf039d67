"""Facts of a system as commands take them, and ``agentx-replay system``, which writes a file of
what a server tells.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from agentx_replay.cli.options import GroupedCommand, options_of
from agentx_replay.cli.output import say
from agentx_replay.cli.values import NewFile
from agentx_replay.errors import UsageError, shown
from agentx_replay.experiment.settings import Settings
from agentx_replay.given_files import read_given
from agentx_replay.results.durable import disk_faults_explained, write_bytes_durably
from agentx_replay.results.system_facts import (
    FACTS,
    System,
    system_of,
    system_on_record,
    system_toml,
)
from agentx_replay.scenario import MOST_TOML_BYTES, parsed_toml
from agentx_replay.text_format import counted


def facts_of_run(base: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that ``--system`` and ``--fact`` change: the facts, and the GPU count
    where nobody else gave one.
    """
    earlier = system_on_record({"system": base.system}, "the run's record")
    system = earlier.updated(given_system(given.get("system"), given.get("fact", ())))
    gpus, told = given.get("gpus", base.gpus), system.get("gpus")
    if gpus is not None and told not in (None, gpus):
        raise UsageError(
            "gpus-contradicted",
            f"--gpus is {gpus}, and the facts of the system say gpus = {told}",
            "leave one of them out, or correct it",
        )
    return {"system": system.document(), "gpus": told if gpus is None else gpus}


def given_system(file: Path | None, facts: Sequence[str], option: str = "--fact") -> System:
    """Return the system in a TOML file, with single facts in place of its own.

    Raises ``UsageError``.
    """
    system = System() if file is None else system_of(_read(file), str(file))
    return system.with_facts(facts, option)


def named_systems(
    files: Sequence[str], facts: Sequence[str], names: Sequence[str]
) -> dict[str, System]:
    """Return the systems of runs by their names, from ``NAME=FILE`` and ``NAME:KEY=VALUE``.

    Raises ``UsageError``.
    """
    found: dict[str, System] = {}
    for text in files:
        name, _, file = text.partition("=")
        _check_run("--system", text, name if file else "", names, "NAME=FILE")
        found[name] = given_system(Path(file), ())
    for text in facts:
        name = text.partition("=")[0].rpartition(":")[0]
        _check_run("--fact", text, name, names, "NAME:KEY=VALUE")
        said = text[len(name) + 1 :]
        found[name] = found.get(name, System()).with_facts([said], f"--fact {name}")
    return found


def _check_run(option: str, text: str, name: str, names: Sequence[str], form: str) -> None:
    if name not in names:
        raise UsageError(
            "fact-of-no-run",
            f"{option} {shown(text)} names none of the runs",
            f"write {option} {form}; the runs are called {', '.join(names)}",
        )


def _read(file: Path) -> dict[str, Any]:
    raw = read_given(file, f"the system file {file}", "check the path", most_bytes=MOST_TOML_BYTES)
    try:
        return parsed_toml(raw.decode())
    except ValueError as error:
        raise UsageError(
            "system-not-toml", f"{file}: invalid TOML: {error}", "correct that line"
        ) from None


@click.command(cls=GroupedCommand, params=options_of("system"))
@click.option("--url", required=True, metavar="URL", help="The server to ask.")
@click.option(
    "--exporter", multiple=True, metavar="URL", help="A GPU exporter's page to ask; repeatable."
)
@click.option(
    "--out", required=True, type=NewFile(), metavar="FILE", help="Where to write the facts."
)
def system(url: str, exporter: tuple[str, ...], out: Path, **options: Any) -> None:
    """Write what a server tells of its system as a file for --system.

    Facts that only its operator knows are commented lines, to be filled in.

    \b
    agentx-replay system --url http://localhost:8000 --out mine.toml
    """
    from agentx_replay.target import told_system

    if out.exists():
        raise UsageError("system-file-exists", f"{out} exists", "remove it, or name a new file")
    found = told_system(Settings(url=(url,), **options), exporter)
    told = System({key: found[key] for key in FACTS if key in found})
    with disk_faults_explained(out):
        write_bytes_durably(out, system_toml(told).encode())
    given = f"{counted(len(told.facts), 'fact')} told ({', '.join(told.facts)})"
    say(f"{out}: {given}; fill in the others")

"""Facts of a system as commands take them: from files, from ``--fact``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentx_replay.errors import UsageError
from agentx_replay.experiment.settings import Settings
from agentx_replay.given_files import read_given
from agentx_replay.results.system_facts import System, system_of, system_on_record
from agentx_replay.scenario import MOST_TOML_BYTES, parsed_toml


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


def _read(file: Path) -> dict[str, Any]:
    raw = read_given(file, f"the system file {file}", "check the path", most_bytes=MOST_TOML_BYTES)
    try:
        return parsed_toml(raw.decode())
    except ValueError as error:
        raise UsageError(
            "system-not-toml", f"{file}: invalid TOML: {error}", "correct that line"
        ) from None

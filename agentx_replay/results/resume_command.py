"""The command that goes on with a run, for every place that tells a person how.

Not for: whether it may go on; that is found when it does.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentx_replay.secret_texts import HIDDEN

NOT_KEPT = "(not kept)"
"""What stands in a file of a run in place of a secret."""


def resume_command(path: Path) -> str:
    """Return the command line that goes on with the run in ``path``, quoted for a shell."""
    return shlex.join(["agentx-replay", "sweep", "--resume", "--out", str(path)])


def going_on(document: Mapping[str, Any], path: Path) -> str:
    """Return how to go on with the run in ``path``: a clause, and in a line below it the command,
    where nothing is added to what a person copies.
    """
    return f"go on with its run{typed_again(document)}:\n  {resume_command(path)}"


def typed_again(document: Mapping[str, Any]) -> str:
    """Return the end of a clause that names the options to be typed again, since a run's record
    has no secrets; empty if there are none.
    """
    names = options_hidden(document)
    return f", with {' and '.join(f'--{name}' for name in names)} typed again" if names else ""


def options_hidden(document: Mapping[str, Any]) -> list[str]:
    """Return the options whose values a ``sweep.json`` does not hold whole."""
    settings = document.get("settings", {})
    return [
        name.replace("_", "-")
        for name, value in settings.items()
        if HIDDEN in str(value) or NOT_KEPT in str(value)
    ]

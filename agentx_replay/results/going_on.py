"""The command that goes on with a run, whole, for every place that tells a person how.

Not for: whether it may go on; that is found when it does.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from agentx_replay.secret_texts import HIDDEN

NOT_KEPT = "(not kept)"
"""What stands in a file of a run in place of a secret."""

_TAKEN_OVER = ("--out", "--concurrency", "--starts")
"""Said anew, as the run has them now: it may have been resumed with more than it began with."""


def resuming_command(document: Mapping[str, Any], path: Path) -> str:
    """Return the command line that goes on with the run in ``path``, quoted for a shell.

    It is the last one of its ``sweep.json``: each had to repeat the options of before.
    """
    arguments = _last_arguments(document)
    begun_by_run = arguments[:1] == ["run"]
    kept = list(_without_taken_over(arguments[1:]))
    named = {argument.partition("=")[0] for argument in arguments}
    levels = document.get("levels", ())
    # With --concurrency the default scenario may be another than without; a file may say both.
    scenario = document.get("scenario", {}).get("name")
    if scenario is not None and not named & {"--concurrency", "--scenario", "--config"}:
        kept += ["--scenario", scenario]
    if levels and (begun_by_run or "--concurrency" in named or "--config" not in named):
        kept += ["--concurrency", ",".join(map(str, levels))]
    if document.get("starts", 1) > 1:
        kept += ["--starts", str(document["starts"])]
    return shlex.join(["agentx-replay", "sweep", *kept, "--resume", "--out", str(path)])


def going_on(document: Mapping[str, Any], path: Path) -> str:
    """Return how to go on with the run in ``path``: a clause, and in a line below it the command,
    where nothing is added to what a person copies.
    """
    command = resuming_command(document, path)
    return f"go on with its run{put_back(command)}:\n  {command}"


def put_back(command: str) -> str:
    """Return what has to be done before a command runs that a record lacks something of, as the
    end of a clause; nothing where it is whole.
    """
    marks = [mark for mark in (HIDDEN, NOT_KEPT) if mark in command]
    return f", with what was hidden put back for {' and '.join(marks)}" if marks else ""


def _last_arguments(document: Mapping[str, Any]) -> list[str]:
    resumed = document.get("resumed", ())
    last = resumed[-1].get("command") if resumed else None
    return list(last if isinstance(last, list) else document.get("command", ()))


def _without_taken_over(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the options to repeat; an ``--override`` without a rule accepts what is on record."""
    is_value = False
    for argument, after in zip_longest(arguments, arguments[1:], fillvalue="-"):
        bare = argument == "--override" and after.startswith("-")
        if not (is_value or bare or argument == "--resume" or _is_taken_over(argument)):
            yield argument
        is_value = argument in _TAKEN_OVER


def _is_taken_over(argument: str) -> bool:
    return argument.partition("=")[0] in _TAKEN_OVER

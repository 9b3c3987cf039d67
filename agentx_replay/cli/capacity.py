"""``agentx-replay capacity``: the most agents a system serves under an objective."""

from dataclasses import replace
from typing import Any

import click

from agentx_replay.cli.measure import (
    given_options,
    measure_and_show,
    settings_given,
    settings_to_resume,
)
from agentx_replay.cli.options import GroupedCommand, options_of
from agentx_replay.errors import UsageError
from agentx_replay.experiment.levels import SearchRange
from agentx_replay.experiment.settings import Settings
from agentx_replay.scenario import load_scenario

_SCENARIO = "agentx-fast"
_STARTS = 3


@click.command(cls=GroupedCommand, params=options_of("capacity"))
def capacity(**options: Any) -> None:
    """Find the most agents that a system serves under an objective.

    Levels are doubled or halved until one keeps the objective and the next does not, narrowed, and
    measured around that from further starts, which give the interval. The directory is a sweep's:
    report, compare and --resume work on it. Exits with 1 if a level could not be judged.

    \b
    agentx-replay capacity --url http://localhost:8000 --gpus 8 --slo 'itl:p90<=33ms,ttft:p95<=5s'
    """
    if options["resume"]:
        base = settings_to_resume(options["out"])
    else:
        base = Settings(starts=_STARTS, scenario=load_scenario(_SCENARIO))
    settings = settings_given(base)
    if not settings.slo:
        raise UsageError(
            "capacity-without-objective",
            "capacity searches under an objective, and none is given",
            "add one, as in --slo 'itl:p90<=33ms,ttft:p95<=5s'",
        )
    search = _search(settings.search or SearchRange())
    measure_and_show(replace(settings, search=search, concurrency=(search.first,)), options)


def _search(base: SearchRange) -> SearchRange:
    """Return the range of a search with what was given in place of its own. Raises ``UsageError``
    for a level to begin with that lies outside.
    """
    given = given_options()
    low, high = given.get("between", (base.low, base.high))
    first = given.get("first", min(max(base.first, low), high))
    if not low <= first <= high:
        raise UsageError(
            "first-level-outside-range",
            f"--from {first} lies outside --range {low},{high}",
            "begin with a level of the range",
        )
    budget_s = given.get("budget", base.budget_s)
    return SearchRange(first, low, high, budget_s, base.early_stop and "no_early_stop" not in given)

"""Options that several commands share, and the reading of their values."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from agentx_replay.cli.config_file import read_config
from agentx_replay.cli.numerals import Real, Whole, number, whole_number
from agentx_replay.errors import UsageError, shown
from agentx_replay.scenario import Scenario, load_scenario, parsed_toml

_F = TypeVar("_F", bound=Callable[..., Any])


class NamedPath(click.Path):
    """A path that names something: an empty text, as of a shell variable nobody set, would mean the
    directory one happens to be in.
    """

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """Refuse an empty text."""
        if value == "":
            self.fail("the path is empty; name a file or directory (. is this one).", param, ctx)
        return super().convert(value, param, ctx)


def config_option(command: _F) -> _F:
    """``--config FILE``: every option of the command, also from a TOML file."""
    return click.option(
        "--config",
        type=NamedPath(path_type=Path, dir_okay=False),
        callback=read_config,
        is_eager=True,
        expose_value=False,
        metavar="FILE",
        help="Read options from a TOML file; the command line wins.",
    )(command)


ALONE = ""
"""What ``--override`` without a value says."""

MOST_LANES = 10_000
"""Lanes of one level: five times what one machine was ever shown to drive."""
MOST_STARTS = 100
MOST_GPUS = 1_000_000
MOST_TOKENS = 1_000_000_000
_MOST_SECONDS = 1e9
"""Thirty years: clocks count in ns, and 64 bits hold no more than nine times that."""


class Seconds(Real):
    """A number of seconds, not negative, of at most thirty years."""

    def __init__(self) -> None:
        super().__init__(0.0, _MOST_SECONDS)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Refuse what is no number of seconds, "nan" included."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return found


def _said(value: Any) -> str:
    """Return what was given for a list, as it was: text, or numbers in a TOML file."""
    if isinstance(value, list):
        value = ",".join(map(str, value))
    return shown(value)


def levels(_: click.Context, __: click.Parameter, value: Any) -> tuple[int, ...] | None:
    """Read concurrency levels: whole numbers from 1, separated by commas (a list from TOML)."""
    if value is None:
        return None
    parts = value if isinstance(value, list) else str(value).split(",")
    numbers = [whole_number(part) for part in parts]
    found = tuple(level for level in numbers if level is not None and 1 <= level <= MOST_LANES)
    if not found or len(found) < len(numbers):
        raise UsageError(
            "levels-unfit",
            f"concurrency {_said(value)} is not a list of levels from 1 to {MOST_LANES:,}",
            "give whole numbers from 1, as in --concurrency 1,2,4,8",
        )
    if len(set(found)) != len(found):
        raise UsageError(
            "level-twice", f"concurrency {_said(value)} names a level twice", "name each once"
        )
    return found


def one_level(
    context: click.Context, parameter: click.Parameter, value: Any
) -> tuple[int, ...] | None:
    """Read one concurrency level."""
    found = levels(context, parameter, value)
    if found is not None and len(found) > 1:
        raise UsageError(
            "several-levels",
            f"{context.info_name} measures one level, not {len(found)}",
            f"use sweep --concurrency {','.join(map(str, found))}",
        )
    return found


def _targets(_: click.Context, __: click.Parameter, value: Any) -> tuple[float, ...]:
    """Read interactivities: numbers above 0, separated by commas (a list from TOML)."""
    parts = value if isinstance(value, (list, tuple)) else str(value).split(",")
    numbers = [number(part) for part in parts]
    found = tuple(speed for speed in numbers if speed is not None and 0.0 < speed < math.inf)
    if not found or len(found) < len(numbers):
        raise UsageError(
            "targets-unfit",
            f"--at {_said(value)} is not a list of speeds",
            "give numbers of tokens/s/user above 0, as in --at 30,50,150",
        )
    return tuple(dict.fromkeys(found))


def targets_option(command: _F) -> _F:
    """``--at``: the interactivities at which throughput is interpolated."""
    return click.option(
        "--at",
        type=click.UNPROCESSED,
        callback=_targets,
        default="30,50,150",
        show_default=True,
        metavar="SPEED,…",
        help="Interactivities in tokens/s/user at which throughput is read off the curve.",
    )(command)


def starts_option(command: _F) -> _F:
    """``--starts``: how many starts of each level are measured; None if it is not given."""
    return click.option(
        "--starts",
        type=Whole(1, MOST_STARTS),
        metavar="K",
        help="Starts of each level, from other points of other sessions. Default: 1.",
    )(command)


def workers(_: click.Context, __: click.Parameter, value: Any) -> int | None:
    """Read a number of processes: ``auto`` (None) or a whole number from 1."""
    if value == "auto":
        return None
    found = whole_number(value)
    if found is None or not 1 <= found <= MOST_LANES:
        raise UsageError(
            "workers-unfit",
            f"{shown(value)} is not a number of workers",
            f"give a whole number from 1 to {MOST_LANES:,}, or auto",
        )
    return found


def overridden(scenario: Scenario, overrides: tuple[str, ...]) -> Scenario:
    """Return the scenario with ``RULE=VALUE`` overrides applied and named.

    A value is read as TOML. Raises ``UsageError`` for an unknown rule or a bad value.
    """
    changes: dict[str, Any] = {}
    for override in overrides:
        rule, equals, text = override.partition("=")
        if override == ALONE:
            raise UsageError(
                "override-alone-without-resume",
                "--override alone goes with --resume",
                "to change a rule write RULE=VALUE after it",
            )
        if not equals:
            raise UsageError(
                "override-without-value",
                f"override {override!r} has no value",
                "write --override RULE=VALUE",
            )
        changes[rule.strip()] = _toml_value(text)
    return scenario.override(**changes) if changes else scenario


def _toml_value(text: str) -> Any:
    """Return a value in TOML; the text itself where it is none, or more than one."""
    try:
        found = parsed_toml(f"v = {text}")
    except ValueError:
        return text.strip()
    return found["v"] if len(found) == 1 else text.strip()


def scenario_option(command: _F, default: str = "quick") -> _F:
    """``--scenario`` and ``--override``, as one ``scenario`` and one ``override`` argument;
    ``default`` is what the help says of the scenario played where none is named.
    """
    command = click.option(
        "--override",
        multiple=True,
        is_flag=False,
        flag_value=ALONE,
        metavar="RULE=VALUE",
        help="Change one rule; recorded, not comparable any more. Bare: let --resume go on "
        "although something has changed.",
    )(command)
    return click.option(
        "--scenario",
        default="quick",
        metavar="NAME",
        help=f"agentx, agentx-faithful, agentx-fast, quick, look, or a .toml. Default: {default}.",
    )(command)


def duplicates_option(command: _F) -> _F:
    """``--keep-one-of-duplicates``."""
    return click.option(
        "--keep-one-of-duplicates",
        is_flag=True,
        help="Of sessions that repeat one another, play the first alone.",
    )(command)


def tool_messages_option(command: _F) -> _F:
    """``--tool-messages``."""
    return click.option(
        "--tool-messages",
        is_flag=True,
        help="Send answers as tool calls, and then their results.",
    )(command)


def live_history_option(command: _F) -> _F:
    """``--live-history``."""
    return click.option(
        "--live-history",
        is_flag=True,
        help="Feed what the server answers back into later prompts.",
    )(command)


_NO_LIVE_HISTORY = {
    "virtual": "--virtual has no server to give any",
    "simulate": "--simulate has no server to give any",
    "completions": "--endpoint completions has no messages to say them in",
    "tool_messages": "--tool-messages makes calls of them",
}


def refuse_live_history_with(**others: bool) -> None:
    """Refuse ``--live-history`` with what leaves nothing to feed back, or no message to say it in:
    each of ``_NO_LIVE_HISTORY``, by whether it was asked for.
    """
    for name, why in _NO_LIVE_HISTORY.items():
        if others.get(name):
            raise UsageError(
                "live-history-unfit",
                f"--live-history says answers again, and {why}",
                "leave one of them out",
            )


def resolve_scenario(name: str, overrides: tuple[str, ...]) -> Scenario:
    """Return the scenario of that name or file, with the overrides applied."""
    return overridden(load_scenario(name), overrides)

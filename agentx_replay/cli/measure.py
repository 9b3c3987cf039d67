"""``agentx-replay run`` and ``sweep``: measure a server at one or several concurrency levels."""

import functools
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from agentx_replay.cli.numerals import Whole
from agentx_replay.cli.options import (
    ALONE,
    MOST_GPUS,
    MOST_TOKENS,
    NamedPath,
    config_option,
    duplicates_option,
    levels,
    live_history_option,
    one_level,
    refuse_live_history_with,
    resolve_scenario,
    scenario_option,
    starts_option,
    targets_option,
    tool_messages_option,
    workers,
)
from agentx_replay.cli.output import escaped
from agentx_replay.cli.redaction import redacted_command
from agentx_replay.cli.sections import SectionedCommand
from agentx_replay.cli.target import TargetOptions, open_target, target_options
from agentx_replay.errors import UsageError
from agentx_replay.experiment.interrupts import INTERRUPTED_EXIT_CODE
from agentx_replay.experiment.resumption import earlier_run
from agentx_replay.experiment.settings import Settings
from agentx_replay.experiment.sweep import Sweep
from agentx_replay.report.progress import ProgressScreen
from agentx_replay.report.sweep_lines import sweep_lines
from agentx_replay.results.compaction import request_files
from agentx_replay.results.going_on import going_on
from agentx_replay.results.layout import sweep_file
from agentx_replay.results.run_directory import read_points, read_sweep
from agentx_replay.shipped import shipped_directory

if TYPE_CHECKING:
    from agentx_replay.analysis.point import Point

_LOOK_LEVELS = (2, 8, 24)
_LOOK = "look"
"""With no server and nothing else said: three short levels, under a minute in all."""


def _salt(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty salt, as of a shell variable nobody set: a random one would be taken."""
    if value == "":
        raise UsageError(
            "salt-empty", "--salt is empty", "give a text, or leave it out for a random one"
        )
    return value


_OPTIONS = (
    click.option(
        "--traces",
        type=NamedPath(path_type=Path),
        metavar="PATH",
        help="Recorded sessions: a directory or file. Default: the bundled ones.",
    ),
    starts_option,
    click.option("--gpus", type=Whole(1, MOST_GPUS), metavar="N", help="GPUs behind all servers."),
    click.option(
        "--out", type=NamedPath(path_type=Path), metavar="DIR", help="Default: results/TIME."
    ),
    *target_options,
    click.option(
        "--max-context",
        type=Whole(1, MOST_TOKENS),
        metavar="TOKENS",
        help="Leave out sessions that need more. Default: what the server says it holds.",
    ),
    click.option(
        "--max-context-policy",
        type=click.Choice(["session", "request"]),
        default="session",
        show_default=True,
        help="Leave out whole sessions, or single requests.",
    ),
    duplicates_option,
    click.option(
        "--tokenizer",
        type=NamedPath(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Take one-token words from a tokenizer.json.",
    ),
    click.option(
        "--calibration",
        type=NamedPath(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Prove and use an earlier run's calibration.json.",
    ),
    tool_messages_option,
    live_history_option,
    click.option(
        "--workers",
        default="auto",
        show_default=True,
        callback=workers,
        metavar="N",
        help="Processes to play a level. Auto: one for 128 sessions, a core left free.",
    ),
    click.option(
        "--salt",
        callback=_salt,
        metavar="TEXT",
        help="Same seed and salt: same bytes. Default: random.",
    ),
    click.option("--skip-bad", is_flag=True, help="Leave out trace files that cannot be read."),
    targets_option,
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else."),
    config_option,
)


def _measuring(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a measurement."""
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(_OPTIONS), command)


@click.command(cls=SectionedCommand)
@click.option(
    "--concurrency",
    type=click.UNPROCESSED,
    default="8",
    show_default=True,
    callback=one_level,
    metavar="N",
    help="Sessions alive at all times.",
)
@scenario_option
@_measuring
def run(concurrency: tuple[int, ...], **options: Any) -> None:
    """Measure one concurrency level.

    \b
    agentx-replay run --url http://localhost:8000 --concurrency 8 --gpus 8
    """
    _measure(concurrency, options)


@click.command(cls=SectionedCommand)
@click.option(
    "--concurrency",
    type=click.UNPROCESSED,
    callback=levels,
    metavar="N,N,…",
    help="Levels, run in this order. Default: 2,8,24.",
)
@functools.partial(
    scenario_option, default="quick, and look without --url, --concurrency and --override"
)
@_measuring
@click.option("--resume", is_flag=True, help="Go on with the run in --out; repeat its options.")
def sweep(concurrency: tuple[int, ...] | None, **options: Any) -> None:
    """Measure several concurrency levels in order.

    Without --url it measures the built-in simulator: a modelled engine, to see the whole road.

    \b
    agentx-replay sweep
    agentx-replay sweep --url http://localhost:8000 --concurrency 1,2,4,8,16 --gpus 8
    """
    if concurrency is None and not options["url"] and not _given("scenario", "override"):
        options["scenario"] = _LOOK
    if options["resume"]:
        concurrency = _as_before(options, concurrency)
    _measure(concurrency or _LOOK_LEVELS, options)


def _given(*names: str) -> bool:
    """Whether any of these options was given, on the command line or in the config file."""
    source = click.get_current_context().get_parameter_source
    return any(source(name) is not ParameterSource.DEFAULT for name in names)


def _as_before(
    options: dict[str, Any], concurrency: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """Take from the run to resume what was not given anew, and return the levels."""
    if options["out"] is None:
        raise UsageError(
            "resume-without-out", "--resume does not say which run", "name its directory with --out"
        )
    earlier = earlier_run(options["out"])
    options["salt"] = options["salt"] or earlier.salt
    kind = (options["tool_messages"], options["endpoint"])
    if kind == (earlier.document.get("tool_messages", False), earlier.api):
        options["calibration"] = options["calibration"] or earlier.calibration
    options["starts"] = options["starts"] or earlier.starts
    return concurrency or earlier.levels


def _measure(concurrency: tuple[int, ...], options: dict[str, Any]) -> None:
    live_history = options["live_history"]
    target_options = replace(TargetOptions.taken_from(options), keeps_answers=live_history)
    as_json, at = options.pop("as_json"), options.pop("at")
    if target_options.virtual and options["workers"] is not None:
        raise UsageError(
            "workers-in-virtual-time",
            "--virtual has one clock and no processes",
            "leave --workers out",
        )
    if live_history:
        refuse_live_history_with(
            virtual=target_options.virtual,
            completions=target_options.endpoint == "completions",
            tool_messages=options["tool_messages"],
        )
    settings = _settings(concurrency, options)
    try:
        points, interrupted = _run_levels(settings, target_options)
        # What only the end needs does not delay the start.
        from agentx_replay.cli.report import show

        found = show(settings.out, at, as_json=as_json, known=points)
    except KeyboardInterrupt:
        raise _interrupted(settings.out) from None
    sys.exit(_exit_code(interrupted=interrupted, sound=found.sound))


def _run_levels(settings: Settings, target_options: TargetOptions) -> tuple[list["Point"], bool]:
    """Measure, saying how it goes; return the points, and whether a person interrupted it."""
    with open_target(target_options) as target:
        sweep = Sweep(settings, target)
        screen = ProgressScreen(settings.gpus)
        for line in (
            *(warning.text for warning in target.warnings),
            *sweep.calibration.lines(),
            *sweep_lines(
                sweep.corpus,
                sweep.selection,
                settings.scenario,
                sweep.due,
                settings.out,
                servers=1 + len(target.replicas),
            ),
            *(f"  concurrency {level}: complete, kept with its plan" for level in sweep.kept),
        ):
            screen.say(escaped(line))
        points = [*sweep.kept_points, *sweep.run(screen)]
        return points, sweep.interrupted


def _interrupted(out: Path) -> UsageError:
    """Return what to say where a run was interrupted outside a level, which would have drained:
    before the first, or while the report was made.
    """
    if not sweep_file(out).exists():
        what, way_out = "interrupted before anything was measured", "nothing was written"
    elif not any(request_files(point.directory) for point in read_points(out)):
        what = "interrupted before anything was measured"
        way_out = f"{going_on(read_sweep(out), out)}\nor choose another --out"
    else:
        what = "interrupted"
        way_out = f"see what was measured with agentx-replay report {out}"
    return UsageError("stopped-by-signal", what, way_out, exit_code=INTERRUPTED_EXIT_CODE)


def _settings(concurrency: tuple[int, ...], options: dict[str, Any]) -> Settings:
    resume = options.get("resume", False)
    rules = tuple(rule for rule in options["override"] if not (resume and rule == ALONE))
    return Settings(
        traces=options["traces"] or shipped_directory("traces"),
        scenario=resolve_scenario(options["scenario"], rules),
        levels=concurrency,
        out=options["out"] or Path("results") / time.strftime("%Y%m%d-%H%M%S"),
        salt=options["salt"] or secrets.token_hex(8),
        command=redacted_command(sys.argv[1:]),
        gpus=options["gpus"],
        max_context=options["max_context"],
        context_policy=options["max_context_policy"],
        keep_one_of_duplicates=options["keep_one_of_duplicates"],
        tokenizer=options["tokenizer"],
        calibration=options["calibration"],
        tool_messages=options["tool_messages"],
        skip_bad=options["skip_bad"],
        workers=options["workers"],
        resume=resume,
        accept_differences=resume and ALONE in options["override"],
        starts=options["starts"] or 1,
        live_history=options["live_history"],
    )


def _exit_code(*, interrupted: bool, sound: bool) -> int:
    """0: done and every point valid; 1: done but not valid; 130: interrupted."""
    if interrupted:
        return INTERRUPTED_EXIT_CODE
    return 0 if sound else 1

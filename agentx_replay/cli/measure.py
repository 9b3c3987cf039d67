"""``agentx-replay run`` and ``sweep``: measure a server at one or several concurrency levels."""

import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from agentx_replay.analysis.objective import objectives_of
from agentx_replay.cli.options import ALONE, GroupedCommand, options_of
from agentx_replay.cli.redaction import redacted_command
from agentx_replay.errors import UsageError
from agentx_replay.experiment.interrupts import INTERRUPTED_EXIT_CODE
from agentx_replay.experiment.resumption import earlier_run
from agentx_replay.experiment.settings import Settings
from agentx_replay.library import measure
from agentx_replay.report.progress import ProgressScreen
from agentx_replay.results.layout import sweep_file
from agentx_replay.results.resume_command import going_on, options_hidden
from agentx_replay.results.run_directory import read_points, read_sweep
from agentx_replay.results.schema import REQUESTS
from agentx_replay.scenario import load_scenario, with_overrides
from agentx_replay.text_format import escaped

_DEMO = "demo"
"""With no server and nothing else said: three short levels, under a minute in all."""
_OF_CALIBRATION = ("endpoint", "tool_messages")
"""Another run's calibration is refused if it is of another API or kind of messages."""
_SETTINGS = frozenset(each.name for each in fields(Settings)) - {"scenario"}


@click.command(cls=GroupedCommand, params=options_of("run"))
def run(**options: Any) -> None:
    """Measure one concurrency level.

    \b
    agentx-replay run --url http://localhost:8000 --concurrency 8 --gpus 8
    """
    measure_and_show(settings_given(Settings(concurrency=options["concurrency"])), options)


@click.command(cls=GroupedCommand, params=options_of("sweep"))
def sweep(**options: Any) -> None:
    """Measure several concurrency levels in order.

    Without --url, runs against the built-in engine simulator.

    \b
    agentx-replay sweep
    agentx-replay sweep --url http://localhost:8000 --gpus 8
    agentx-replay sweep --url http://localhost:8000 --concurrency 1,2,4,8,16 --gpus 8
    """
    if options["resume"]:
        base = settings_to_resume(options["out"])
    elif "url" in given_options():
        base = Settings(concurrency=(), bracket=True)
    elif given_options().keys() & {"concurrency", "like", "scenario", "override"}:
        base = Settings()
    else:
        base = Settings(scenario=load_scenario(_DEMO))
    measure_and_show(settings_given(base), options)


def given_options() -> dict[str, Any]:
    """Return the options given on the command line or in a config file, by name."""
    context = click.get_current_context()
    source = context.get_parameter_source
    return {n: v for n, v in context.params.items() if source(n) is not ParameterSource.DEFAULT}


def settings_to_resume(out: Path | None) -> Settings:
    """Return the settings of the run in ``out``, but for secrets, which have to be given again."""
    if out is None:
        raise UsageError(
            "resume-without-out", "--resume does not say which run", "name its directory with --out"
        )
    earlier = earlier_run(out)
    given = {name.replace("_", "-") for name in given_options()}
    missing = [f"--{name}" for name in options_hidden(earlier.document) if name not in given]
    if missing:
        raise UsageError(
            "resume-without-secret",
            f"{sweep_file(out)} does not hold what {' and '.join(missing)} had to say",
            f"add {' and '.join(missing)} as before",
        )
    return replace(earlier.settings, resume=True)


def settings_given(base: Settings) -> Settings:
    """Return ``base`` with what was given in place of its own."""
    given = given_options()
    scenario = load_scenario(given["scenario"]) if "scenario" in given else base.scenario
    override = given.get("override", ())
    rules = [each for each in override if each != ALONE]
    if "window" in given:
        rules.append(f"window_s={given['window']}")
    if ALONE in override and not base.resume:
        raise UsageError(
            "override-alone-without-resume",
            "--override alone goes with --resume",
            "to change a rule write RULE=VALUE after it",
        )
    changes = {name: value for name, value in given.items() if name in _SETTINGS}
    changes |= _levels(base, given)
    if {"system", "fact"} & given.keys():
        from agentx_replay.cli.system import facts_of_run

        changes |= facts_of_run(base, given)
    if any(changes.get(n, getattr(base, n)) != getattr(base, n) for n in _OF_CALIBRATION):
        changes.setdefault("calibration", None)
    return replace(
        base,
        **changes,
        scenario=with_overrides(scenario, rules),
        command=redacted_command(sys.argv[1:]),
        accept_differences=ALONE in override,
    )


def _levels(base: Settings, given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of levels that were given: named, found by probes or another run's."""
    named = given.get("concurrency")
    if "like" in given:
        if named is not None:
            raise UsageError(
                "like-with-concurrency",
                "--like takes the levels of a run, and --concurrency names others",
                "leave one of them out",
            )
        named = tuple(read_sweep(given["like"])["levels"])
    if named is None:
        return {}
    if base.resume and not named:
        raise UsageError(
            "auto-with-resume",
            "--resume goes on with the levels of the run, and --concurrency auto finds others",
            "leave --concurrency out, or name the levels to add",
        )
    return {"concurrency": named, "bracket": not named}


def measure_and_show(settings: Settings, options: dict[str, Any]) -> None:
    """Measure, print the report and exit: with 0 if it is sound, 1 if not."""
    objectives_of(settings.slo)  # before anything is measured
    try:
        measured = measure(settings, _Screen(settings.gpus))
        # What only the end needs does not delay the start.
        from agentx_replay.cli.report import Form, show

        form: Form = "json" if options["as_json"] else "brief"
        found = show(settings.out, settings.at, form, known=measured.points)
    except KeyboardInterrupt:
        raise _interrupted(settings.out) from None
    if measured.interrupted:
        sys.exit(INTERRUPTED_EXIT_CODE)
    sys.exit(0 if found.sound else 1)


class _Screen(ProgressScreen):
    """A screen on which texts of servers and files move no cursor."""

    def say(self, line: str) -> None:
        super().say(escaped(line))


def _interrupted(out: Path) -> UsageError:
    """Return what to say where a run was interrupted outside a level, which would have drained:
    before the first, or while the report was made.
    """
    if not sweep_file(out).exists():
        what, way_out = "interrupted before anything was measured", "nothing was written"
    elif not any(REQUESTS.files(point.directory) for point in read_points(out)):
        what = "interrupted before anything was measured"
        way_out = f"{going_on(read_sweep(out), out)}\nor choose another --out"
    else:
        what = "interrupted"
        way_out = f"see what was measured with agentx-replay report {out}"
    return UsageError("stopped-by-signal", what, way_out, exit_code=INTERRUPTED_EXIT_CODE)

"""The library: measure a server, read a run, compare runs. The command line is built on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agentx_replay.errors import UsageError
from agentx_replay.experiment.levels import LevelSource
from agentx_replay.experiment.settings import DEFAULT_LEVELS, Screen, Settings, Target
from agentx_replay.experiment.sweep import Sweep
from agentx_replay.report.check_lines import invalidating, remedy
from agentx_replay.report.plan_lines import resumption_lines, sweep_lines
from agentx_replay.report.progress import ProgressScreen
from agentx_replay.scenario import load_scenario
from agentx_replay.target import open_target

if TYPE_CHECKING:
    from agentx_replay.analysis.comparison import Comparison
    from agentx_replay.analysis.point import Point
    from agentx_replay.analysis.run import Run


@dataclass(frozen=True, slots=True)
class Measured:
    """The points of a sweep, and whether a person interrupted it."""

    points: tuple["Point", ...]
    interrupted: bool


def measure(settings: Settings, screen: Screen, levels: LevelSource | None = None) -> Measured:
    """Measure the levels of the settings that are not complete yet, or those that ``levels`` asks
    for. Raises ``UsageError``.
    """
    levels = levels or _search(settings)
    with open_target(settings) as target:
        if not settings.anyway:
            _refuse_unfit(settings, target)
        for warning in target.warnings:
            screen.say(warning.text)
        sweep = _sweep(settings, target, screen, levels)
        for line in (
            *sweep.calibration.lines(),
            *sweep_lines(
                sweep.corpus,
                sweep.selection,
                settings.scenario,
                sweep.due,
                settings.out,
                servers=1 + len(target.replicas),
                searched_starts=settings.starts if settings.search else None,
            ),
            *(
                resumption_lines(earlier.planned, earlier.begun, sweep.kept, sweep.ahead)
                if (earlier := sweep.earlier) is not None
                else ()
            ),
        ):
            screen.say(line)
        points = (*sweep.kept_points, *sweep.run(screen))
        return Measured(points, sweep.interrupted)


def _sweep(settings: Settings, target: Target, screen: Screen, levels: LevelSource | None) -> Sweep:
    """Return the sweep of ``levels``, or of those that the settings name or have found."""
    if levels is not None or not settings.bracket:
        return Sweep(settings, target, levels)
    from agentx_replay.experiment.auto import Bracketing, found_levels

    prepared = None
    if not settings.concurrency:
        found, prepared = found_levels(settings, target, screen)
        settings = replace(settings, concurrency=found)
    levels = Bracketing(settings.concurrency, settings.starts, settings.at)
    return Sweep(settings, target, levels, prepared)


def _refuse_unfit(settings: Settings, target: Target) -> None:
    """Raise ``UsageError`` (exit code 3) for a server on which no run can be valid. Only one that
    does not tell its context limit is sent a long prompt: the others leave out what does not fit.
    """
    wrong = invalidating(target.warnings)
    if not wrong and target.max_context is None:
        from agentx_replay.experiment.cut_prompts import cut_prompts

        wrong = cut_prompts(target, settings.max_context)
    if wrong:
        raise UsageError(
            "server-unfit",
            "; ".join(each.text for each in wrong),
            "; ".join([*map(remedy, wrong), "--anyway measures it all the same"]),
            exit_code=3,
        )


def _search(settings: Settings) -> LevelSource | None:
    if settings.search is None:
        return None
    from agentx_replay.experiment.capacity_search import capacity_levels

    return capacity_levels(settings)


def sweep(
    url: str | Sequence[str] = (),
    *,
    concurrency: Sequence[int] = DEFAULT_LEVELS,
    scenario: str = "quick",
    override: Mapping[str, Any] | None = None,
    screen: Screen | None = None,
    **settings: Any,
) -> "Run":
    """Measure a server (several ``url``: replicas of one; none: the built-in simulator) and return
    the run. ``override`` changes rules of the scenario, ``settings`` are further fields of
    ``Settings``.

    Raises ``UsageError`` for bad input or a server that cannot be measured.
    """
    from agentx_replay.analysis.run import read_run

    rules = load_scenario(scenario).override(**override or {})
    urls = (url,) if isinstance(url, str) else tuple(url)
    asked = Settings(url=urls, concurrency=tuple(concurrency), scenario=rules, **settings)
    measure(asked, screen or ProgressScreen(asked.gpus))
    return read_run(asked.out)


def compare(
    runs: Mapping[str, "Run"],
    at: Sequence[float] = (),
    *,
    price: Mapping[str, float] | None = None,
    power: Mapping[str, float] | None = None,
    utilisation: Mapping[str, float] | None = None,
    paired: bool = False,
) -> "Comparison":
    """Compare the first of ``runs``, by name, with each other one at target interactivities; by
    default those that the first was measured for.

    ``price`` is in dollars per GPU-hour, ``power`` in watts per GPU, ``utilisation`` the share of
    GPU-hours in which a system works, by run; without them the facts of the run's system count.
    ``paired`` compares start by start. Raises ``UsageError`` as ``analysis.comparison.compare``.
    """
    from agentx_replay.analysis import comparison

    contenders = [
        comparison.Contender(
            name,
            run,
            (price or {}).get(name, run.system.get("price.usd_per_gpu_hour")),
            (power or {}).get(name, run.system.get("power.watts_per_gpu")),
            (utilisation or {}).get(name, run.system.get("price.utilisation") or 1.0),
        )
        for name, run in runs.items()
    ]
    return comparison.compare(contenders, at or contenders[0].run.targets, paired=paired)

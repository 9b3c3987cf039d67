"""The levels of a sweep that names none: short probes find them, and measured points add to them.

A probe is a level of the same sessions and rules with a window of seconds; its speed serves to
choose levels and is in no report. Probes go upwards, each by no more than the speed so far demands,
so that none overloads the server for long.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from agentx_replay.analysis.curve import curves_by_start, target_value
from agentx_replay.analysis.ladder import bracketing, level_toward
from agentx_replay.analysis.point import Point
from agentx_replay.errors import UsageError
from agentx_replay.experiment.levels import Done, FixedLevels, LevelSource
from agentx_replay.experiment.settings import Screen, Settings, Target
from agentx_replay.experiment.sweep import Prepared, Sweep
from agentx_replay.results.layout import Measurement
from agentx_replay.results.run_directory import RunDirectory
from agentx_replay.scenario import Scenario
from agentx_replay.units import NS_PER_S

MOST_AGENTS = 2048
"""What one machine was shown to drive (``benchmarks/many_streams.py``: 4,096 streams at most)."""
_BUDGET_WINDOWS = 3 / 10
"""Windows of a start that all probes may take: 10 % of a run of three levels. But at least
``_LEAST_S``."""
_LEAST_S = 180.0
_WINDOW_S = (5.0, 60.0)
_WINDOWS = 60
"""A probe's window is a sixtieth of a level's, within these bounds."""
_DRAIN_S = 5.0
_MOST_ADDED = 2
"""Levels that are added if the ones found leave a target outside."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a probe saw: speed in tokens/s/user, None if no response had an ITL, and how long it
    took at most, in s.
    """

    concurrency: int
    speed: float | None
    took_s: float


@dataclass(frozen=True, slots=True)
class Probing(LevelSource):
    """Goes upwards until a probe is slower than the slowest of ``targets``, or another one might
    take longer than ``budget_s`` leaves.
    """

    targets: tuple[float, ...]
    rules: Scenario
    budget_s: float

    def next_level(self, history: Sequence[Point]) -> Measurement | Done:
        return self.next_probe([probe_of(point, self.rules) for point in history])

    def next_probe(self, probes: Sequence[Probe]) -> Measurement | Done:
        if not probes:
            return Measurement(1)
        last, spent_s = probes[-1], sum(each.took_s for each in probes)
        if last.speed is None or last.speed <= min(self.targets):
            return Done()
        level = level_toward(last.concurrency, last.speed, min(self.targets))
        level = level and max(level, 2 * last.concurrency)  # doubling: the ladder has 2n for each n
        if level is None or level > MOST_AGENTS:
            return Done(f"more than {MOST_AGENTS:,} agents are not tried")
        if spent_s + self.rules.warmup_timeout_s + _window_and_drain_s(self.rules) > self.budget_s:
            return Done(f"no more probes: {self.budget_s:.0f} s are for probing")
        return Measurement(level)


def probe_of(point: Point, rules: Scenario) -> Probe:
    """Return what a probe says; if its window never opened, its warm-up took all its time."""
    speed = point.speeds.get("with_cut")  # long answers are cut, and slow ones are long
    window = point.facts.window
    warmup_s = rules.warmup_timeout_s if window is None else window.open_ns / NS_PER_S
    return Probe(point.concurrency, speed, warmup_s + _window_and_drain_s(rules))


def _window_and_drain_s(rules: Scenario) -> float:
    return rules.window_s + rules.grace_s


@dataclass(frozen=True, slots=True)
class Bracketing(LevelSource):
    """The ``found`` levels, and then up to two more as long as their valid points leave a target
    outside.
    """

    found: tuple[int, ...]
    starts: int
    targets: tuple[float, ...]

    def ahead(self, history: Sequence[Point]) -> tuple[Measurement, ...]:
        more = {point.concurrency for point in history} - {*self.found}
        return FixedLevels((*self.found, *sorted(more)), self.starts).ahead(history)

    def next_level(self, history: Sequence[Point]) -> Measurement | Done:
        following = self.ahead(history)
        if following:
            return following[0]
        levels = {point.concurrency for point in history}
        if len(levels) >= len(self.found) + _MOST_ADDED:
            return Done()
        curves = curves_by_start(history)
        for value in (target_value(curves, target) for target in self.targets):
            if value.throughput is None and value.nearest and value.every_level_is:
                nearest = value.nearest
                level = level_toward(nearest.concurrency, nearest.interactivity, value.target)
                if level is not None and level <= MOST_AGENTS and level not in levels:
                    return Measurement(level)
        return Done()


# --- probing -------------------------------------------------------------------------------------


def found_levels(
    settings: Settings, target: Target, screen: Screen
) -> tuple[tuple[int, ...], Prepared]:
    """Probe, and return the levels between which the target speeds are expected, and what the sweep
    need not prepare again.

    Raises ``UsageError`` if no probe had a speed, and ``KeyboardInterrupt``.
    """
    RunDirectory.create(settings.out)  # refused now if it is taken: probes take minutes
    rules, budget_s = probe_rules(settings.scenario, settings.starts)
    speeds = ", ".join(f"{each:g}" for each in settings.at)
    screen.say(
        f"finding levels for {speeds} tok/s/user: probes of {rules.window_s:g} s, "
        f"{budget_s:.0f} s in all at most"
    )
    with TemporaryDirectory() as directory:
        sweep = Sweep(
            replace(
                settings,
                out=Path(directory) / "probes",
                scenario=rules,
                salt=f"probe-{settings.salt}",
                starts=1,
            ),
            target,
            Probing(settings.at, rules, budget_s),
        )
        probes = []
        for point in sweep.run(screen):
            probes.append(probe_of(point, rules))
            screen.say(f"  {_said(probes[-1])}")
        if sweep.interrupted:
            raise KeyboardInterrupt
    seen = [(each.concurrency, each.speed) for each in probes if each.speed is not None]
    if not seen:
        raise UsageError(
            "no-probe-with-speed",
            "no probe had a response with an inter-token latency",
            "see what check says of the server, or name levels with --concurrency",
            exit_code=3,
        )
    prepared = replace(sweep.prepared, probes=tuple(asdict(each) for each in probes))
    return bracketing(seen, settings.at), prepared


def probe_rules(scenario: Scenario, starts: int) -> tuple[Scenario, float]:
    """Return the rules of a probe, and how long all probes may take, in s: 10 % of a run of three
    levels, but at least three minutes.
    """
    low, high = _WINDOW_S
    window_s = min(max(scenario.window_s / _WINDOWS, low), high, scenario.window_s)
    budget_s = max(scenario.window_s * starts * _BUDGET_WINDOWS, _LEAST_S)
    rules = replace(
        scenario,
        window_s=window_s,
        grace_s=min(scenario.grace_s, _DRAIN_S),
        warmup_requests=0,  # each waits for a whole answer, which may be of thousands of tokens
        warmup_timeout_s=min(scenario.warmup_timeout_s, budget_s / 3),
    )
    return rules, budget_s


def _said(probe: Probe) -> str:
    agents = f"{probe.concurrency} agent{'' if probe.concurrency == 1 else 's'}"
    return f"{agents}: {'no speed' if probe.speed is None else f'{probe.speed:.3g} tok/s/user'}"

"""How often an interval over starts holds the truth, on the batching engine in virtual time.

A population is what every start gives: speed and throughput, by engine, level and seed. Its truth
is the geometric mean of all seeds. Three starts are drawn from it as a person would measure them,
each interval is made by the product, and it is counted how many hold the truth.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Literal

from record_cases import recorded, summarised
from virtual_replay import Log

from agentx_replay.analysis.curve import CurvePoint, target_value
from agentx_replay.analysis.responses import Records, Window
from agentx_replay.analysis.starts import (
    Interval,
    interval_of,
    mean_of_starts,
    paired_interval,
    ratio_interval,
    spread,
)
from agentx_replay.experiment.prompting import Prompting, wording_of
from agentx_replay.experiment.sessions import SessionSource
from agentx_replay.plan.plan import GraphLibrary, Plan
from agentx_replay.prompts.calibration import assumed
from agentx_replay.replay.driver import Replay
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock
from agentx_replay.scenario import Scenario
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.inprocess import InProcessEndpoint

FASTER = 1.05
"""How much faster the second engine is."""
DRAWN = 4000
"""So many combinations of seeds tell a share to half a per cent."""
A_SHUFFLED_START = 2
"""Starts from the second on deal the sessions in another order."""
_TIMES = ("step_base_ms", "per_sequence_ms", "per_context_token_ms", "per_prefill_token_ms")

ENGINES = {
    "usual": EngineModel(),
    "5 % faster": replace(
        EngineModel(), **{name: getattr(EngineModel(), name) / FASTER for name in _TIMES}
    ),
}

Population = Mapping[int, Mapping[int, tuple[float, float]]]
"""(tokens/s/user, tokens/s) by level and seed."""


class Setup:
    """What is replayed: the sessions under ``traces`` by a scenario's rules."""

    def __init__(self, traces: Path, scenario: Scenario) -> None:
        self._scenario = scenario
        source = SessionSource(
            traces=traces,
            skip_bad=False,
            max_context=None,
            context_policy="session",
            max_sessions=scenario.max_sessions,
            keep_one_of_duplicates=False,
        )
        self._corpus, selection = source.read()
        self._library = GraphLibrary(selection, scenario)
        calibration = assumed("simulated", "chat", tool_messages=False)
        wording = wording_of(calibration, chat=True)
        self._prompting = Prompting(wording, calibration.cost, "coverage", scenario.shared_prefix)

    def measured(self, engine: EngineModel, lanes: int, seed: int) -> tuple[float, float]:
        """Return speed and headline throughput of one level of the start that has this seed."""
        records, window = self.replayed(engine, lanes, seed)
        summary = summarised(records, window)
        assert summary.interactivity is not None
        assert summary.rates.headline is not None
        return summary.interactivity, summary.rates.headline.total_tokens_per_s

    def replayed(self, engine: EngineModel, lanes: int, seed: int) -> tuple[Records, Window]:
        """Return the records of one level of the start that has this seed."""
        start = A_SHUFFLED_START
        scenario = replace(self._scenario, seed=seed - start + 1)
        plan = Plan(scenario, self._corpus.fingerprint, self._library, lanes, start)
        log = Log()

        async def main() -> Window:
            clock = virtual_clock()
            endpoint = InProcessEndpoint(clock, engine)
            prompts = self._prompting.level(lanes, 0, start)
            result = await Replay(plan, prompts, clock, endpoint, log, run_id="t").run()
            assert result.window is not None, result.failure
            return Window(result.window.open_ns, result.window.close_ns, scenario.window_s)

        window = run_virtual(main())
        return recorded(log.requests), window


Kind = Literal["one system", "ratio", "paired ratio"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One number: of ``drawn`` intervals ``held`` hold the truth, the median half-width is
    ``half_width`` and starts differ by ``spread``, both relative.
    """

    kind: Kind
    name: str
    truth: float
    spread: float
    drawn: int
    held: int
    half_width: float

    @property
    def share(self) -> float:
        return self.held / self.drawn


def cells(
    usual: Population, faster: Population, targets: Sequence[float], starts: int = 3
) -> Iterator[Cell]:
    """Yield a cell for each level's speed and throughput and each target, of one engine and of the
    ratio of the second to the first; ``DRAWN`` different combinations of ``starts`` seeds at most.
    """
    for level in usual:
        for number, what in enumerate(("speed", "throughput")):
            of = [
                {seed: pair[number] for seed, pair in each[level].items()}
                for each in (usual, faster)
            ]
            yield from _cells_of(f"{what} at {level} lanes", of[0], of[1], starts)
    for target in targets:
        at = [_at_target(each, target) for each in (usual, faster)]
        yield from _cells_of(f"throughput at {target:g} tok/s/user", at[0], at[1], starts)


def _at_target(population: Population, target: float) -> dict[int, float]:
    """Return what each seed's own curve gives, for the seeds that reach the target."""
    found = {}
    for seed in next(iter(population.values())):
        points = [CurvePoint(level, *of[seed]) for level, of in population.items()]
        throughput = target_value({1: points}, target).throughput
        if throughput is not None:
            found[seed] = throughput
    return found


def _cells_of(
    name: str, usual: Mapping[int, float], faster: Mapping[int, float], starts: int
) -> Iterator[Cell]:
    yield _cell("one system", name, [usual], starts)
    seeds = sorted(usual.keys() & faster.keys())
    both = [{seed: each[seed] for seed in seeds} for each in (faster, usual)]
    yield _cell("ratio", f"ratio of {name}", both, starts)
    yield _cell("paired ratio", f"paired ratio of {name}", both, starts)


def _cell(kind: Kind, name: str, of: Sequence[Mapping[int, float]], starts: int) -> Cell:
    means = [mean_of_starts(list(each.values())) for each in of]
    truth = means[0] / (means[1] if len(of) == 2 else 1.0)
    held, halves = 0, []
    for seeds in drawn_seeds(list(of[0]), starts):
        drawn = [[each[seed] for seed in seeds] for each in of]
        found = _interval(kind, drawn)
        assert found is not None
        held += holds(found, truth)
        halves.append((found.high - found.low) / (found.high + found.low))
    halves.sort()
    return Cell(
        kind=kind,
        name=name,
        truth=truth,
        spread=max(spread(list(each.values())) for each in of),
        drawn=len(halves),
        held=held,
        half_width=halves[len(halves) // 2],
    )


def _interval(kind: Kind, drawn: Sequence[Sequence[float]]) -> Interval | None:
    if kind == "one system":
        return interval_of(drawn[0])
    return (ratio_interval if kind == "ratio" else paired_interval)(drawn[0], drawn[1])


def drawn_seeds(seeds: Sequence[int], starts: int) -> list[tuple[int, ...]]:
    """Return combinations of seeds: all of them, or ``DRAWN`` of them at random."""
    if math.comb(len(seeds), starts) <= DRAWN:
        return list(combinations(seeds, starts))
    rng, found = random.Random(1), set[tuple[int, ...]]()
    while len(found) < DRAWN:
        found.add(tuple(sorted(rng.sample(seeds, starts))))
    return sorted(found)


def holds(found: Interval, value: float) -> bool:
    """Whether an interval holds a value."""
    return found.low <= value <= found.high

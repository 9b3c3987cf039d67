"""The search against capacities that are known: in closed form, and drawn."""

import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from search_draws import drawn
from virtual_replay import Timed

from agentx_replay.analysis.capacity import capacity_of, outcome_of
from agentx_replay.analysis.objective import objective_of
from agentx_replay.experiment.capacity_search import capacity_levels
from agentx_replay.experiment.levels import SearchRange
from agentx_replay.experiment.settings import Settings, Target
from agentx_replay.experiment.sweep import Sweep
from agentx_replay.replay.ports import Clock, Dispatch, Response
from agentx_replay.report.progress import ProgressScreen
from agentx_replay.results.layout import Measurement
from agentx_replay.scenario import load_scenario

MS = 1_000_000
STEP_MS, PER_AGENT_MS = 4.0, 0.25


class Linear(Timed):
    """A server of which every token after the first takes 4 ms and 0.25 ms for each agent of the
    level, whatever else it does.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, lambda dispatch: dispatch.max_tokens * gap_ms(dispatch) / 1e3)

    async def send(self, dispatch: Dispatch) -> Response:
        found = await super().send(dispatch)
        gaps_ns = np.arange(1, dispatch.max_tokens + 1) * round(gap_ms(dispatch) * MS)
        arrival_ns = found.send_ns + gaps_ns
        return replace(
            found,
            arrival_ns=arrival_ns[arrival_ns <= found.end_ns],
            prompt_tokens=dispatch.prompt.tokens,
        )


def gap_ms(dispatch: Dispatch) -> float:
    return STEP_MS + PER_AGENT_MS * dispatch.concurrency


def test_a_capacity_in_closed_form_is_found_within_3_percent(tmp_path: Path) -> None:
    # 4 + 0.25 N reaches 14 ms at 40 agents. At 64 it is 20 ms for all: refused early.
    settings = Settings(
        scenario=load_scenario("quick").override(window_s=6.0, grace_s=99.0),
        search=SearchRange(first=32, high=64),
        slo=("itl:p90<=14ms",),
        starts=2,
        out=tmp_path / "run",
    )
    target = Target(open=Linear, facts={"kind": "test"}, virtual=True)
    sweep = Sweep(settings, target, capacity_levels(settings))
    points = {point.measurement: point for point in sweep.run(ProgressScreen(None))}
    objective = objective_of(settings.slo[0])
    found = capacity_of([outcome_of(each, objective) for each in points.values()], objective)
    assert found.agents == pytest.approx(40.0, rel=0.03)
    assert [start.crossing for start in found.starts] == pytest.approx([40.0, 40.0], rel=0.03)
    refused = points[Measurement(64)].facts.window
    assert refused is not None
    assert refused.length_s < 6.0


def noisy(concurrency: int, seed: int) -> tuple[float, bool]:
    """A system with 44 agents of which margins spread by 8 % a start and 5 % a level, and are
    refused from 1.3 times the bound on.
    """
    start = random.Random(seed).gauss(0.0, 0.08)
    level = random.Random(f"{seed}/{concurrency}").gauss(0.0, 0.05)
    margin = math.log(concurrency / 44.0) + start + level
    return margin, margin > math.log(1.3)


def test_intervals_of_three_starts_hold_the_truth() -> None:
    found = drawn(objective_of("itl:p90<=9ms"), noisy, 44.0, range(1000), searches=200)
    assert found.open == 0
    assert found.held >= 186
    assert abs(found.bias) < 0.02
    assert found.levels < 11.0

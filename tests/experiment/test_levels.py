"""Where a sweep's levels come from: a list, or a source that decides by what was measured."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from agentx_replay.analysis.point import Point
from agentx_replay.experiment.levels import Done, FixedLevels
from agentx_replay.experiment.settings import Settings, Target
from agentx_replay.experiment.sweep import Sweep
from agentx_replay.report.progress import ProgressScreen
from agentx_replay.results.layout import Measurement
from agentx_replay.results.run_directory import read_points, read_sweep
from agentx_replay.results.schema import REQUESTS
from agentx_replay.scenario import load_scenario
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.inprocess import InProcessEndpoint

SCENARIO = load_scenario("quick").override(window_s=2.0, grace_s=1.0)
TARGET = Target(
    open=lambda clock: InProcessEndpoint(clock, EngineModel()),
    facts={"kind": "test"},
    virtual=True,
)


@dataclass
class Script:
    """Asks for these levels, whatever was measured."""

    levels: list[int]

    def ahead(self, history: Sequence[Point]) -> tuple[Measurement, ...]:
        return tuple(map(Measurement, self.levels[:1]))

    def next_level(self, history: Sequence[Point]) -> Measurement | Done:
        return Measurement(self.levels.pop(0)) if self.levels else Done("found it")

    def early_rule(self, history: Sequence[Point]) -> None: ...


def test_a_fixed_list_measures_all_of_a_start_before_the_next() -> None:
    assert FixedLevels((8, 2), starts=2).ahead(()) == ((8, 1), (2, 1), (8, 2), (2, 2))
    assert FixedLevels((8,)).next_level(()) == (8, 1)
    assert FixedLevels(()).next_level(()) == Done()


def settings(out: Path, *, resume: bool = False) -> Settings:
    return Settings(scenario=SCENARIO, out=out, salt="pepper", resume=resume)


def run(sweep: Sweep) -> tuple[list[int], str]:
    said = StringIO()
    return [point.concurrency for point in sweep.run(ProgressScreen(None, said))], said.getvalue()


def test_a_search_puts_each_level_on_record_and_goes_on_where_it_was(tmp_path: Path) -> None:
    measured, said = run(Sweep(settings(tmp_path), TARGET, Script([3, 1])))
    assert measured == [3, 1]
    assert re.fullmatch(r"  level added: 1, plan [0-9a-f]{16}\nfound it\n", said)
    going_on = Sweep(settings(tmp_path, resume=True), TARGET, Script([2]))
    assert (going_on.kept, run(going_on)[0]) == ([(1, 1), (3, 1)], [2])
    document = read_sweep(tmp_path)
    assert (document["levels"], sorted(document["plans"])) == ([1, 2, 3], ["1", "2", "3"])


def test_a_level_measured_again_replaces_the_point_and_sends_other_words(tmp_path: Path) -> None:
    assert run(Sweep(settings(tmp_path), TARGET, Script([2, 2])))[0] == [2, 2]
    (point,) = read_points(tmp_path)
    assert point.document["attempt"] == 1
    first = REQUESTS.read(tmp_path / "unfinished" / "c0002.attempt-0")
    assert not {*first["own_block"].to_pylist()} & {*point.requests()["own_block"].to_pylist()}

"""Intervals of three starts hold the truth as often as they say; see ``interval_coverage.py``."""

from pathlib import Path

import orjson
from interval_coverage import ENGINES, Cell, Setup, cells, drawn_seeds

from agentx_replay.scenario import load_scenario
from agentx_replay.shipped import shipped_directory

RESULT = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "coverage.json"
SEEDS = range(1001, 1011)
LEVELS = (6, 12)


def test_of_three_starts_of_ten_most_intervals_hold_the_mean_of_all_ten() -> None:
    scenario = load_scenario("quick").override(window_s=12.0, grace_s=4.0)
    setup = Setup(shipped_directory("traces"), scenario)
    usual, faster = (
        {level: {seed: setup.measured(engine, level, seed) for seed in SEEDS} for level in LEVELS}
        for engine in ENGINES.values()
    )
    found = list(cells(usual, faster, ()))
    assert [cell.drawn for cell in found] == [120] * 12  # three of ten
    assert share(found) >= 0.93
    assert min(cell.share for cell in found) >= 0.8  # one start in ten is in 36 of 120 draws


def share(found: list[Cell]) -> float:
    return sum(cell.held for cell in found) / sum(cell.drawn for cell in found)


def test_seeds_are_drawn_all_or_at_random_and_the_same_each_time() -> None:
    assert drawn_seeds([1, 2, 3], 2) == [(1, 2), (1, 3), (2, 3)]
    many = drawn_seeds(list(range(100)), 3)
    assert (len(many), len(set(many))) == (4000, 4000)
    assert many == drawn_seeds(list(range(100)), 3)


def test_the_kept_result_holds_the_truth_in_93_of_100_and_in_85_in_every_cell() -> None:
    kept = orjson.loads(RESULT.read_bytes())
    assert (kept["seeds"], kept["levels"], kept["starts"]) == ([1001, 1100], [16, 32, 45, 64], 3)
    for kind in ("one system", "ratio"):
        of = [cell for cell in kept["cells"] if cell["kind"] == kind]
        assert len(of) == 12  # speed and throughput at four levels, and four targets
        assert sum(cell["held"] for cell in of) / sum(cell["drawn"] for cell in of) >= 0.93
        assert min(cell["share"] for cell in of) >= 0.85

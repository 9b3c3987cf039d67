"""How often intervals of three starts hold the truth: 100 starts of real sessions, virtual time.

    python benchmarks/coverage.py TRACES

replays the sessions under TRACES with scenario agentx-fast at 16, 32, 45 and 64 lanes from the
starts of seeds 1001 to 1100, on the engine model and on one that is 5 % faster, and writes
benchmarks/results/coverage.json. What every start gave is in coverage_population.json, from which
it goes on: about 15 minutes of one core if nothing is there. What is drawn is in
tests/interval_coverage.py.
"""

import sys
from dataclasses import asdict
from itertools import product
from pathlib import Path

import orjson

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "tests")]

from interval_coverage import ENGINES, Cell, Population, Setup, cells  # noqa: E402

from agentx_replay.scenario import load_scenario  # noqa: E402
from benchmarks.results_file import RESULTS, write_result  # noqa: E402

SCENARIO = "agentx-fast"
LEVELS = (16, 32, 45, 64)
SEEDS = range(1001, 1101)
TARGETS = (60.0, 70.0, 85.0, 100.0)
STARTS = 3
KEPT = RESULTS / "coverage_population.json"


def main() -> None:
    """Replay what is lacking, draw, write and print."""
    usual, faster = populations(Path(sys.argv[1]))
    found = list(cells(usual, faster, TARGETS, STARTS))
    for cell in found:
        print(f"{cell.name:50} {cell.share:6.1%} held, ±{cell.half_width:.1%}")
    pooled = {
        kind: sum(c.held for c in each) / sum(c.drawn for c in each)
        for kind, each in kinds(found).items()
    }
    result = {
        "scenario": SCENARIO,
        "levels": LEVELS,
        "seeds": [SEEDS[0], SEEDS[-1]],
        "starts": STARTS,
        "held_pooled": pooled,
        "cells": [asdict(cell) | {"share": round(cell.share, 4)} for cell in found],
    }
    print(pooled, write_result("coverage", result))


def kinds(found: list[Cell]) -> dict[str, list[Cell]]:
    """Return the cells by kind: of one system, of a ratio, of a ratio by pairs."""
    kept: dict[str, list[Cell]] = {}
    for cell in found:
        kept.setdefault(cell.kind, []).append(cell)
    return kept


def populations(traces: Path) -> list[Population]:
    """Return what every start gave on each engine, from the file or by replaying it."""
    kept = orjson.loads(KEPT.read_bytes()) if KEPT.exists() else {}
    setup = None
    for seed, name, level in product(SEEDS, ENGINES, LEVELS):
        key = f"{name}/{level}/{seed}"
        if key not in kept:
            setup = setup or Setup(traces, load_scenario(SCENARIO))
            kept[key] = setup.measured(ENGINES[name], level, seed)
            KEPT.write_bytes(orjson.dumps(kept))
    return [
        {level: {seed: tuple(kept[f"{name}/{level}/{seed}"]) for seed in SEEDS} for level in LEVELS}
        for name in ENGINES
    ]


if __name__ == "__main__":
    main()

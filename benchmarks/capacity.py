"""How well a search finds the capacity: 200 searches on starts of real sessions, virtual time.

    python benchmarks/capacity.py TRACES

replays the sessions under TRACES with scenario agentx-fast, windows of 300 s, on the engine model.
The truth is the geometric mean of the crossings of 100 starts (seeds 2001 to 2100) on the levels
around them; the searches draw three of the first 30 each. What a level gave is measured when first
asked for and kept in capacity_population.json: half an hour of one core if nothing is there. Also
counted: early refusals of levels that keep a bound set at their own P90, and of levels 1.5 times
over one. Writes benchmarks/results/capacity.json.
"""

import math
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "tests")]

from interval_coverage import ENGINES, Setup  # noqa: E402
from search_draws import drawn, outcome  # noqa: E402

from agentx_replay.analysis.capacity import start_capacity  # noqa: E402
from agentx_replay.analysis.early import LOOKS, SKIPPED, clear_failure_of, exceeding_of  # noqa: E402
from agentx_replay.analysis.goodput import (  # noqa: E402
    SentRequests,
    sent_requests,
    value_of,
)
from agentx_replay.analysis.objective import Clause, objective_of  # noqa: E402
from agentx_replay.analysis.responses import (  # noqa: E402
    Responses,
    Window,
    sent_in,
)
from agentx_replay.analysis.starts import interval_of, mean_of_starts, spread  # noqa: E402
from agentx_replay.results.layout import Measurement  # noqa: E402
from agentx_replay.scenario import load_scenario  # noqa: E402
from benchmarks.results_file import RESULTS, write_result  # noqa: E402

SCENARIO = load_scenario("agentx-fast").override(window_s=300.0)
OBJECTIVE = objective_of("itl:p90<=9ms")
SEEDS = range(2001, 2101)
DRAWN_FROM = SEEDS[:30]
AROUND = (32, 40)
SEARCHES = 200
OVER = 1.5
KEPT = RESULTS / "capacity_population.json"
_NS = 1_000_000_000


class Population:
    """What levels gave, by concurrency and seed: measured when first asked for, then kept."""

    def __init__(self, traces: Path) -> None:
        self._traces = traces
        self._setup: Setup | None = None
        kept = orjson.loads(KEPT.read_bytes()) if KEPT.exists() else {}
        self.kept: dict[str, dict[str, Any]] = kept

    def level(self, concurrency: int, seed: int) -> dict[str, Any]:
        key = f"{concurrency}/{seed}"
        if key not in self.kept:
            self._setup = self._setup or Setup(self._traces, SCENARIO)
            records, window = self._setup.replayed(ENGINES["usual"], concurrency, seed)
            self.kept[key] = figures(records.responses, window)
            if len(self.kept) % 20 == 0:
                self.save()
        return self.kept[key]

    def save(self) -> None:
        KEPT.write_bytes(orjson.dumps(self.kept))

    def margin(self, concurrency: int, seed: int) -> float:
        return math.log(self.level(concurrency, seed)["p90_itl_s"] / OBJECTIVE.clauses[0].bound)

    def measured(self, concurrency: int, seed: int) -> tuple[float, bool]:
        return self.margin(concurrency, seed), self.level(concurrency, seed)["stopped_at"] > 0


def figures(responses: Responses, window: Window) -> dict[str, Any]:
    """Return a level's P90 ITL in s, and the look (from 1; 0: none) at which it is refused: under
    the objective, under a bound at its own P90, and under one that it is 1.5 times over.
    """
    clause, sent = OBJECTIVE.clauses[0], sent_requests(responses, window)
    p90_itl_s = value_of(clause, sent, None)
    assert p90_itl_s is not None
    bounds = {"stopped_at": clause.bound, "kept_stopped_at": p90_itl_s,
              "over_stopped_at": p90_itl_s / OVER}  # fmt: skip
    started = sent_in(responses, window)
    looks = {name: refused_at(replace(clause, bound=bound), sent, started, window)
             for name, bound in bounds.items()}  # fmt: skip
    return {"p90_itl_s": round(p90_itl_s, 7), **looks}


def refused_at(clause: Clause, sent: SentRequests, started: Responses, window: Window) -> int:
    since_s = (started.send_ns - window.open_ns) / _NS
    ended_s = (started.end_ns - window.open_ns) / _NS
    settled = since_s >= SKIPPED * window.nominal_s
    for number, share in enumerate(LOOKS, 1):
        seen = settled & (ended_s <= share * window.nominal_s)
        if clear_failure_of(clause, exceeding_of(clause, sent, seen)) is not None:
            return number
    return 0


def crossing(population: Population, seed: int) -> float:
    """Return where a start crosses its bound, on the levels around the truth, and beyond them."""
    levels = sorted(AROUND)
    while True:
        outs = {n: outcome(Measurement(n), population.margin(n, seed)) for n in levels}
        found = start_capacity(1, outs)
        if found.crossing is not None:
            return found.crossing
        levels.append(round(max(levels) * 1.25) if found.bad is None else round(min(levels) / 1.25))


def early(population: Population) -> dict[str, Any]:
    """Count refusals of the levels around the truth by two bounds of their own."""
    levels = [population.level(n, seed) for seed in SEEDS for n in AROUND]
    stopped = [each["over_stopped_at"] for each in levels]
    spent = [LOOKS[at - 1] if at else 1.0 for at in stopped]
    return {
        "levels": len(levels),
        "false_alarms": sum(each["kept_stopped_at"] > 0 for each in levels),
        "over": OVER,
        "over_stopped": sum(at > 0 for at in stopped),
        "over_mean_share_of_window": float(np.mean(spent)),
    }


def main() -> None:
    """Measure what is lacking, draw, write and print."""
    population = Population(Path(sys.argv[1]))
    crossings = [crossing(population, seed) for seed in SEEDS]
    population.save()
    truth, sure = mean_of_starts(crossings), interval_of(crossings)
    found = drawn(OBJECTIVE, population.measured, truth, DRAWN_FROM, searches=SEARCHES)
    population.save()
    result = {
        "scenario": SCENARIO.name,
        "window_s": SCENARIO.window_s,
        "objective": OBJECTIVE.text,
        "truth": truth,
        "truth_interval": sure and [sure.low, sure.high],
        "truth_starts": len(crossings),
        "spread_of_one_start": spread(crossings),
        **asdict(found),
        "early": early(population),
    }
    print(result, write_result("capacity", result))


if __name__ == "__main__":
    main()

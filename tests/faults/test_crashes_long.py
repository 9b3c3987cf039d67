"""Fifty runs killed at random moments; the figures are in ``benchmarks/results/crashes.json``."""

import random
from pathlib import Path

import pytest
from crash_runs import Doom, Left, killed_runs, simulator

from benchmarks.results_file import write_result

ROUNDS = 10
RUNS = (
    Doom("parent", 1), Doom("parent", 1), Doom("parent", 2), Doom("worker", 2), Doom("worker", 2),
)  # fmt: skip

pytestmark = pytest.mark.long


def _figures(left: list[Left]) -> dict[str, object]:
    lost_s = sorted(run.lost_s for run in left)
    return {
        "runs": len(left),
        "killed_parents": sum(run.doom.victim == "parent" for run in left),
        "killed_workers": sum(run.doom.victim == "worker" for run in left),
        "readable": sum(run.reported["valid"] is False for run in left),
        "responses_ended_before_the_kill": sum(run.responses for run in left),
        "of_those_on_disk": sum(run.on_disk for run in left),
        "oldest_response_lost_s": {
            "median": round(lost_s[len(lost_s) // 2], 2),
            "most": round(lost_s[-1], 2),
        },
        "processes_left_behind": sum(run.orphans for run in left),
        "status": {status: sum(run.status == status for run in left) for status in
                   sorted({run.status for run in left})},
    }  # fmt: skip


def test_fifty_kills_lose_nothing_that_had_ended_more_than_five_seconds_before(
    tmp_path: Path, small_traces: Path
) -> None:
    rng = random.Random()
    left: list[Left] = []
    with simulator() as url:
        for number in range(ROUNDS):
            place = tmp_path / str(number)
            place.mkdir()
            left += killed_runs(url, place, RUNS, small_traces, rng)
    write_result("crashes", _figures(left))
    assert [run.orphans for run in left] == [0] * len(left)
    assert all(run.reported["valid"] is False for run in left)
    assert max(run.lost_s for run in left) < 5.0

"""Cases drawn at random: several workers do what one process does, to the nanosecond."""

import dataclasses
from random import Random

import pytest
from drawn_graphs import DRAWN, drawn_graph, few_overflow, some_seconds
from virtual_replay import replay
from virtual_workers import from_each_start, shared_replay


def hold_equal(case: int, workers: int) -> None:
    """Hold that what was sent when, and the seconds skipped, are the same as in one process."""
    random = Random(case)
    graphs = [drawn_graph(random, f"s{number}") for number in range(random.randint(3, 9))]
    scenario = dataclasses.replace(DRAWN, session_idle_from=random.choice(("barrier", "last_end")))
    lanes = random.randint(workers, 6)
    one = replay(graphs, lanes=lanes, scenario=scenario, seconds=some_seconds, status=few_overflow)
    several = shared_replay(
        graphs,
        lanes=lanes,
        workers=workers,
        scenario=scenario,
        seconds=some_seconds,
        status=few_overflow,
    )
    assert from_each_start(several.log) == from_each_start(one.log)
    assert one.result.window is not None
    skipped_s = {r.window.system_skipped_s for r in several.results if r.window is not None}
    assert skipped_s == {one.result.window.system_skipped_s}


@pytest.mark.parametrize("case", range(6))
def test_a_drawn_case_is_the_same_on_several_workers(case: int) -> None:
    """In case 3 the cap of a session fires 4 ms after all are idle, before a worker could know."""
    hold_equal(case, workers=2 + case % 3)


@pytest.mark.long
@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("case", range(50))
def test_each_of_50_drawn_cases_is_the_same_on_2_3_and_4_workers(case: int, workers: int) -> None:
    hold_equal(case, workers)

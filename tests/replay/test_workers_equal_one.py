"""Cases drawn at random: several workers do what one process does, to the nanosecond."""

import dataclasses
from random import Random
from zlib import crc32

import pytest
from drawn_graphs import drawn_graph
from virtual_replay import SCENARIO, replay
from virtual_workers import from_each_start, shared_replay

from agentx_replay.replay.ports import Dispatch, Phase, Status

DRAWN = dataclasses.replace(
    SCENARIO,
    window_s=40.0,
    start_fraction=(0.25, 0.75),
    warmup_requests=2,
    primer_lead_s=2.0,
    system_idle_cap_s=0.5,
    session_idle_cap_s=4.0,
)


def some_seconds(dispatch: Dispatch) -> float:
    """Between 0.05 and 0.4 s, drawn from the request's name."""
    return 0.05 + crc32(dispatch.request_id.encode()) % 351 / 1000


def few_overflow(dispatch: Dispatch) -> Status:
    drawn = crc32(dispatch.request_id.encode()) % 37 == 0
    return Status.OVERFLOW if drawn and dispatch.phase is Phase.WINDOW else Status.OK


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

"""Several machines of one level in virtual time: they do what one process does, exactly."""

import dataclasses
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import pytest
from drawn_graphs import DRAWN, few_overflow, some_seconds
from refusals import refuses
from stream_graphs import graph, turn
from virtual_machines import DeadLink, Link, Outcome, drawn, on_machines
from virtual_replay import Outcome as One
from virtual_replay import S, replay
from virtual_workers import from_each_start

from agentx_replay.plan.graph import SessionGraph
from agentx_replay.replay.ports import Phase, Status

AGENTX = dataclasses.replace(
    DRAWN, window_s=150.0, system_idle_cap_s=10.0, session_idle_cap_s=300.0
)
"""The caps of the real scenario, which leave a system shift seconds to be told of."""
LANES = 4
AHEAD_S = (0, 5000, -777)


def rare_graph(random: Random, name: str) -> SessionGraph:
    """Return a conversation of which some gaps are so long that all lanes may be idle at once."""
    gaps_s = [0.0, *(random.choice((0.5, 30.0, 60.0, 90.0)) * random.random() for _ in range(8))]
    starts_s = accumulate(gap_s + 1.0 for gap_s in gaps_s)
    turns = [
        turn(index, round(start_s, 3), gap_s=round(gap_s, 3))
        for index, (start_s, gap_s) in enumerate(zip(starts_s, gaps_s, strict=True))
    ]
    return graph(turns, session_id=name)


GRAPHS = [rare_graph(Random(number), f"s{number}") for number in range(7)]


def played(
    scratch: Path, machines: int, workers_each: int, window_s: float = 150.0, **more: Any
) -> Outcome:
    return on_machines(
        scratch,
        GRAPHS,
        lanes=LANES,
        machines=machines,
        workers_each=workers_each,
        scenario=dataclasses.replace(AGENTX, window_s=window_s),
        seconds=some_seconds,
        status=few_overflow,
        ahead_s=AHEAD_S,
        **more,
    )


@cache
def one_process(window_s: float) -> One:
    scenario = dataclasses.replace(AGENTX, window_s=window_s)
    return replay(GRAPHS, lanes=LANES, scenario=scenario, seconds=some_seconds, status=few_overflow)


def hold_equal(run: Outcome, window_s: float = 150.0) -> None:
    """Hold that all was sent when one process sent it, which skipped idle time."""
    one = one_process(window_s)
    assert run.played.stopped is None
    assert from_each_start(run.log) == from_each_start(one.log)
    skipped_s = {r.window.system_skipped_s for r in run.played.results if r and r.window}
    assert one.result.window is not None
    assert skipped_s == {one.result.window.system_skipped_s}
    assert one.result.window.system_skipped_s > 5.0


@pytest.mark.long
@pytest.mark.parametrize(
    ("machines", "workers_each", "one_way_ms"),
    [(*split, ms) for split in ((2, 1), (2, 2), (3, 1)) for ms in (0, 1, 50, 500, 2000)],
)
def test_every_request_is_sent_at_the_same_nanosecond_as_in_one_process(
    tmp_path: Path, machines: int, workers_each: int, one_way_ms: int
) -> None:
    one_way_s = one_way_ms / 1000
    ahead_s = 0.25 + 4 * one_way_s
    hold_equal(
        played(
            tmp_path,
            machines,
            workers_each,
            one_way_s=lambda: one_way_s,
            release_ahead_s=ahead_s,
        )
    )


def test_calls_may_overtake_one_another(tmp_path: Path) -> None:
    delays = drawn(Random(1), 1.5)
    run = played(tmp_path, 2, 2, window_s=60.0, one_way_s=delays, release_ahead_s=6.0)
    hold_equal(run, window_s=60.0)


def test_a_clock_that_is_misjudged_moves_no_request_by_more(tmp_path: Path) -> None:
    def sent(run: Outcome) -> dict[str, int]:
        return {d.request_id: r.send_ns for d, r in run.log.requests}

    right, wrong = (
        sent(played(tmp_path, 2, 1, misjudged_ns=ns, window_s=20.0)) for ns in (0, 700_000)
    )
    assert right.keys() == wrong.keys()
    assert {abs(wrong[name] - right[name]) for name in right} == {0, 700_000}


def test_a_clock_that_is_known_too_badly_is_refused(tmp_path: Path) -> None:
    with refuses("machine-clock-unknown"):
        played(tmp_path, 2, 1, asking_s=0.006)
    played(tmp_path, 2, 1, asking_s=0.004, window_s=1.0)


@pytest.mark.parametrize(
    "second", [7.0, *(pytest.param(n * 2.3, marks=pytest.mark.long) for n in range(1, 21))]
)
@pytest.mark.parametrize("link", [Link, DeadLink])
def test_a_machine_that_is_lost_ends_the_level_and_the_others_drain(
    tmp_path: Path, link: type[Link], second: float
) -> None:
    run = played(tmp_path, 3, 1, lost=(1, second), link=link, window_s=60.0)
    assert run.played.stopped is not None
    assert run.played.stopped.code == "machine-lost"
    assert [result is None for result in run.played.results] == [False, True, False]
    # Whoever follows a machine asks every second, and gives it 10; cut off, it does the same.
    silent_s = 10.0 if link is Link else 0.0
    seen_s = second + silent_s + 1.1
    for dispatch, response in run.log.requests:
        if dispatch.lane % 3 != 1:
            assert response.send_ns / S < seen_s
            assert response.status is not Status.CUT or dispatch.phase is not Phase.WINDOW
        elif link is Link:  # of one that died, the workers here would die with it
            assert response.send_ns / S < second + 11.1
    assert [result and result.window and result.window.stopped for result in run.played.results]


@pytest.mark.parametrize("link", [Link, DeadLink])
def test_a_machine_that_is_lost_before_the_level_is_refused(
    tmp_path: Path, link: type[Link]
) -> None:
    with refuses("machine-lost-between-levels"):
        played(tmp_path, 3, 1, lost=(1, 0.0), link=link)


def test_a_machine_is_told_of_changes_alone(tmp_path: Path) -> None:
    run = played(tmp_path, 2, 2, one_way_s=lambda: 0.001, window_s=30.0)
    for link in run.links:
        assert link.calls.count("tell") < 12
        assert link.calls.count("report") < 90

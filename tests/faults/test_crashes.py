"""Killed with SIGKILL at a random moment: what is on disk opens, and says how far it came."""

import random

import pytest
from crash_runs import Left, Victim, killed_runs, simulator

RUNS: list[tuple[Victim, int]] = [
    ("parent", 1), ("parent", 1), ("parent", 2), ("worker", 2), ("worker", 2),
]  # fmt: skip
PROMISE_S = 5.0
SLACK_S = 3.0
"""A part is begun every 4 s; on a disk and cores that others use too, writing it may take long."""


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> list[Left]:
    with simulator() as url:
        return killed_runs(url, tmp_path_factory.mktemp("crashes"), RUNS, random.Random())


def test_every_response_that_ended_some_seconds_before_is_on_disk(left: list[Left]) -> None:
    assert any(run.on_disk > 0 for run in left)
    assert all(run.lost_s < PROMISE_S + SLACK_S for run in left), left


def test_the_point_says_that_it_did_not_finish_and_can_be_reported(left: list[Left]) -> None:
    for run in left:
        assert run.status == ("running" if run.victim == "parent" else "failed")
        assert run.reported["status"] == run.status
        assert run.reported["valid"] is False
        told = "not finished" if run.victim == "parent" else "died by signal 9"
        assert told in run.reported["invalid_reasons"]


def test_nothing_of_a_killed_run_goes_on(left: list[Left]) -> None:
    assert [run.orphans for run in left] == [0] * len(RUNS)

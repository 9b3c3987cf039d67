"""Killed with SIGKILL at a random moment: what is on disk opens, and says how far it came."""

import random
import signal
from pathlib import Path

import pytest
from command_line import SHORT, finished, started
from crash_runs import Left, Victim, killed_runs, simulator

from agentx_replay.results.layout import point_directory
from agentx_replay.results.run_directory import read_points
from agentx_replay.results.schema import INSTRUMENT, SERVER
from agentx_replay.results.server_metrics import read_server_metrics

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


def test_samples_of_server_and_client_are_on_disk_and_on_the_page(tmp_path: Path) -> None:
    out = tmp_path / "out"
    point = point_directory(out, 4)
    with (
        simulator() as url,
        started(
            tmp_path, "run", "--url", url, "--concurrency", "4", "--workers", "1", "--override",
            "window_s=600", *SHORT, "--out", str(out),
        ) as command,
    ):  # fmt: skip
        command.wait_until_it_says("c=4 window")
        # Two parts of each, so that the second has the window in it.
        for parts in (SERVER.parts(point), INSTRUMENT.parts(point)):
            command.wait_until(lambda parts=parts: len(list(parts.glob("part-*"))) >= 2)  # type: ignore[misc]
        command.signal(signal.SIGKILL)
        assert command.ended() == -signal.SIGKILL
    (stored,) = read_points(out)
    server, client = read_server_metrics(point), stored.instrument()
    assert "vllm:kv_cache_usage_perc" in server["name"].to_pylist()
    for table in (server, client):
        at_s = table["at_ns"].to_numpy() / 1e9
        assert at_s.max() - at_s.min() > 4  # more than the first part holds
    assert finished("report", str(out)).returncode == 1
    page = (out / "report.html").read_text()
    assert "<h4>KV cache in use</h4>" in page
    assert "<h4>The client&#x27;s own lag</h4>" in page

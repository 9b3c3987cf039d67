"""Two hosts, each a network and a monotonic clock of its own: what is lost ends the level in time,
and what was recorded stays (``ray_cluster.two_hosts``).
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from ray_cluster import AHEAD_S, Cluster, cut_link, processes_there, two_hosts

from agentx_replay.results.run_directory import read_points
from agentx_replay.results.schema import REQUESTS
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.process import launch_simulator
from agentx_replay.simulator.server import ServerConfig

pytestmark = [pytest.mark.ray, pytest.mark.long]
DRAIN_S = 5.0
"""What is in flight in the window ends in a few seconds; the grace is shorter."""
_WORKER = "agentx_replay.experiment.worker"


@dataclass
class Sweep:
    """One that has been in its window for so long that each machine handed rows over."""

    process: subprocess.Popen[bytes]
    out: Path


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with two_hosts() as found:
        yield found


@pytest.fixture
def server(cluster: Cluster) -> Iterator[str]:
    config = ServerConfig(host=cluster.host, engine=EngineModel(step_base_ms=20.0))
    process = launch_simulator(config)
    yield process.url
    process.close()


@pytest.fixture
def sweep(tmp_path: Path, cluster: Cluster, server: str) -> Iterator[Sweep]:
    out = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-m", "agentx_replay", "sweep", "--ray", cluster.address, "--nodes", "2",
         "--url", server, "--concurrency", "8", "--window", "60s", "--out", str(out),
         "--override", "warmup_requests=1", "--override", f"grace_s={DRAIN_S}"],
        env=cluster.environment,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    until_s = time.monotonic() + 90.0
    while lanes_in_window(out) != set(range(8)):
        assert process.poll() is None
        assert time.monotonic() < until_s
        time.sleep(0.5)
    yield Sweep(process, out)
    process.kill()
    process.wait()


def lanes_in_window(out: Path) -> set[int]:
    directory = out / "c0008"
    if not REQUESTS.files(directory):
        return set()
    rows = REQUESTS.read(directory, ("lane", "phase")).to_pylist()
    return {row["lane"] for row in rows if row["phase"] == "window"}


def killed(part: str) -> None:
    for pid in processes_there(part):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("lose", "within_s", "code"),
    [
        (lambda: killed(_WORKER), 5.0, "worker-died"),
        (lambda: killed("ray::AgentActor"), 5.0, "machine-lost"),
        (lambda: killed("raylet/raylet"), 12.0, "machine-lost"),
        (cut_link, 15.0, "machine-lost"),
    ],
    ids=["worker", "agent", "raylet", "link"],
)
def test_a_loss_fails_the_level_in_time_and_rows_stay(
    sweep: Sweep, lose: Callable[[], None], within_s: float, code: str
) -> None:
    assert processes_there(_WORKER)
    began_s = time.monotonic()
    lose()
    there_ended_s = None
    while sweep.process.poll() is None:
        time.sleep(0.1)
        assert time.monotonic() - began_s < within_s + DRAIN_S + 5.0  # the report is made, too
    took_s = time.monotonic() - began_s
    while processes_there(_WORKER):
        assert time.monotonic() - began_s < 11.0 + 5.0
        time.sleep(0.1)
    there_ended_s = time.monotonic() - began_s
    print(f"{code}: driver ended after {took_s:.1f} s, workers there gone by {there_ended_s:.1f} s")
    assert sweep.process.returncode == 1
    (point,) = read_points(sweep.out)
    facts = point.document["facts"]
    assert facts["conduct"]["failure_code"] == code
    lanes = [row["lane"] for row in REQUESTS.read(point.directory, ("lane",)).to_pylist()]
    assert set(lanes) == set(range(8))


def test_a_driver_that_dies_leaves_no_worker_anywhere(sweep: Sweep) -> None:
    assert processes_there(_WORKER)
    sweep.process.kill()
    began_s = time.monotonic()
    while processes_there(_WORKER):
        assert time.monotonic() - began_s < 5.0
        time.sleep(0.1)
    print(f"no worker there after {time.monotonic() - began_s:.1f} s")
    assert lanes_in_window(sweep.out) == set(range(8))


def test_clocks_far_apart_are_known_within_their_bound(
    tmp_path: Path, cluster: Cluster, server: str
) -> None:
    out = tmp_path / "run"
    cluster.command(
        "sweep", "--ray", cluster.address, "--nodes", "2", "--url", server, "--concurrency", "4",
        "--window", "2s", "--out", str(out), "--override", "warmup_requests=1",
    )  # fmt: skip
    facts = json.loads((out / "c0004" / "point.json").read_text())["facts"]
    here, there = sorted(facts["machines"], key=lambda machine: machine["clock_ahead_ns"])
    for machine, ahead_s in ((here, 0), (there, AHEAD_S)):
        error_ns = machine["clock_ahead_ns"] - ahead_s * 10**9
        print(f"{machine['host']}: off by {error_ns} ns, bound {machine['clock_bound_ns']} ns")
        assert abs(error_ns) <= machine["clock_bound_ns"] <= 2_000_000

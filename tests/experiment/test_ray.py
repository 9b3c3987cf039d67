"""Real Ray: two raylets, each with an agent that starts worker processes (``ray_cluster``)."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop
from ray_cluster import Cluster, two_raylets
from recorded_parts import parts
from recording_endpoint import Orders, sent_bytes

from agentx_replay.experiment.workers import play_on_workers
from agentx_replay.replay.clock import real_clock
from agentx_replay.results.schema import INSTRUMENT, REQUESTS
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.process import launch_simulator
from agentx_replay.simulator.server import ServerConfig

pytestmark = pytest.mark.ray
KEY = "sk-4be0c3a1d27f"
LANES = 16
UNSEEN = (lambda _: nullcontext()), (lambda _: None)
"""What stops a level and what shows it: nothing does."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with two_raylets() as found:
        yield found


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    process = launch_simulator(ServerConfig(engine=EngineModel(step_base_ms=20.0)))
    yield process.url
    process.close()


def test_two_machines_send_the_bytes_of_two_workers(
    tmp_path: Path, small_traces: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    from agentx_replay.experiment.fleet import meet
    from agentx_replay.experiment.ray_nodes import ray_machines

    here, there = tmp_path / "here", tmp_path / "c0016"
    here.mkdir()
    there.mkdir()
    (there / "point.json").write_text('{"mark": "m"}')

    async def play_here() -> None:
        with real_clock(asyncio.get_running_loop()) as clock:
            of = parts(small_traces, 2, Orders(here), lanes=LANES)
            of = [replace(part, origin_ns=clock.now_ns()) for part in of]
            await play_on_workers(of, clock, *UNSEEN)

    uvloop.run(play_here())
    with ray_machines(cluster.address, 2) as machines:

        async def play_there() -> None:
            with real_clock(asyncio.get_running_loop()) as clock:
                fleet = await meet(machines)
                part = replace(parts(small_traces, 1, Orders(there), lanes=LANES)[0], workers=2)
                part = replace(part, origin_ns=clock.now_ns())
                result, facts = await fleet.play(part, clock, *UNSEEN)
                await fleet.close()
                assert result.failure is None
                assert all(machine.clock_drift_ns is not None for machine in facts)

        uvloop.run(play_there())
    one, several = sent_bytes(here), sent_bytes(there)
    common = one.keys() & several.keys()
    assert len(common) > 4 * LANES  # the warm-up, and how far the window comes
    assert {name: several[name] for name in common} == {name: one[name] for name in common}
    rows = REQUESTS.read(there, ("request_id",)).to_pylist()
    assert {row["request_id"] for row in rows} == set(several)
    assert set(INSTRUMENT.read(there)["worker"].to_pylist()) == {0, 1}


def test_a_sweep_on_two_machines_is_one_run_and_its_key_is_nowhere(
    tmp_path: Path, cluster: Cluster, server: str
) -> None:
    out = tmp_path / "run"
    done = cluster.command(
        "sweep", "--ray", cluster.address, "--nodes", "2", "--insecure-ray", "--url", server,
        "--concurrency", "4", "--window", "1.5s", "--out", str(out), "--json",
        "--override", "warmup_requests=1", "--override", "primer_lead_s=0.1",
        OPENAI_API_KEY=KEY,
    )  # fmt: skip
    (point,) = json.loads(done.stdout)["points"]
    assert point["status"] == "complete", done.stderr
    sweep = json.loads((out / "sweep.json").read_text())
    assert len(sweep["machines"]) == 2
    machines = json.loads((out / "c0004" / "point.json").read_text())["facts"]["machines"]
    assert [machine["workers"] for machine in machines] == [1, 1]
    for place in (out, cluster.directory):
        for file in (path for path in place.rglob("*") if path.is_file()):
            assert KEY.encode() not in file.read_bytes(), file
    assert list(cluster.directory.glob("agentx-replay-*")) == []


@pytest.mark.long  # Ray takes 20 s to give up
def test_a_wrong_token_is_refused(tmp_path: Path, cluster: Cluster, server: str) -> None:
    wrong = tmp_path / "token"
    wrong.write_text("0" * 64)
    done = cluster.command(
        "sweep", "--ray", cluster.address, "--url", server, RAY_AUTH_TOKEN_PATH=str(wrong)
    )
    assert done.returncode == 2
    assert "[ray-unreachable]" in done.stderr


@pytest.mark.long
def test_a_run_goes_on_with_another_number_of_machines(
    tmp_path: Path, cluster: Cluster, server: str
) -> None:
    out = tmp_path / "run"
    short = ("--window", "1s", "--override", "warmup_requests=1")
    asked = ("--ray", cluster.address, "--out", str(out))
    first = cluster.command(
        "sweep", *asked, "--nodes", "2", "--url", server, "--concurrency", "2", *short
    )
    assert first.returncode in (0, 1), first.stderr  # its requests may be cut
    again = cluster.command("sweep", *asked, "--nodes", "1", "--resume", "--concurrency", "2,4")
    assert again.returncode in (0, 1), again.stderr
    for level, machines in (("c0002", 2), ("c0004", 1)):
        facts = json.loads((out / level / "point.json").read_text())["facts"]
        assert len(facts["machines"]) == machines

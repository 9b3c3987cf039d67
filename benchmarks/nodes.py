"""What several machines cost: the driver's and each agent's CPU, and a worker's beside Ray.

    unshare --net --pid --fork --mount-proc --kill-child \
        sh -c 'ip link set lo up; .venv/bin/python -m benchmarks.nodes [--rounds 5] [--write]'

Needs the extra ``ray``. Sweeps one level of a simulator whose tokens cost little, alternating: on
one machine with two workers, and on two raylets of this machine with one worker each, and compares
the workers' CPU a token. Then on 1, 2 and 4 raylets, for the CPU of driver and agents. It says
nothing of real networks, nor of more machines than that.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow.compute as pc

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "tests")]

from ray_cluster import Cluster, two_raylets  # noqa: E402

from agentx_replay.results.schema import INSTRUMENT, REQUESTS  # noqa: E402
from agentx_replay.simulator.engine import EngineModel  # noqa: E402
from agentx_replay.simulator.process import launch_simulator  # noqa: E402
from agentx_replay.simulator.server import ServerConfig  # noqa: E402
from benchmarks.results_file import write_result  # noqa: E402

_AGENTS = 16
_WINDOW_S = 12
_SAMPLED_S = 8.0
_AGENT = b"ray::AgentActor"
_IN_WINDOW = re.compile(rb"window \d+ s left")
"""What the command says of a level that is being measured."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Swept:
    """CPU of all workers in µs a token of the window, and shares of a core used meanwhile."""

    worker_us_per_token: float
    driver_share: float
    agent_shares: tuple[float, ...]


def swept(cluster: Cluster, url: str, *options: str) -> Swept:
    """Sweep one level, and look at the CPU of driver and agents while its window is open."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "run"
        command = [
            *(sys.executable, "-m", "agentx_replay", "sweep", "--url", url, "--out", str(out)),
            *("--concurrency", str(_AGENTS), "--window", f"{_WINDOW_S}s", "--salt", "same"),
            *("--override", "warmup_requests=1", "--override", "primer_lead_s=0.1", *options),
        ]
        said = Path(name) / "said"
        with said.open("wb") as stream:
            process = subprocess.Popen(
                command, env=cluster.environment, stdout=subprocess.DEVNULL, stderr=stream
            )
        until_s = time.monotonic() + 120
        while not _IN_WINDOW.search(said.read_bytes()):
            if process.poll() is not None or time.monotonic() > until_s:
                raise RuntimeError(said.read_text())
            time.sleep(0.1)
        watched = [process.pid, *_processes(_AGENT)]
        before = [_cpu_s(pid) for pid in watched]
        time.sleep(_SAMPLED_S)
        spent = [(_cpu_s(pid) - b) / _SAMPLED_S for pid, b in zip(watched, before, strict=True)]
        process.wait(120)
        return Swept(_us_per_token(out / f"c{_AGENTS:04d}"), spent[0], tuple(spent[1:]))


def _processes(title: bytes) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cmdline").read_bytes().startswith(title):
                found.append(int(place.name))
        except OSError:
            continue
    return found


def _cpu_s(pid: int) -> float:
    """Return the CPU that a process has used, all its threads'."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _us_per_token(directory: Path) -> float:
    window = orjson.loads((directory / "point.json").read_bytes())["facts"]["window"]
    samples = INSTRUMENT.read(directory)
    cpu_ns = 0
    for worker in pc.unique(samples["worker"]).to_pylist():
        own = samples.filter(pc.equal(samples["worker"], worker))
        inside = pc.and_(
            pc.greater_equal(own["at_ns"], window["open_ns"]),
            pc.less(own["at_ns"], window["close_ns"]),
        )
        used = own.filter(inside)["cpu_ns"]
        cpu_ns += pc.max(used).as_py() - pc.min(used).as_py()
    rows = REQUESTS.read(directory, ("phase", "completion_tokens")).to_pylist()
    tokens = sum(row["completion_tokens"] or 0 for row in rows if row["phase"] == "window")
    return float(cpu_ns / 1e3 / tokens)


def beside(cluster: Cluster, url: str, rounds: int) -> tuple[list[Swept], list[Swept]]:
    """Return rounds on one machine without Ray beside, and on two raylets, alternating."""
    one, two = [], []
    for _ in range(rounds):
        one.append(swept(cluster, url, "--workers", "2"))
        two.append(swept(cluster, url, *on(cluster, 2)))
        print(f"µs a token: {one[-1].worker_us_per_token:.1f} on one machine, "
              f"{two[-1].worker_us_per_token:.1f} on two raylets", flush=True)  # fmt: skip
    return one, two


def on(cluster: Cluster, nodes: int) -> tuple[str, ...]:
    return ("--ray", cluster.address, "--nodes", str(nodes), "--workers", "1")


def _median(values: Sequence[float]) -> float:
    return round(statistics.median(values), 4)


def main() -> None:
    """Print and, if asked, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nodes", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    simulator = launch_simulator(ServerConfig(engine=EngineModel(step_base_ms=20.0)))
    figures: dict[str, object] = {"rounds": asked.rounds}
    try:
        with two_raylets() as cluster:
            one, two = beside(cluster, simulator.url, asked.rounds)
        if asked.rounds:
            without, with_ray = ([s.worker_us_per_token for s in each] for each in (one, two))
            figures |= {
                "parent_share_of_a_core_without_ray": _median([s.driver_share for s in one]),
                "driver_share_of_a_core": _median([s.driver_share for s in two]),
                "worker_us_per_token": _median(without),
                "worker_us_per_token_on_two_raylets": _median(with_ray),
                "ratio": _median([b / a for a, b in zip(without, with_ray, strict=True)]),
            }
        control = []
        for nodes in asked.nodes:
            with two_raylets([{}] * nodes) as cluster:
                found = swept(cluster, simulator.url, *on(cluster, nodes))
            control.append({
                "machines": nodes,
                "driver_share_of_a_core": round(found.driver_share, 4),
                "agent_share_of_a_core": _median(found.agent_shares),
            })  # fmt: skip
            print(control[-1], flush=True)
        figures["control"] = control
    finally:
        simulator.close()
    print(figures)
    if asked.write:
        print(write_result("nodes", figures))


if __name__ == "__main__":
    main()

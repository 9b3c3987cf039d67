"""A Ray cluster of two raylets on this machine, in a network of its own: Ray's ports are open to
whoever reaches them, and elsewhere Ray takes the machine's address for 127.0.0.1.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from recorded_parts import IMPORTABLE

ADDRESS = "127.0.0.1:6390"
ISOLATED = (
    "unshare --net --pid --fork --mount-proc --kill-child sh -c 'ip link set lo up; "
    '.venv/bin/pytest -m "ray and not long" -n 0\''
)
_UP_S = 120.0
_RAYLET = (
    "--num-cpus=1", "--object-store-memory=100000000", "--node-ip-address=127.0.0.1",
    "--disable-usage-stats", "--block",
)  # fmt: skip


@dataclass
class Cluster:
    """Its processes, the head first; ``environment`` is what reaches it."""

    directory: Path
    environment: dict[str, str]
    raylets: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def command(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run the product's command line to its end."""
        return subprocess.run(
            [sys.executable, "-m", "agentx_replay", *arguments],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@contextmanager
def two_raylets(marks: Sequence[Mapping[str, float]] = ({}, {})) -> Iterator[Cluster]:
    """Give a cluster with a token, a raylet for each of ``marks``, its resources."""
    alone = [name for _, name in socket.if_nameindex() if name != "lo"] == []
    assert alone, f"a cluster for tests needs a network of its own; run {ISOLATED}"
    # Paths of sockets end at 107 bytes, and Ray adds 60 of its own.
    directory = Path(tempfile.mkdtemp(prefix="ax-", dir="/tmp"))
    token = directory / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    environment = os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "PYTHONPATH": IMPORTABLE,
        "TMPDIR": str(directory),
    }
    cluster = Cluster(directory, environment)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        for number, resources in enumerate(marks):
            place = [
                "--head",
                "--port=6390",
                "--include-dashboard=false",
                f"--temp-dir={directory}",
            ]
            cluster.raylets.append(
                _started(cluster, place if not number else [f"--address={ADDRESS}"], resources)
            )
            stack.callback(_ended, cluster.raylets[-1])
        yield cluster


def _started(
    cluster: Cluster, place: Sequence[str], resources: Mapping[str, float]
) -> subprocess.Popen[bytes]:
    gpus = [f"--num-gpus={resources['GPU']:.0f}"] if "GPU" in resources else []
    marks = ", ".join(f'"{n}": {v}' for n, v in resources.items() if n != "GPU")
    log = cluster.directory / f"raylet-{len(cluster.raylets)}.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("ray")), "start", *place, *_RAYLET, *gpus,
             f"--resources={{{marks}}}"],
            env=cluster.environment, stdout=said, stderr=said, start_new_session=True,
        )  # fmt: skip
    until_s = time.monotonic() + _UP_S
    while "Ray runtime started" not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until_s, log.read_text()
        time.sleep(0.1)
    return process


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

"""A Ray cluster of two raylets on this machine, in a network of its own: Ray's ports are open to
whoever reaches them, and elsewhere Ray takes the machine's address for 127.0.0.1.

``two_hosts`` puts the second into another network yet, joined to the first by a link that can be
cut, and with a monotonic clock that is 5,000 s ahead.
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
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from recorded_parts import IMPORTABLE

ISOLATED = (
    "unshare --net --pid --fork --mount-proc --kill-child sh -c 'ip link set lo up; "
    ".venv/bin/pytest -m ray -n 0'"
)
AHEAD_S = 5000
_HERE, _OTHER, _OTHER_HOST = "10.9.0.1", "10.9.0.2", "agentx-other"
_UP_S = 120.0


@dataclass
class Cluster:
    """Its processes, the head first; ``environment`` is what reaches it. ``host`` is where its
    head is, and may have a server.
    """

    host: str
    directory: Path
    environment: dict[str, str]
    raylets: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{self.host}:6390"

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
    with _cluster("127.0.0.1") as cluster, ExitStack() as stack:
        for resources in marks:
            stack.enter_context(_raylet(cluster, "127.0.0.1", resources))
        yield cluster


@contextmanager
def two_hosts() -> Iterator[Cluster]:
    """Give one whose second raylet is on another host."""
    with _joined_host(), _cluster(_HERE) as cluster, _raylet(cluster, _HERE):
        entering = ("ip", "netns", "exec", _OTHER_HOST)
        ahead = ("unshare", "--time", f"--monotonic={AHEAD_S}", f"--boottime={AHEAD_S}", "--fork")
        with _raylet(cluster, _OTHER, {}, *entering, *ahead, "--kill-child"):
            yield cluster


@contextmanager
def _joined_host() -> Iterator[None]:
    """Make a second network, joined to this one."""
    # Where ip keeps the names of networks, which are nobody else's affair.
    _run("mount", "-t", "tmpfs", "names", "/run")
    _run("ip", "netns", "add", _OTHER_HOST)
    _run("ip", "link", "add", "ax0", "type", "veth", "peer", "ax1", "netns", _OTHER_HOST)
    _run("ip", "addr", "add", f"{_HERE}/24", "dev", "ax0")
    _run("ip", "link", "set", "ax0", "up")
    for configured in (("addr", "add", f"{_OTHER}/24", "dev", "ax1"), ("link", "set", "ax1", "up"),
                       ("link", "set", "lo", "up")):  # fmt: skip
        _run("ip", "-n", _OTHER_HOST, *configured)
    try:
        yield
    finally:
        for pid in processes_there(""):
            os.kill(pid, signal.SIGKILL)
        _run("ip", "link", "del", "ax0")
        _run("ip", "netns", "del", _OTHER_HOST)
        _run("umount", "--lazy", "/run")


def cut_link() -> None:
    _run("ip", "link", "set", "ax0", "down")


def processes_there(part: str) -> list[int]:
    """Return the processes on the second host whose command line has ``part`` in it."""
    pids = subprocess.run(
        ["ip", "netns", "pids", _OTHER_HOST], capture_output=True, text=True, check=True
    ).stdout.split()
    found = []
    for pid in map(int, pids):
        with suppress(OSError):
            if part.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "):
                found.append(pid)
    return found


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


@contextmanager
def _cluster(host: str) -> Iterator[Cluster]:
    """Give one without a raylet."""
    here = {name for _, name in socket.if_nameindex()} - {"lo", "ax0"}
    assert not here, f"a cluster for tests needs a network of its own; run {ISOLATED}"
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
    try:
        yield Cluster(host, directory, environment)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _raylet(
    cluster: Cluster, host: str, resources: Mapping[str, float] = {}, *entering: str
) -> Iterator[None]:
    """Start a raylet and wait until it is up; the first is the head."""
    number = len(cluster.raylets)
    head = ["--head", "--port=6390", "--include-dashboard=false", f"--temp-dir={cluster.directory}"]
    place = head if not number else [f"--address={cluster.address}"]
    gpus = [f"--num-gpus={resources['GPU']:.0f}"] if "GPU" in resources else []
    marks = ", ".join(f'"{n}": {v}' for n, v in resources.items() if n != "GPU")
    log = cluster.directory / f"raylet-{number}.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [*entering, str(Path(sys.executable).with_name("ray")), "start", *place,
             "--num-cpus=1", "--object-store-memory=100000000", f"--node-ip-address={host}",
             "--disable-usage-stats", "--block", *gpus, f"--resources={{{marks}}}"],
            env=cluster.environment, stdout=said, stderr=said, start_new_session=True,
        )  # fmt: skip
    cluster.raylets.append(process)
    until_s = time.monotonic() + _UP_S
    try:
        while "Ray runtime started" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until_s, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        _ended(process)


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

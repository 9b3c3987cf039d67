"""Runs that are killed with SIGKILL at a chosen moment, and what was left of them.

Several runs go against one simulator in a process of its own, which outlives them and knows when
it sent the last token of every response.
"""

import json
import os
import random
import signal
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from command_line import SHORT, Command, finished, started

from agentx_replay.results.layout import Measurement, point_directory
from agentx_replay.results.run_directory import read_points
from agentx_replay.results.schema import INSTRUMENT, SERVER
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.process import launch_simulator
from agentx_replay.simulator.server import ServerConfig

Victim = Literal["parent", "worker"]
_NS = 1_000_000_000
_ORPHANS_END_S = 30.0
_TRUTH_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class Doom:
    """How one run goes and is killed. Where it has ``parts``, so many of each table of samples are
    on disk by then, and requests of the window, too.
    """

    victim: Victim
    workers: int
    more: tuple[str, ...] = ()
    parts: int = 0


@dataclass(frozen=True, slots=True)
class Left:
    """What one killed run left in ``out``.

    ``responses`` had ended when it was killed, ``on_disk`` of them can be read; the oldest that
    cannot had ended ``lost_s`` before. ``status`` is the point's, ``reported`` what ``report``
    says of it. ``orphans`` is how many of its processes still ran half a minute later.
    """

    doom: Doom
    out: Path
    window_age_s: float
    responses: int
    on_disk: int
    lost_s: float
    status: str
    reported: dict[str, Any]
    orphans: int


@dataclass(frozen=True, slots=True)
class _Doomed:
    """A run to be killed, where it writes, and since when its window is open."""

    command: Command
    out: Path
    doom: Doom
    open_s: float


@contextmanager
def simulator() -> Iterator[str]:
    """A simulator that remembers what it sent; its URL."""
    engine = EngineModel(step_base_ms=10.0, tokens_per_step=4)
    process = launch_simulator(ServerConfig(engine=engine, truth_bytes=_TRUTH_BYTES))
    try:
        yield process.url
    finally:
        process.close()


def killed_runs(
    url: str, directory: Path, runs: Sequence[Doom], traces: Path, rng: random.Random
) -> list[Left]:
    """Start runs side by side and kill them one by one at random moments."""
    with ExitStack() as stack:
        doomed = [
            _start(stack, url, directory / f"run{number}", traces, doom)
            for number, doom in enumerate(runs)
        ]
        opened = [_opened(run) for run in doomed]
        return [_kill(run, url, rng) for run in opened]


def _start(stack: ExitStack, url: str, place: Path, traces: Path, doom: Doom) -> _Doomed:
    place.mkdir()
    out = place / "out"
    arguments = (
        "run", "--url", url, "--traces", str(traces), "--concurrency", "4", "--workers",
        str(doom.workers), "--override", "window_s=600", *SHORT, "--out", str(out), *doom.more,
    )  # fmt: skip
    command = stack.enter_context(started(place, *arguments))
    return _Doomed(command, out, doom, 0.0)


def _opened(run: _Doomed) -> _Doomed:
    run.command.wait_until_it_says("c=4 window")
    return replace(run, open_s=time.monotonic())


def _kill(run: _Doomed, url: str, rng: random.Random) -> Left:
    if run.doom.parts:
        run.command.wait_until(lambda: _parts(run.out) >= run.doom.parts)
        run.command.wait_until(lambda: _in_window(run.out))
    time.sleep(rng.uniform(0.2, 3.0))
    parent = run.command.process.pid
    family = [parent, *_children(parent)]
    killed_ns = time.monotonic_ns()
    os.kill(parent if run.doom.victim == "parent" else family[-1], signal.SIGKILL)
    run.command.ended()
    orphans = _outliving(family)
    (point,) = read_points(run.out)
    kept = set(point.requests(("request_id",))["request_id"].to_pylist())
    ended_ns = _ended_before(url, str(point.document["run_id"]), killed_ns)
    lost = [killed_ns - at_ns for name, at_ns in ended_ns.items() if name not in kept]
    report = finished("report", str(run.out), "--json")
    return Left(
        doom=run.doom,
        out=run.out,
        window_age_s=killed_ns / _NS - run.open_s,
        responses=len(ended_ns),
        on_disk=len(ended_ns) - len(lost),
        lost_s=max(lost, default=0) / _NS,
        status=str(point.status),
        reported=json.loads(report.stdout)["points"][0],
        orphans=orphans,
    )


def _parts(out: Path) -> int:
    """Return how many parts there are of the table of samples that has the fewest."""
    point = point_directory(out, Measurement(4))
    tables = (SERVER.parts(point), INSTRUMENT.parts(point))
    return min(len(list(table.glob("part-*"))) for table in tables)


def _in_window(out: Path) -> bool:
    (point,) = read_points(out)
    return "window" in point.requests(("phase",))["phase"].to_pylist()


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def _outliving(pids: list[int]) -> int:
    """Return how many of the processes still run after half a minute."""
    deadline_s = time.monotonic() + _ORPHANS_END_S
    while (alive := sum(map(_runs, pids))) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return alive


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _ended_before(url: str, run_id: str, killed_ns: int) -> dict[str, int]:
    """Return when the last token of each of a run's whole responses was sent, by request id."""
    with urllib.request.urlopen(f"{url}/truth") as answer:
        told = json.load(answer)["responses"]
    return {
        response["request_id"]: response["sent_ns"][-1]
        for response in told
        if response["request_id"].startswith(f"{run_id}-")
        and response["end"] == "complete"
        and response["sent_ns"][-1] < killed_ns
    }

"""A machine's side of a level on several machines: it starts the workers of its machine, reports
how they stand, and hands over what they recorded.

It knows no engine that carries its calls (``nodes.py`` says which there are). Every instant that
passes between it and the driver is on the driver's clock; its workers are told on their own.
"""

import asyncio
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from agentx_replay import __version__
from agentx_replay.errors import UsageError
from agentx_replay.experiment.live_view import ProgressSnapshot
from agentx_replay.experiment.open_files import raise_open_files
from agentx_replay.experiment.workers import Crew
from agentx_replay.reason import Reason
from agentx_replay.replay.decision import LevelState, MachineState
from agentx_replay.replay.driver import ReplayResult
from agentx_replay.replay.ports import Clock
from agentx_replay.results.schema import LEVEL_TABLES
from agentx_replay.units import NS_PER_MS, NS_PER_S

_LOOK_EVERY_NS = 40 * NS_PER_MS
"""Four times as long as on one machine: a barrier opens 250 ms after its release, and
idle time that is skipped lasts 200 ms and more.
"""
LOOK_S = 1.0
"""A report with nothing new in it is made this late: counts and the screen's figures."""
SILENT_S = 10.0
"""Who says nothing for so long is lost. Each side decides it for itself."""
_MOST_BYTES_AT_ONCE = 32 << 20
_ON_RECORD = ("host", "cores", "python", "version", "ray")


@dataclass(frozen=True, slots=True)
class About:
    """What a machine is: where its agent keeps files, and what it runs."""

    host: str
    scratch: str
    cores: int
    open_files: int
    python: str
    version: str
    ray: str
    authenticated: bool

    def document(self) -> dict[str, Any]:
        """Return what goes on record."""
        return {name: getattr(self, name) for name in _ON_RECORD}


@dataclass(frozen=True, slots=True)
class Report:
    """How a machine stands; ``results`` is None while its workers play, ``refusal`` a worker's."""

    state: MachineState
    progress: Sequence[ProgressSnapshot] = ()
    results: Sequence[ReplayResult | None] | None = None
    refusal: UsageError | None = None


class Agent:
    """The agent of one machine. Its methods are what a driver calls; each is a call it has heard.

    When it hears nothing for 10 s its workers stop and end what they have in flight: a machine
    that is cut off makes no load. That is counted in looks, not on the clock: a machine that was
    suspended has not been left alone.
    """

    def __init__(self, clock: Clock, crew: Callable[..., Crew] = Crew) -> None:
        self._clock = clock
        self._make_crew = crew
        self._crew: Crew | None = None
        self._playing: asyncio.Task[list[ReplayResult | None]] | None = None
        self._scratch = Path(tempfile.mkdtemp(prefix="agentx-replay-"))
        self._directory = self._scratch
        self._ahead_ns = 0
        self._level = self._level_here = LevelState()
        self._state = self._told = MachineState()
        self._news = asyncio.Event()
        self._silent_looks = 0

    async def about(self) -> About:
        return About(
            host=socket.gethostname(),
            scratch=str(self._scratch),
            cores=len(os.sched_getaffinity(0)),
            open_files=raise_open_files(),
            python=platform.python_version(),
            version=__version__,
            ray=_ray_version(),
            authenticated=os.environ.get("RAY_AUTH_MODE") == "token",
        )

    async def now_ns(self) -> int:
        self._silent_looks = 0
        return self._clock.now_ns()

    async def corpus(self, packed: bytes, fingerprint: str) -> str:
        """Write the corpus down and return where; each worker that reads it checks which it is."""
        file = self._scratch / f"{fingerprint}.jsonl.gz"
        file.write_bytes(packed)
        return str(file)

    async def play(
        self, name: str, files: Mapping[str, bytes], parts: Mapping[int, bytes], ahead_ns: int
    ) -> None:
        """Begin a level: a part for each worker, by its number in the level.

        Records go below ``scratch/name``, beside ``files``. The driver's clock is ``ahead_ns``
        ahead of this machine's.
        """
        self._directory = self._scratch / name
        self._directory.mkdir()
        for file, body in files.items():
            (self._directory / file).write_bytes(body)
        self._ahead_ns = ahead_ns
        self._level = self._level_here = LevelState()
        self._state = self._told = MachineState()
        self._silent_looks = 0
        self._crew = self._make_crew(
            list(parts), self._clock, self._looked, look_every_ns=_LOOK_EVERY_NS
        )
        self._playing = asyncio.create_task(self._crew.play(list(parts.values())))
        self._playing.add_done_callback(lambda _: self._news.set())

    async def tell(self, level: LevelState) -> None:
        """Take what holds for all machines. Calls may overtake one another."""
        self._silent_looks = 0
        self._level = self._level.merged(level)
        self._level_here = self._level.at_clock(-self._ahead_ns)

    async def report(self) -> Report:
        """Return how it stands as soon as that has changed, and after a second at the latest."""
        self._silent_looks = 0
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), LOOK_S)
        self._news.clear()
        self._told = self._state
        crew, playing = self._crew, self._playing
        assert crew is not None  # noqa: S101 - play() came before
        assert playing is not None  # noqa: S101
        progress = crew.progress()
        if not playing.done():
            return Report(self._told.at_clock(self._ahead_ns), progress)
        last = replace(self._told, stopped=crew.coordinator.stopped).at_clock(self._ahead_ns)
        if isinstance(error := playing.exception(), UsageError):
            return Report(last, progress, [None], error)
        ended = [result and result.at_clock(self._ahead_ns) for result in playing.result()]
        return Report(last, progress, ended)

    async def parts(self, kept: Sequence[str]) -> list[tuple[str, bytes]]:
        """Delete the files that the driver has ``kept``; return the next closed ones, by their
        paths below the level's directory.
        """
        self._silent_looks = 0
        for name in kept:
            (self._directory / name).unlink()
        found: list[tuple[str, bytes]] = []
        size = 0
        for file in sorted(f for table in LEVEL_TABLES for f in table.files(self._directory)):
            size += file.stat().st_size
            if found and size > _MOST_BYTES_AT_ONCE:
                break
            found.append((str(file.relative_to(self._directory)), file.read_bytes()))
        return found

    async def end(self) -> None:
        """Return when the level's workers have ended; what they recorded is gone then."""
        if self._crew is not None:
            await self._crew.dismissed()
        self._crew = None
        shutil.rmtree(self._directory)
        self._directory = self._scratch

    async def connect(self, host: str, port: int, times: int) -> list[float]:
        """Return how long each of so many connections took, in s. Raises ``OSError``."""
        took_s = []
        for _ in range(times):
            begun_s = time.monotonic()
            _, writer = await asyncio.open_connection(host, port)
            took_s.append(time.monotonic() - begun_s)
            writer.close()
        return took_s

    async def command(self, *arguments: str) -> bytes:
        """Run a command of the product here, in a process of its own; return what it printed."""
        command = [sys.executable, "-m", "agentx_replay", *arguments]
        done = await asyncio.to_thread(
            subprocess.run, command, stdin=subprocess.DEVNULL, capture_output=True
        )
        return done.stdout

    async def close(self) -> None:
        """Leave nothing behind."""
        if self._crew is not None:
            await self.end()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _looked(self, state: MachineState) -> LevelState:
        """Take this machine's state at a look; return what its workers are to be told."""
        self._state = state
        if state.differs_beyond_counts(self._told):
            self._news.set()
        self._silent_looks += 1
        silent_ns = self._silent_looks * _LOOK_EVERY_NS
        if silent_ns == round(SILENT_S * NS_PER_S) and self._crew is not None:
            self._crew.coordinator.stop(lost(socket.gethostname(), f"no word for {SILENT_S:g} s"))
            self._crew.leave()
        return self._level_here


def _ray_version() -> str:
    """Return which Ray is installed, without importing it; empty if none is."""
    try:
        return metadata.version("ray")
    except metadata.PackageNotFoundError:
        return ""


def lost(machine: str, why: str, more: str = "") -> Reason:
    what = f"machine {machine} was lost ({why}), so its lanes ended early{more}"
    return Reason("machine-lost", what)

"""The client machines of a sweep: met once, given the sessions once, and a level played on them as
``level.py`` asks for it.
"""

import asyncio
import platform
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentx_replay import __version__
from agentx_replay.analysis.machines import MachineFacts
from agentx_replay.endpoint.kernel_stamps import Timestamps
from agentx_replay.errors import UsageError
from agentx_replay.experiment.agent import About
from agentx_replay.experiment.live_view import ProgressSnapshot
from agentx_replay.experiment.nodes import (
    RELEASE_AHEAD_NS,
    Level,
    Machine,
    MachineLostError,
    Machines,
    RemoteAgent,
    answered,
    ask,
)
from agentx_replay.experiment.part import Part, framed
from agentx_replay.experiment.sessions import SessionSource
from agentx_replay.experiment.workers import joint_result, workers_on
from agentx_replay.replay.decision import Rules
from agentx_replay.replay.driver import ReplayResult
from agentx_replay.replay.ports import Clock
from agentx_replay.results.layout import point_file
from agentx_replay.traces.corpus import pack_corpus
from agentx_replay.units import NS_PER_S

_START_S = 60.0
_CORPUS_S = 600.0


class Fleet:
    """Client machines that have answered."""

    def __init__(self, machines: Machines, met: Sequence[Machine]) -> None:
        self._machines = machines
        self.met = met
        self._corpora: list[str] = []
        self._lost: set[int] = set()

    def workers(self, concurrency: int, asked: int | None, timestamps: Timestamps) -> int:
        """Return how many workers play a level, as many on each machine but for the last lanes."""
        cores = min(machine.about.cores for machine in self.met)
        return workers_on(len(self.met), concurrency, asked, timestamps, cores)

    @property
    def open_files(self) -> int:
        """How many files a worker may have open on any of them."""
        return min(machine.about.open_files for machine in self.met)

    def document(self) -> list[dict[str, Any]]:
        """Return what ``sweep.json`` says of them."""
        return [machine.about.document() for machine in self.met]

    async def play(
        self,
        part: Part,
        clock: Clock,
        steered: Callable[[Callable[[], None]], AbstractContextManager[None]],
        show: Callable[[list[ProgressSnapshot]], None],
    ) -> tuple[ReplayResult, tuple[MachineFacts, ...]]:
        """Play a level; ``part`` is the level as one process would. Raises ``UsageError``."""
        if not self._corpora:
            self._corpora = await self._shipped(part.source, part.plan.corpus_fingerprint)
        corpora = {id(m): file for m, file in zip(self.met, self._corpora, strict=True)}

        def job(number: int, machine: Machine, ahead_ns: int) -> bytes:
            own = replace(
                part,
                worker=number,
                directory=Path(machine.about.scratch) / part.directory.name,
                origin_ns=part.origin_ns - ahead_ns,
                source=replace(part.source, traces=Path(corpora[id(machine)])),
            )
            return framed(own)

        plan = part.plan
        cap_ns = round(plan.scenario.system_idle_cap_s * NS_PER_S)
        level = Level(
            self.met,
            part.workers,
            job,
            Rules(cap_ns, plan.concurrency, RELEASE_AHEAD_NS),
            clock,
            keep=part.directory,
            files=(point_file(part.directory).name,),
            show=show,
        )
        played = await level.play(steered)
        drifts_ns = [machine.clock_drift_ns for machine in played.machines]
        self._lost |= {index for index, drift_ns in enumerate(drifts_ns) if drift_ns is None}
        return joint_result(played.results, played.stopped), played.machines

    async def _shipped(self, source: SessionSource, fingerprint: str) -> list[str]:
        """Put the sessions on each machine, packed once; return where they are there."""
        packed = self._machines.put(packed_sessions(source))
        asking = (ask(m, "corpus", packed, fingerprint, within_s=_CORPUS_S) for m in self.met)
        return list(await asyncio.gather(*asking))

    async def close(self) -> None:
        """Have the agents delete what they wrote down, but for what was not handed over."""
        left = [machine for index, machine in enumerate(self.met) if index not in self._lost]
        closing = (answered(machine.agent.call("close")) for machine in left)
        await asyncio.gather(*closing, return_exceptions=True)


async def meet(machines: Machines, *, insecure: bool = False) -> Fleet:
    """Return the machines when the agent of each has answered. Raises ``UsageError`` if one does
    not, runs another version of this or of Python, or takes calls without a token, unless that is
    meant to be ``insecure``.
    """

    async def met(agent: RemoteAgent) -> Machine:
        try:
            about: About = await answered(agent.call("about"), _START_S)
        except MachineLostError as error:
            raise UsageError(
                "machine-without-agent",
                f"no agent came up on one of the machines ({error})",
                "look whether another run holds it, and whether agentx-replay is installed there",
            ) from None
        refuse_other_version(about)
        if not (insecure or about.authenticated):
            raise UsageError(
                "machine-without-token",
                f"the Ray of machine {about.host} was started without a token, so whoever reaches "
                "it could run code there",
                "start it with RAY_AUTH_MODE=token, or give --insecure-ray",
            )
        return Machine(agent, about)

    return Fleet(machines, await asyncio.gather(*map(met, machines.agents)))


def refuse_other_version(about: About) -> None:
    """Raise ``UsageError`` if a machine runs another version of this, or of Python."""
    python = ".".join(platform.python_version_tuple()[:2])
    if about.version != __version__ or not about.python.startswith(f"{python}."):
        raise UsageError(
            "machine-version-differs",
            f"machine {about.host} has agentx-replay {about.version} on Python {about.python}, "
            f"and this one {__version__} on {platform.python_version()}",
            f"on {about.host}: python{python} -m pip install 'agentx-replay[ray]=={__version__}'",
        )


def packed_sessions(source: SessionSource) -> bytes:
    """Return all sessions of a source as one packed corpus, of the same fingerprint."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "corpus.jsonl.gz"
        pack_corpus(source.traces, file, skip_bad=source.skip_bad)
        return file.read_bytes()

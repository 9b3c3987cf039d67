"""The driver of a level on several machines: it decides for all of them, and keeps their records.

It talks to the agent of each machine through a port, so any engine that can call a method on
another machine and say that it is lost will do (``ray_nodes.py``; in tests, none at all).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from agentx_replay.analysis.machines import MachineFacts
from agentx_replay.errors import UsageError
from agentx_replay.experiment.agent import SILENT_S, About, Report, lost
from agentx_replay.experiment.live_view import ProgressSnapshot
from agentx_replay.reason import Reason
from agentx_replay.replay.decision import Decider, LevelState, MachineState, Rules
from agentx_replay.replay.driver import ReplayResult
from agentx_replay.replay.ports import Clock
from agentx_replay.replay.window import INTERRUPTED
from agentx_replay.results.durable import disk_faults_explained, write_bytes_durably
from agentx_replay.units import NS_PER_MS, NS_PER_S

_T = TypeVar("_T")
_EXCHANGES = 32
_TRIES = 5
_PULL_EVERY_S = 5.0
_LONG_CALL_S = 60.0
"""For a call that moves megabytes or ends processes: who follows the machine asks it meanwhile."""
RELEASE_AHEAD_NS = 250 * NS_PER_MS
_RELEASE_ROUND_TRIPS = 4
"""So many are added to ``RELEASE_AHEAD_NS``, before each machine knows of a barrier."""
MOST_BOUND_NS = 5 * NS_PER_MS
"""A machine whose clock is known no better than this does not play."""


class MachineLostError(Exception):
    """An agent cannot be called any more; the text says why."""


class RemoteAgent(Protocol):
    """The agent of a machine, as the driver has it."""

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of ``agent.Agent``. Raises ``MachineLostError`` and what that does."""


class Machines(Protocol):
    """The client machines of a run."""

    @property
    def agents(self) -> Sequence[RemoteAgent]: ...
    @property
    def addresses(self) -> Set[str]: ...
    def put(self, body: bytes) -> Any:
        """Return what stands for ``body`` as an argument, so that it travels once a machine."""


MARK = "agentx"
"""The custom resource that marks machines for clients, as ``ray start --resources`` gives it."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of a cluster: its id and address there, and its resources by name."""

    id: str
    address: str
    resources: Mapping[str, float]


def fit_nodes(nodes: Sequence[Node], wanted: int | None) -> list[Node]:
    """Return the machines that play, by address: those marked, if any is, else those without a
    GPU; ``wanted`` of them, if given. A client on an engine's machine disturbs what it measures.

    Raises ``UsageError`` if they are too few.
    """
    marked = [node for node in nodes if MARK in node.resources]
    fit = marked or [node for node in nodes if not node.resources.get("GPU")]
    if len(fit) < (wanted or 1):
        found = ", ".join(sorted(node.address for node in nodes)) or "none"
        raise UsageError(
            "too-few-machines",
            f"{wanted or 1} machines are asked for and {len(fit)} of {len(nodes)} are fit "
            f"({found}): {'marked ' + MARK if marked else 'without a GPU'}",
            f"lower --nodes, or mark machines: ray start --resources='{{\"{MARK}\": 1}}'",
        )
    return sorted(fit, key=lambda node: (node.address, node.id))[:wanted]


@dataclass(frozen=True, slots=True)
class ClockEstimate:
    """How far the driver's clock is ahead of a machine's: at most ``bound_ns`` from ``ahead_ns``.
    Round trips in s.
    """

    ahead_ns: int
    bound_ns: int
    round_trip_p50_s: float
    round_trip_p99_s: float


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine whose agent has answered."""

    agent: RemoteAgent
    about: About


@dataclass(frozen=True, slots=True)
class PlayedLevel:
    """How a level went: each worker's result by its number, why it was stopped, and what goes on
    record of the machines that played.
    """

    results: list[ReplayResult | None]
    stopped: Reason | None
    machines: tuple[MachineFacts, ...]


async def estimate_clock(agent: RemoteAgent, clock: Clock) -> ClockEstimate:
    """Ask a machine's time again and again and take the shortest exchange: its middle is when the
    answer was given, give or take half of it, however the way there and back differ.
    """
    exchanges = []
    for _ in range(_EXCHANGES):
        asked_ns = clock.now_ns()
        there_ns = await answered(agent.call("now_ns"))
        exchanges.append((clock.now_ns() - asked_ns, asked_ns, there_ns))
    took_ns, asked_ns, there_ns = min(exchanges)
    took_s = np.array([each[0] for each in exchanges]) / NS_PER_S
    p50_s, p99_s = map(float, np.quantile(took_s, (0.5, 0.99)))
    return ClockEstimate(asked_ns + took_ns // 2 - there_ns, -(-took_ns // 2), p50_s, p99_s)


async def answered(call: Awaitable[_T], within_s: float = SILENT_S) -> _T:
    """Return the answer to a call. Raises ``MachineLostError`` if there is none for so long."""
    try:
        return await asyncio.wait_for(call, within_s)
    except TimeoutError:
        raise MachineLostError(f"no word for {within_s:g} s") from None


async def ask(machine: Machine, method: str, *arguments: Any, within_s: float = SILENT_S) -> Any:
    """Call a machine's agent between levels. Raises ``UsageError`` if the machine is lost."""
    with between_levels(machine):
        return await answered(machine.agent.call(method, *arguments), within_s)


@contextmanager
def between_levels(machine: Machine) -> Iterator[None]:
    """Raise ``UsageError`` if the machine is lost meanwhile."""
    try:
        yield
    except MachineLostError as error:
        raise UsageError(
            "machine-lost-between-levels",
            f"machine {machine.about.host} was lost ({error})",
            "look whether it runs, and go on with --resume",
        ) from None


def clock_limit(found: ClockEstimate) -> str | None:
    """Return why a machine's clock is not known well enough for it to play; None if it is."""
    if found.bound_ns <= MOST_BOUND_NS:
        return None
    return (
        f"its clock is known to {found.bound_ns / NS_PER_MS:.1f} ms only, over "
        f"{MOST_BOUND_NS / NS_PER_MS:g} ms: the shortest round trip takes twice that"
    )


class Level:
    """One level on several machines; worker k of all plays on machine k mod their number.

    ``job`` returns a worker's part, given its number and machine and by how much the driver's clock
    is ahead there. ``keep`` is the directory that gets all records; ``files`` of it are put beside
    the workers' own.
    """

    def __init__(
        self,
        machines: Sequence[Machine],
        workers: int,
        job: Callable[[int, Machine, int], bytes],
        rules: Rules,
        clock: Clock,
        *,
        keep: Path,
        files: Sequence[str] = (),
        show: Callable[[list[ProgressSnapshot]], None] = lambda _: None,
    ) -> None:
        self._machines = machines[:workers]
        self._workers = workers
        self._job = job
        self._rules = rules
        self._clock = clock
        self._keep = keep
        self._files = files
        self._show = show
        self._reports = [Report(MachineState()) for _ in self._machines]
        self._decider = Decider(rules, clock)
        self._told = LevelState()
        self._telling: set[asyncio.Task[None]] = set()

    def stop(self, reason: Reason) -> None:
        """Have every machine start nothing more; the first reason counts."""
        level = self._decider.level
        self._decider.level = replace(level, stopped=level.stopped or reason)
        self._tell()

    async def play(
        self, steered: Callable[[Callable[[], None]], AbstractContextManager[None]]
    ) -> PlayedLevel:
        """Play it; ``steered`` is entered with what stops it. What a machine that is lost had not
        handed over stays there. Raises the ``UsageError`` of a worker, and of a clock that is not
        known well enough.
        """
        before = await asyncio.gather(*map(self._clock_of, self._machines))
        longest_ns = max(round(each.round_trip_p99_s * NS_PER_S) for each in before)
        ahead_ns = self._rules.release_ahead_ns + _RELEASE_ROUND_TRIPS * longest_ns
        self._decider = Decider(replace(self._rules, release_ahead_ns=ahead_ns), self._clock)
        with steered(lambda: self.stop(INTERRUPTED)):
            after = await asyncio.gather(
                *(self._play_on(index, before[index].ahead_ns) for index in range(len(before)))
            )
        for report in self._reports:
            if report.refusal is not None:
                raise report.refusal
        results = [self._result(worker) for worker in range(self._workers)]
        facts = (
            self._facts(index, *clocks)
            for index, clocks in enumerate(zip(before, after, strict=True))
        )
        return PlayedLevel(results, self._decider.level.stopped, tuple(facts))

    async def _clock_of(self, machine: Machine) -> ClockEstimate:
        with between_levels(machine):
            for _ in range(_TRIES):  # what else runs there may end in a moment
                found = await estimate_clock(machine.agent, self._clock)
                if (limit := clock_limit(found)) is None:
                    return found
                await asyncio.sleep(1.0)
        raise UsageError(
            "machine-clock-unknown",
            f"machine {machine.about.host} cannot play: {limit}",
            "stop what else runs there and here, or leave the machine out",
        )

    async def _play_on(self, index: int, ahead_ns: int) -> ClockEstimate | None:
        """Play on a machine from start to end; None if it was lost."""
        machine = self._machines[index]
        ended = asyncio.Event()
        try:
            await answered(self._begin(index, machine, ahead_ns))
            tasks = [
                asyncio.create_task(self._follow(index, machine.agent, ended)),
                asyncio.create_task(self._pull(machine, ended)),
            ]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
            await answered(machine.agent.call("end"), _LONG_CALL_S)
            return await estimate_clock(machine.agent, self._clock)
        except MachineLostError as error:
            left = f"; what it had not handed over is in {machine.about.scratch} there"
            self.stop(lost(machine.about.host, str(error), left))
            return None

    async def _begin(self, index: int, machine: Machine, ahead_ns: int) -> None:
        files = {name: (self._keep / name).read_bytes() for name in self._files}
        parts = {number: self._job(number, machine, ahead_ns) for number in self._numbers(index)}
        await machine.agent.call("play", self._keep.name, files, parts, ahead_ns)

    async def _follow(self, index: int, agent: RemoteAgent, ended: asyncio.Event) -> None:
        while self._reports[index].results is None:
            self._reports[index] = await answered(agent.call("report"))
            self._decider(*(report.state for report in self._reports))
            self._tell()
            self._show([each for report in self._reports for each in report.progress])
        ended.set()

    def _tell(self) -> None:
        """Tell all machines what holds, if it has changed."""
        level = self._decider.level
        if level == self._told:
            return
        self._told = level
        for machine in self._machines:
            task = asyncio.create_task(self._tell_one(machine.agent, level))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _tell_one(self, agent: RemoteAgent, level: LevelState) -> None:
        with suppress(MachineLostError):  # who follows it will hear
            await answered(agent.call("tell", level))

    async def _pull(self, machine: Machine, ended: asyncio.Event) -> None:
        """Fetch the closed parts every 5 s, and what is left when the machine has ended."""
        kept: list[str] = []
        last = False
        while kept or not last:
            last = ended.is_set()
            parts = await answered(machine.agent.call("parts", kept), _LONG_CALL_S)
            kept = self._write(parts)
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), _PULL_EVERY_S)

    def _write(self, parts: Sequence[tuple[str, bytes]]) -> list[str]:
        """Write parts durably and return their names. A disk that fails stops the level."""
        try:
            with disk_faults_explained(self._keep):
                for name, body in parts:
                    path = self._keep / name
                    path.parent.mkdir(exist_ok=True)
                    write_bytes_durably(path, body)
        except UsageError as error:
            self.stop(Reason(error.code, error.what))
            raise
        return [name for name, _ in parts]

    def _facts(
        self, index: int, before: ClockEstimate, after: ClockEstimate | None
    ) -> MachineFacts:
        """Return what goes on record of a machine; ``after`` is None if it was lost."""
        return MachineFacts(
            **self._machines[index].about.document(),
            workers=len(self._numbers(index)),
            clock_ahead_ns=-before.ahead_ns,
            clock_bound_ns=before.bound_ns,
            clock_drift_ns=None if after is None else before.ahead_ns - after.ahead_ns,
            round_trip_p50_s=before.round_trip_p50_s,
            round_trip_p99_s=before.round_trip_p99_s,
        )

    def _numbers(self, index: int) -> range:
        """Return the workers that play on a machine."""
        return range(index, self._workers, len(self._machines))

    def _result(self, worker: int) -> ReplayResult | None:
        of, row = worker % len(self._machines), worker // len(self._machines)
        results = self._reports[of].results
        return None if results is None else results[row]

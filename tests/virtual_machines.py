"""Several machines of one level in one virtual time: what passes between them takes a while, their
clocks differ, and one may be lost. Nothing but the engine that carries the calls is left out.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from virtual_replay import Log, NoText, S, Timed, plan_of

from agentx_replay.experiment.agent import Agent
from agentx_replay.experiment.live_view import ProgressSnapshot
from agentx_replay.experiment.nodes import Level, Machine, MachineLostError, PlayedLevel
from agentx_replay.plan.graph import SessionGraph
from agentx_replay.plan.plan import Plan
from agentx_replay.replay.clock import LoopClock
from agentx_replay.replay.coordinator import Coordinator
from agentx_replay.replay.decision import LevelState, MachineState, Rules
from agentx_replay.replay.driver import Replay, ReplayResult
from agentx_replay.replay.page import page_bytes
from agentx_replay.replay.peers import Member
from agentx_replay.replay.ports import Clock, Dispatch, PlayRecord, Response, Status
from agentx_replay.replay.virtual_time import VirtualTimeLoop, run_virtual, virtual_clock
from agentx_replay.scenario import Scenario

MS = 1_000_000


class AheadClock:
    """A machine's clock, ``ahead_ns`` ahead of the true one."""

    def __init__(self, ahead_ns: int) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        self._ahead_ns = ahead_ns
        self._clock = LoopClock(loop, loop.now_ns)

    def now_ns(self) -> int:
        return self._clock.now_ns() + self._ahead_ns

    def call_at(self, when_ns: int, call: Callable[[], None]) -> Any:
        return self._clock.call_at(when_ns - self._ahead_ns, call)


@dataclass
class TrueLog:
    """A recorder that keeps everything by the true clock."""

    log: Log
    ahead_ns: int

    def record(self, dispatch: Dispatch, response: Response) -> None:
        send_ns, end_ns = response.send_ns - self.ahead_ns, response.end_ns - self.ahead_ns
        self.log.record(dispatch, replace(response, send_ns=send_ns, end_ns=end_ns))

    def record_play(self, play: PlayRecord) -> None:
        self.log.record_play(play)


@dataclass(frozen=True)
class World:
    """What the machines play, and where it is noted."""

    plan: Plan
    workers: int
    seconds: Callable[[Dispatch], float]
    status: Callable[[Dispatch], Status]
    log: Log


class VirtualCrew:
    """Workers of one machine, on its clock, without processes."""

    def __init__(
        self,
        world: World,
        ahead_ns: int,
        numbers: Sequence[int],
        clock: Clock,
        decided: Callable[[MachineState], LevelState],
        look_every_ns: int,
    ) -> None:
        self._world, self._ahead_ns = world, ahead_ns
        self._numbers, self._clock = numbers, clock
        self._page = bytearray(page_bytes(len(numbers)))
        self._replays: list[Replay] = []
        self.coordinator = Coordinator(
            self._page, numbers, clock, decided, look_every_ns=look_every_ns
        )

    async def play(self, parts: Sequence[bytes]) -> list[ReplayResult | None]:
        assert [int(part) for part in parts] == list(self._numbers)
        self.coordinator.start()
        found = await asyncio.gather(*(self._work(row) for row in range(len(parts))))
        self.coordinator.finish()
        return list(found)

    async def _work(self, row: int) -> ReplayResult:
        world = self._world
        member = Member(self._page, row, len(self._numbers), self._clock)
        lanes = range(self._numbers[row], world.plan.concurrency, world.workers)
        run = Replay(
            world.plan,
            lambda *_: NoText(),
            self._clock,
            Timed(self._clock, world.seconds, world.status),
            TrueLog(world.log, self._ahead_ns),
            run_id="t",
            lanes=lanes,
            peers=member,
        )
        self._replays.append(run)
        member.attend(run.stop, run.wake)
        result = await run.run()
        member.leave()
        return result

    def progress(self) -> list[ProgressSnapshot]:
        return []

    def leave(self) -> None:
        for run in self._replays:
            run.leave()

    async def dismissed(self) -> None:
        """They have ended."""


@dataclass
class Link:
    """How calls travel to a machine: each way takes ``one_way_s()``, and ``asking_s`` when its
    clock is asked, which is taken for ``wrong_ns`` earlier than it is. From ``lost_at_s`` on
    nothing arrives any more, and nobody is told.
    """

    agent: Agent
    one_way_s: Callable[[], float]
    lost_at_s: float = 1e9
    wrong_ns: int = 0
    asking_s: float = 0.0
    calls: list[str] = field(default_factory=list)

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        self.calls.append(method)
        if method == "now_ns" and asyncio.get_running_loop().time() < self.lost_at_s:
            await asyncio.sleep(self.asking_s)
            told_ns: int = await self.agent.now_ns()
            await asyncio.sleep(self.asking_s)
            return told_ns - self.wrong_ns
        await self._travel()
        answer = await getattr(self.agent, method)(*arguments, **named)
        await self._travel()
        return answer

    async def _travel(self) -> None:
        await asyncio.sleep(self.one_way_s())
        if asyncio.get_running_loop().time() >= self.lost_at_s:
            await asyncio.sleep(1e9)


@dataclass
class DeadLink(Link):
    """One whose engine says at once that the other end has died."""

    async def _travel(self) -> None:
        left_s = self.lost_at_s - asyncio.get_running_loop().time()
        await asyncio.sleep(min(self.one_way_s(), max(0.0, left_s)))
        if asyncio.get_running_loop().time() >= self.lost_at_s:
            raise MachineLostError("it died")


@dataclass
class Outcome:
    log: Log
    played: PlayedLevel
    links: list[Link]


def on_machines(
    scratch: Path,
    graphs: Sequence[SessionGraph],
    *,
    lanes: int,
    machines: int,
    workers_each: int,
    scenario: Scenario,
    seconds: Callable[[Dispatch], float] = lambda _: 1.0,
    status: Callable[[Dispatch], Status] = lambda _: Status.OK,
    one_way_s: Callable[[], float] = lambda: 0.0,
    ahead_s: Sequence[int] = (0,),
    misjudged_ns: int = 0,
    asking_s: float = 0.0,
    release_ahead_s: float = 0.25,
    lost: tuple[int, float] | None = None,
    link: type[Link] = Link,
) -> Outcome:
    """Replay on several machines, whose clocks are ``ahead_s`` ahead, in turn. Each but the first
    is judged to be ``misjudged_ns`` further behind than it is; a barrier opens ``release_ahead_s``
    after its release. ``lost`` says which is lost when.
    """
    log = Log()
    workers = min(lanes, machines * workers_each)
    world = World(plan_of(graphs, lanes, scenario), workers, seconds, status, log)

    def linked(index: int) -> Link:
        ahead_ns = ahead_s[index % len(ahead_s)] * S
        wrong_ns = misjudged_ns if index else 0
        clock = AheadClock(ahead_ns)

        crew: Any = partial(VirtualCrew, world, ahead_ns)
        lost_at_s = lost[1] if lost and lost[0] == index else 1e9
        return link(Agent(clock, crew), one_way_s, lost_at_s, wrong_ns, asking_s)

    async def main() -> Outcome:
        links = [linked(index) for index in range(machines)]
        about = [await link.agent.about() for link in links]
        level = Level(
            [Machine(of, each) for of, each in zip(links, about, strict=True)],
            workers,
            lambda number, *_: str(number).encode(),
            Rules(round(scenario.system_idle_cap_s * S), lanes, round(release_ahead_s * S)),
            virtual_clock(),
            keep=scratch,
        )
        try:
            return Outcome(log, await level.play(lambda _: nullcontext()), links)
        finally:
            for link in links:
                await link.agent.close()

    return run_virtual(main())


def drawn(random: Random, most_s: float) -> Callable[[], float]:
    """Return delays drawn anew for each way, so that calls overtake one another."""
    return lambda: random.uniform(0.0, most_s)

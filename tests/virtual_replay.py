"""A replay in virtual time against a server that takes as long as the test says."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from agentx_replay.plan.graph import SessionGraph
from agentx_replay.plan.plan import GraphLibrary, Plan, PlannedPlay
from agentx_replay.plan.selection import Selection
from agentx_replay.prompts.prompt import Answer, Prompt
from agentx_replay.replay.driver import Progress, Replay, ReplayResult
from agentx_replay.replay.ports import Clock, Dispatch, PlayRecord, Response, Status
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock
from agentx_replay.scenario import Scenario
from agentx_replay.traces.model import BlockTrie, RecordedRequest, Session

S = 1_000_000_000
NO_BLOCKS = BlockTrie(np.empty(0, np.int32), np.empty(0, np.int32))

SCENARIO = Scenario(
    name="test",
    window_s=100.0,
    grace_s=10.0,
    warmup_requests=0,
    warmup_timeout_s=1800.0,
    seed=42,
    start_fraction=(0.0, 0.0),
    primer_lead_s=10.0,
    system_idle_cap_s=1e6,
    session_idle_cap_s=1e6,
    reading="official",
    comparable=False,
)
"""No warm-up, every play from its first request, no cap that bites."""


@dataclass(slots=True)
class Timed:
    """An endpoint whose answers take ``seconds(dispatch)`` and end as ``status(dispatch)``."""

    clock: Clock
    seconds: Callable[[Dispatch], float]
    status: Callable[[Dispatch], Status] = lambda _: Status.OK
    _cuts: list[asyncio.Event] = field(default_factory=list)
    ended_conversations: list[str] = field(default_factory=list)
    prepared: list[tuple[int, int, str, int]] = field(default_factory=list)

    async def send(self, dispatch: Dispatch) -> Response:
        send_ns = self.clock.now_ns()
        cut = asyncio.Event()
        self._cuts.append(cut)
        self.clock.call_at(send_ns + round(self.seconds(dispatch) * S), cut.set)
        await cut.wait()
        end_ns = self.clock.now_ns()
        was_cut = end_ns < send_ns + round(self.seconds(dispatch) * S)
        status = Status.CUT if was_cut else self.status(dispatch)
        return Response(status, send_ns, end_ns, completion_tokens=dispatch.max_tokens)

    def prepare(
        self, lane: int, conversation_id: str, due_ns: int, compose: Callable[[], int]
    ) -> None:
        self.prepared.append((self.clock.now_ns(), lane, conversation_id, due_ns))

    def cut(self) -> None:
        for event in self._cuts:
            event.set()

    def conversation_ended(self, conversation_id: str) -> None:
        self.ended_conversations.append(conversation_id)

    async def close(self) -> None:
        self._cuts.clear()


class NoText:
    """Prompts of the recorded length without any content."""

    def prompt(self, conversation: int, request: RecordedRequest) -> Prompt:
        return Prompt(request.input_tokens, 0, np.empty(0, np.uint64), lambda: b"[]")

    def answered(self, request_index: int, answer: Answer | None) -> None:
        """Nothing is said."""

    def compose(self, conversation: int, request: RecordedRequest) -> int:
        raise AssertionError("a replay in virtual time has no text")

    def forget(self, conversation: int) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class Log:
    """A recorder that keeps everything."""

    requests: list[tuple[Dispatch, Response]] = field(default_factory=list)
    plays: list[PlayRecord] = field(default_factory=list)

    def record(self, dispatch: Dispatch, response: Response) -> None:
        self.requests.append((dispatch, response))

    def record_play(self, play: PlayRecord) -> None:
        self.plays.append(play)

    def sent(self, phase: str = "window") -> list[tuple[float, int, int, int, int]]:
        """(second sent, lane, play number, conversation, turn) of a phase's requests, as sent."""
        return sorted(
            (round(r.send_ns / S, 6), d.lane, d.play_number, d.conversation, d.turn)
            for d, r in self.requests
            if d.phase == phase
        )


@dataclass(slots=True)
class Outcome:
    log: Log
    result: ReplayResult
    endpoint: Timed
    looks: list[Progress]


def plan_of(graphs: Sequence[SessionGraph], lanes: int, scenario: Scenario) -> Plan:
    sessions = tuple(
        Session(
            of.session_id,
            64,
            0,
            0,
            tuple(turn.request for conversation in of.conversations for turn in conversation.turns),
            NO_BLOCKS,
        )
        for of in graphs
    )
    library = GraphLibrary(Selection(sessions, sessions, ()), scenario, dict(enumerate(graphs)))
    return Plan(scenario, "0" * 16, library, lanes)


def replay(
    graphs: Sequence[SessionGraph],
    *,
    lanes: int = 1,
    scenario: Scenario = SCENARIO,
    seconds: Callable[[Dispatch], float] = lambda _: 1.0,
    status: Callable[[Dispatch], Status] = lambda _: Status.OK,
    stop_at_s: float | None = None,
    look_at_s: Sequence[float] = (),
) -> Outcome:
    """Replay ``graphs`` on ``lanes`` from virtual second 0."""
    log = Log()
    looks: list[Progress] = []

    def prompts(_play: PlannedPlay, _lane: int, _ordinal: int) -> NoText:
        return NoText()

    async def main() -> Outcome:
        clock = virtual_clock()
        endpoint = Timed(clock, seconds, status)
        run = Replay(plan_of(graphs, lanes, scenario), prompts, clock, endpoint, log, run_id="t")
        if stop_at_s is not None:
            clock.call_at(round(stop_at_s * S), run.stop)
        for at_s in look_at_s:
            clock.call_at(round(at_s * S), lambda: looks.append(run.progress()))
        return Outcome(log, await run.run(), endpoint, looks)

    return run_virtual(main())

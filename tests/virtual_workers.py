"""Several workers of one level on one virtual clock, which share the page and the server alone."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from virtual_replay import SCENARIO, Log, NoText, S, Timed, plan_of

from agentx_replay.plan.graph import SessionGraph
from agentx_replay.reason import Reason
from agentx_replay.replay.coordinator import RELEASE_AHEAD_NS, Coordinator
from agentx_replay.replay.decision import Decider, Rules
from agentx_replay.replay.driver import Replay, ReplayResult
from agentx_replay.replay.page import page_bytes
from agentx_replay.replay.peers import Member
from agentx_replay.replay.ports import Dispatch, Status
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock
from agentx_replay.replay.window import INTERRUPTED
from agentx_replay.scenario import Scenario

SHORT = dataclasses.replace(SCENARIO, window_s=30.0)


@dataclass(slots=True)
class Shared:
    log: Log
    results: list[ReplayResult]
    reason: Reason | None


def shared_replay(
    graphs: Sequence[SessionGraph],
    *,
    lanes: int,
    workers: int,
    scenario: Scenario = SHORT,
    seconds: Callable[[Dispatch], float] = lambda _: 1.0,
    status: Callable[[Dispatch], Status] = lambda _: Status.OK,
    stop_at_s: float | None = None,
) -> Shared:
    """Replay on ``workers`` workers, worker k playing lanes k, k + workers, …"""
    log = Log()

    async def main() -> Shared:
        clock = virtual_clock()
        endpoint = Timed(clock, seconds, status)
        page = bytearray(page_bytes(workers))
        plan = plan_of(graphs, lanes, scenario)
        coordinator = Coordinator(
            page,
            range(workers),
            clock,
            Decider(Rules(round(scenario.system_idle_cap_s * S), lanes, RELEASE_AHEAD_NS), clock),
        )

        async def work(worker: int) -> ReplayResult:
            member = Member(page, worker, workers, clock)
            mine = range(worker, lanes, workers)
            run = Replay(
                plan,
                lambda *_: NoText(),
                clock,
                endpoint,
                log,
                run_id="t",
                lanes=mine,
                peers=member,
            )
            member.attend(run.stop, run.wake)
            result = await run.run()
            member.leave()
            return result

        coordinator.start()
        if stop_at_s is not None:
            clock.call_at(round(stop_at_s * S), lambda: coordinator.stop(INTERRUPTED))
        results = await asyncio.gather(*(work(worker) for worker in range(workers)))
        coordinator.finish()
        return Shared(log, results, coordinator.stopped)

    return run_virtual(main())


def from_each_start(log: Log) -> dict[str, list[tuple[int, ...]]]:
    """For each phase: every request's send and end from the phase's first send, and what it was."""
    rows: dict[str, list[tuple[int, ...]]] = {}
    for phase in ("primer", "cache_pressure", "window"):
        pairs = [(d, r) for d, r in log.requests if d.phase == phase]
        first_ns = min((r.send_ns for _, r in pairs), default=0)
        rows[phase] = sorted(
            (
                r.send_ns - first_ns,
                r.end_ns - first_ns,
                d.lane,
                d.play_number,
                d.conversation,
                d.turn,
            )
            for d, r in pairs
        )
    return rows

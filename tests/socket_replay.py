"""Whole replays on real sockets in one process: client and simulated server share a loop.

For what a server does wrong; what the closed loop decides is tested in virtual time.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvloop
from faulty_answers import Fault, faulty
from small_corpus import corpus, planned, request, session

from agentx_replay.endpoint.client import open_client
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.experiment.part import Part, play
from agentx_replay.experiment.prompting import Prompting, wording_of
from agentx_replay.experiment.sessions import SessionSource
from agentx_replay.prompts.calibration import assumed
from agentx_replay.replay.clock import real_clock
from agentx_replay.replay.driver import Replay, ReplayResult
from agentx_replay.results.schema import REQUESTS
from agentx_replay.scenario import Scenario, load_scenario
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.server import RunningServer, ServerConfig, running_server
from agentx_replay.traces.model import Corpus

SCENARIO = load_scenario("quick").override(
    window_s=600.0, grace_s=1.0, system_idle_cap_s=0.02, session_idle_cap_s=0.05, warmup_requests=1
)
_CONFIG = ServerConfig(engine=EngineModel(step_base_ms=1, tokens_per_step=4), truth_bytes=1 << 26)
_DEADLINE_S = 60.0
_SOURCE = SessionSource(Path("not-read"), False, None, "session", None)


@dataclass(slots=True)
class Controls:
    """What a fault plan can do to the run it is asked in, once the run has begun."""

    server: RunningServer | None = None
    replay: Replay | None = None


OnRequest = Callable[[Controls, int, bytes], Fault | None]
"""A fault plan: given the controls, a request's number and its body."""


@dataclass(slots=True)
class _Plan:
    controls: Controls
    call: OnRequest

    def on_request(self, number: int, body: bytes) -> Fault | None:
        return self.call(self.controls, number, body)


@dataclass(frozen=True, slots=True)
class Outcome:
    """``sent`` maps a request's id to the numbers of its sendings, in order; ``tasks_left`` is how
    many tasks ran on after the end, and ``overtime_s`` how long after the window and its grace
    that was.
    """

    result: ReplayResult
    sent: dict[str, list[int]]
    rows: list[dict[str, Any]]
    tasks_left: int
    overtime_s: float


def small_sessions(directory: Path) -> Corpus:
    """Forty sessions of twelve requests, without gaps, each a block longer."""
    return corpus(
        directory,
        *(
            session(f"s{of}", *(request(1.0 * n, range(n + 1), out=20) for n in range(12)))
            for of in range(40)
        ),
    )


def replayed(directory: Path, on_request: OnRequest, *, lanes: int, **rules: float) -> Outcome:
    """Replay small sessions on ``lanes`` into ``directory`` and return what became of it."""
    scenario = dataclasses.replace(SCENARIO, **rules)  # type: ignore[arg-type]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_replayed(directory, on_request, lanes, scenario))


async def _replayed(
    directory: Path, on_request: OnRequest, lanes: int, scenario: Scenario
) -> Outcome:
    controls = Controls()

    @contextmanager
    def steered(replay: Replay) -> Iterator[None]:
        controls.replay = replay
        yield

    hook = faulty(_Plan(controls, on_request))
    async with asyncio.timeout(_DEADLINE_S), running_server(_CONFIG, hook=hook) as running:
        controls.server = running
        tasks_before = asyncio.all_tasks()
        with real_clock(asyncio.get_running_loop()) as clock:
            part = Part(
                plan=planned(small_sessions(directory / "traces"), scenario, lanes),
                source=_SOURCE,
                prompting=_prompting(),
                attempt=0,
                run_id="r",
                directory=directory,
                origin_ns=clock.now_ns(),
                open=partial(open_client, _settings(running.port)),
            )
            with closing(part.recorder()) as recorder:
                result = await play(part, clock, recorder, steered, lambda _: None)
            tasks_left = len(asyncio.all_tasks() - tasks_before)
        sent: dict[str, list[int]] = {}
        for truth in running.server.truth.as_json():
            sent.setdefault(truth["request_id"], []).append(truth["number"])
    window = result.window
    assert window is not None
    overtime_s = (window.drained_ns - window.close_ns) / 1e9 - scenario.grace_s
    rows = REQUESTS.read(directory).to_pylist()
    return Outcome(result, sent, rows, tasks_left, overtime_s)


def _prompting() -> Prompting:
    calibration = assumed("test", "chat")
    return Prompting(wording_of(calibration, chat=True), calibration.cost, "salt", "session")


def _settings(port: int) -> EndpointSettings:
    return EndpointSettings(BaseUrl("http", "127.0.0.1", port, "/v1"), "simulated")

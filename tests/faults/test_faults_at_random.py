"""Faults at random rates through a whole replay: nothing lost, nothing doubled, nothing stalled.

A replay of small sessions on real sockets, against an engine that breaks one response in
twelve. What the server knows it did to each request is held against the records.
"""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvloop
from small_corpus import corpus, planned, request, session

from agentx_replay.endpoint.client import open_client
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.experiment.part import Part, play
from agentx_replay.experiment.prompting import Prompting, wording_of
from agentx_replay.prompts.calibration import assumed
from agentx_replay.replay.clock import real_clock
from agentx_replay.replay.driver import Replay
from agentx_replay.results.compaction import request_files
from agentx_replay.results.parquet import read_parquet
from agentx_replay.results.schema import REQUESTS
from agentx_replay.scenario import load_scenario
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.faults import Act, Break, Fault, Point, Shape
from agentx_replay.simulator.server import ServerConfig, running_server
from agentx_replay.traces.model import Corpus

LANES = 24
SHARE = 1 / 12
DEADLINE_S = 60.0
ENDS_AT_REQUEST = 700
UNHARMED = 100
"""Requests before the first fault: a run stops when a tenth of its first few fail."""
ENGINE = EngineModel(step_base_ms=1, tokens_per_step=4)
SCENARIO = load_scenario("quick").override(
    window_s=600.0, grace_s=1.0, system_idle_cap_s=0.02, tree_idle_cap_s=0.05, warmup_requests=1
)

FAULTS: dict[str, Fault] = {
    "reset before headers": Fault(breaks=Break(Act.RESET, Point.BEFORE_HEADERS)),
    "reset before the first token": Fault(breaks=Break(Act.RESET, Point.BEFORE_FIRST_TOKEN)),
    "closed after the last token": Fault(breaks=Break(Act.CLOSE, Point.AFTER_LAST_TOKEN)),
    "closed after [DONE]": Fault(breaks=Break(Act.CLOSE, Point.AFTER_DONE)),
    "an error in a 200": Fault(breaks=Break(Act.ERROR_OBJECT, Point.BEFORE_FIRST_TOKEN)),
    "garbage": Fault(breaks=Break(Act.GARBAGE, Point.AFTER_LAST_TOKEN)),
    "429": Fault(breaks=Break(Act.STATUS, Point.BEFORE_HEADERS, status=429)),
    "503": Fault(breaks=Break(Act.STATUS, Point.BEFORE_HEADERS, status=503)),
    "a short stall": Fault(breaks=Break(Act.STALL, Point.BEFORE_FIRST_TOKEN, stall_s=0.05)),
    "a stall without end": Fault(breaks=Break(Act.STALL, Point.AFTER_LAST_TOKEN, stall_s=3600.0)),
    "sheared": Fault(Shape(sheared=True, line_end="\r\n")),
}
# Status and category of the record, where the run was not cut before; a stall without end always
# is. A reset before headers is only a failure on a new connection; on one that was used before the
# request is sent again.
RECORDS = {
    "reset before headers": {("failed", "reset")},
    "reset before the first token": {("failed", "reset")},
    "closed after the last token": {("failed", "reset")},
    "closed after [DONE]": {("ok", None)},
    "an error in a 200": {("failed", "stream_error")},
    "garbage": {("failed", "malformed")},
    "429": {("failed", "rate_limited")},
    "503": {("failed", "server_error")},
    "a short stall": {("ok", None)},
    "sheared": {("ok", None)},
}


@dataclass(slots=True)
class AtRandom:
    """Breaks a share of the requests of a window, each in the next way, and ends it after some.

    ``met`` is what each request met, by number. A request of the warm-up, which asks for one token,
    is left alone: a failure there ends the run.
    """

    rng: random.Random
    names: Iterator[str] = field(default_factory=lambda: itertools.cycle(FAULTS))
    met: list[str] = field(default_factory=list)
    end: Callable[[], None] | None = None

    def on_request(self, number: int, body: bytes) -> Fault | None:
        asked = orjson.loads(body)["max_completion_tokens"]
        breaks = asked > 1 and number >= UNHARMED and self.rng.random() < SHARE
        name = next(self.names) if breaks else "nothing"
        assert number == len(self.met)
        self.met.append(name)
        if len(self.met) == ENDS_AT_REQUEST and self.end is not None:
            self.end()
        return FAULTS.get(name)


@dataclass(frozen=True, slots=True)
class Outcome:
    """``met`` maps a request's id to what its sendings met, in order; ``tasks_left`` is how many
    tasks ran on after the end, and ``overtime_s`` how long after the window and its grace that was.
    """

    met: dict[str, list[str]]
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


async def _outcome(directory: Path) -> Outcome:
    faults = AtRandom(random.Random(7))

    @contextmanager
    def steered(replay: Replay) -> Iterator[None]:
        faults.end = replay.stop
        yield

    calibration = assumed("test", "chat")
    prompting = Prompting(wording_of(calibration, chat=True), calibration.cost, "salt", "session")
    config = ServerConfig(engine=ENGINE, truth_bytes=1 << 26)
    async with asyncio.timeout(DEADLINE_S), running_server(config, faults=faults) as running:
        settings = EndpointSettings(BaseUrl("http", "127.0.0.1", running.port, "/v1"), "simulated")
        tasks_before = asyncio.all_tasks()
        with real_clock(asyncio.get_running_loop()) as clock:
            part = Part(
                plan=planned(small_sessions(directory / "traces"), SCENARIO, LANES),
                prompts=prompting.level(LANES, 0),
                run_id="r",
                directory=directory,
                origin_ns=clock.now_ns(),
                open=partial(open_client, settings),
            )
            window = (await play(part, clock, steered, lambda _: None)).result.window
            tasks_left = len(asyncio.all_tasks() - tasks_before)
        met: dict[str, list[str]] = {}
        for truth in running.server.truth.as_json():
            met.setdefault(truth["request_id"], []).append(faults.met[truth["number"]])
    assert window is not None
    overtime_s = (window.drained_ns - window.close_ns) / 1e9 - SCENARIO.grace_s
    rows = read_parquet(request_files(directory), REQUESTS).to_pylist()
    return Outcome(met, rows, tasks_left, overtime_s)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_outcome(tmp_path_factory.mktemp("random")))


def test_every_request_that_was_sent_has_one_record(outcome: Outcome) -> None:
    recorded = Counter(row["request_id"] for row in outcome.rows)
    assert set(recorded.values()) == {1}
    assert recorded.keys() == outcome.met.keys()


def test_a_request_is_sent_again_as_often_as_its_record_says(outcome: Outcome) -> None:
    sent = {name: len(met) - 1 for name, met in outcome.met.items()}
    assert {row["request_id"]: row["retries"] for row in outcome.rows} == sent
    assert sum(sent.values()) > 0
    for name, met in outcome.met.items():
        assert set(met[:-1]) <= {"reset before headers"}, name


def test_every_fault_has_its_record(outcome: Outcome) -> None:
    seen: dict[str, set[tuple[str, str | None]]] = {}
    for row in outcome.rows:
        if row["status"] == "cut":
            continue
        last = outcome.met[row["request_id"]][-1]
        seen.setdefault(last, set()).add((row["status"], row["error_category"]))
    assert seen.pop("nothing") == {("ok", None)}
    assert len(seen) >= 8
    assert seen == {name: RECORDS[name] for name in seen}


def test_the_end_comes_on_time_whatever_hangs_and_leaves_no_task(outcome: Outcome) -> None:
    assert outcome.tasks_left == 0
    assert outcome.overtime_s < 5.0  # a busy machine's slack; a response that hangs would take 3600

"""A level on several machines that are all this one: real agents and worker processes, and a port
that carries calls within the process.
"""

import asyncio
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import uvloop
from recorded_parts import IMPORTABLE, parts
from recording_endpoint import Orders, sent_bytes
from refusals import refuses

from agentx_replay.analysis.machines import MachineFacts
from agentx_replay.experiment.agent import About, Agent
from agentx_replay.experiment.fleet import meet, refuse_other_version
from agentx_replay.experiment.nodes import MachineLostError, Node, fit_nodes
from agentx_replay.experiment.workers import workers_on
from agentx_replay.replay.clock import real_clock
from agentx_replay.replay.driver import ReplayResult
from agentx_replay.results.schema import INSTRUMENT, REQUESTS


@dataclass
class Local:
    """An agent in this process; it dies at the call ``dies_at`` (method, how many before)."""

    agent: Agent
    dies_at: tuple[str, int] | None = None
    calls: list[str] = field(default_factory=list)

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        self.calls.append(method)
        if self.dies_at and self.calls.count(self.dies_at[0]) > self.dies_at[1]:
            raise MachineLostError("it died")
        return await getattr(self.agent, method)(*arguments, **named)


@dataclass
class LocalMachines:
    agents: list[Local]
    addresses: frozenset[str] = frozenset(("here",))

    def put(self, body: bytes) -> bytes:
        return body


@dataclass(frozen=True)
class Played:
    result: ReplayResult
    machines: tuple[MachineFacts, ...]
    locals: list[Local]


def on_fleet(
    traces: Path,
    orders: Orders,
    *,
    machines: int,
    workers: int,
    dies_at: tuple[str, int] | None = None,
    window_s: float = 1.0,
) -> Played:
    part = replace(parts(traces, 1, orders, window_s=window_s)[0], workers=workers)
    (part.directory / "point.json").write_text('{"mark": "m"}')

    async def main() -> Played:
        with real_clock(asyncio.get_running_loop()) as clock:
            found = [Local(Agent(clock)) for _ in range(machines)]
            found[-1].dies_at = dies_at
            fleet = await meet(LocalMachines(found), insecure=True)
            result, facts = await fleet.play(
                replace(part, origin_ns=clock.now_ns()),
                clock,
                lambda _: nullcontext(),
                lambda _: None,
            )
            for each in found:
                await each.agent.close()
            return Played(result, facts, found)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = tmp_path / "c0006"
    found.mkdir()
    return found


@pytest.fixture(autouse=True)
def _endpoint_can_be_imported_by_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", IMPORTABLE)


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    yield
    assert list(scratch.iterdir()) == []


def test_two_machines_send_the_bytes_that_one_plans_and_hand_over_all_rows(
    directory: Path, small_traces: Path
) -> None:
    level = on_fleet(small_traces, Orders(directory), machines=2, workers=3)
    assert level.result.failure is None
    assert level.result.window is not None
    sent = sent_bytes(directory)
    rows = REQUESTS.read(directory, ("request_id", "lane")).to_pylist()
    assert {row["request_id"] for row in rows} == set(sent)
    assert {row["lane"] for row in rows} == set(range(6))
    assert set(INSTRUMENT.read(directory)["worker"].to_pylist()) == {0, 1, 2}
    assert [machine.workers for machine in level.machines] == [2, 1]
    for machine in level.machines:  # one process has one clock
        assert abs(machine.clock_ahead_ns) <= machine.clock_bound_ns
    assert [each.calls.count("corpus") for each in level.locals] == [1, 1]


def test_a_machine_that_is_lost_fails_the_level_and_the_rows_of_others_stay(
    directory: Path, small_traces: Path
) -> None:
    level = on_fleet(
        small_traces,
        Orders(directory),
        machines=2,
        workers=2,
        dies_at=("parts", 1),
        window_s=600.0,
    )
    assert level.result.failure is not None
    assert level.result.failure.code == "machine-lost"
    assert level.machines[1].clock_drift_ns is None
    assert {0, 2, 4} <= set(REQUESTS.read(directory, ("lane",))["lane"].to_pylist())


def test_a_worker_that_dies_fails_the_level_by_its_number_of_all(
    directory: Path, small_traces: Path
) -> None:
    orders = Orders(directory, deadly_lane=2, answer_s=0.1)
    level = on_fleet(small_traces, orders, machines=2, workers=3, window_s=600.0)
    assert level.result.failure is not None
    assert level.result.failure.code == "worker-died"
    assert " 2 " in level.result.failure.text


ABOUT = About("b", "/tmp/x", 8, 1024, "3.11.7", "0.1.0", "2.60.0", authenticated=True)


@pytest.mark.parametrize("other", [{"version": "0.0.9"}, {"python": "3.10.2"}])
def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]) -> None:
    monkeypatch.setattr("agentx_replay.experiment.fleet.__version__", "0.1.0")
    monkeypatch.setattr("platform.python_version_tuple", lambda: ("3", "11", "9"))
    refuse_other_version(ABOUT)
    with refuses("machine-version-differs"):
        refuse_other_version(replace(ABOUT, **other))


@pytest.mark.parametrize(
    ("machines", "concurrency", "asked", "workers"),
    [
        (2, 16, None, 2),  # one each
        (2, 1000, None, 8),  # 500 lanes a machine, 128 a worker
        (4, 4096, None, 28),  # a core of each is left
        (3, 2, None, 2),  # no machine without a lane
        (3, 5, 2, 5),  # nor a worker
        (2, 64, 3, 6),
    ],
)
def test_workers_are_dealt_to_machines_evenly(
    machines: int, concurrency: int, asked: int | None, workers: int
) -> None:
    assert workers_on(machines, concurrency, asked, "kernel", cores=8) == workers


PLAIN, GPU, MARKED = {"CPU": 8.0}, {"CPU": 8.0, "GPU": 8.0}, {"CPU": 8.0, "agentx": 1.0}


@pytest.mark.parametrize(
    ("resources", "wanted", "fit"),
    [
        ([PLAIN, PLAIN], None, [0, 1]),
        ([PLAIN, PLAIN, PLAIN], 2, [0, 1]),
        ([GPU, PLAIN], None, [1]),  # a client on an engine's machine disturbs it
        ([PLAIN, MARKED, GPU | MARKED], None, [1, 2]),  # unless somebody marked it
        ([GPU], None, None),
        ([PLAIN], 2, None),
        ([], None, None),
    ],
)
def test_which_machines_of_a_cluster_play(
    resources: list[dict[str, float]], wanted: int | None, fit: list[int] | None
) -> None:
    nodes = [Node(str(n), f"10.0.0.{n}", each) for n, each in enumerate(resources)]
    if fit is None:
        with refuses("too-few-machines"):
            fit_nodes(nodes, wanted)
    else:
        assert [int(node.id) for node in fit_nodes(nodes, wanted)] == fit

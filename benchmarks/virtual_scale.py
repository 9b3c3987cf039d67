"""What an hour of lanes costs in virtual time, and whether a timer costs more with more lanes.

    python benchmarks/virtual_scale.py TRACES

First a simulated hour of scenario agentx over the sessions in TRACES, at 64 and at 512 lanes, from
the first request to the page: the replay (contents of prompts, an engine with a prefix cache,
records on disk), compaction, histograms, the point's numbers, the fidelity report, and the report
of the run. Each part is told with its time and peak memory; the goal for all of it at 512 lanes is
120 s on two cores and 2,000 MB. The engine is fast enough to carry 512 lanes. Run and report are
processes of their own, on Linux.

Then short sessions at 10 to 2,000 lanes, on a server that only waits: what is left is the closed
loop and its timers.
"""

import asyncio
import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "tests")]

from stream_graphs import graph, turn  # noqa: E402
from virtual_replay import SCENARIO, NoText, S, plan_of  # noqa: E402

from agentx_replay.analysis.facts import Conduct, Rules  # noqa: E402
from agentx_replay.analysis.findings import Kind  # noqa: E402
from agentx_replay.analysis.findings import fidelity as broken  # noqa: E402
from agentx_replay.analysis.point import PointFacts, measure_point, point_document  # noqa: E402
from agentx_replay.analysis.responses import Window, records_of  # noqa: E402
from agentx_replay.analysis.run import DEFAULT_TARGETS  # noqa: E402
from agentx_replay.analysis.tokens import latency_series  # noqa: E402
from agentx_replay.experiment.conformity import level_fidelity  # noqa: E402
from agentx_replay.experiment.prompting import Prompting  # noqa: E402
from agentx_replay.plan.graph import SessionGraph  # noqa: E402
from agentx_replay.plan.plan import GraphLibrary, Plan  # noqa: E402
from agentx_replay.plan.selection import select_sessions  # noqa: E402
from agentx_replay.prompts.template import CHATML  # noqa: E402
from agentx_replay.prompts.text import chat_wording  # noqa: E402
from agentx_replay.prompts.vocabulary import builtin_vocabulary  # noqa: E402
from agentx_replay.replay.driver import Replay, ReplayResult  # noqa: E402
from agentx_replay.replay.ports import Clock, Dispatch, Response, Status  # noqa: E402
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock  # noqa: E402
from agentx_replay.report.rebuild import Report  # noqa: E402
from agentx_replay.results.histograms import write_log  # noqa: E402
from agentx_replay.results.layout import Measurement, latency_log  # noqa: E402
from agentx_replay.results.recorder import Recorder  # noqa: E402
from agentx_replay.results.run_directory import PointStatus, RunDirectory  # noqa: E402
from agentx_replay.results.schema import LEVEL_TABLES, REQUESTS  # noqa: E402
from agentx_replay.scenario import load_scenario  # noqa: E402
from agentx_replay.simulator.engine import EngineModel  # noqa: E402
from agentx_replay.simulator.inprocess import InProcessEndpoint  # noqa: E402
from agentx_replay.traces.corpus import read_corpus  # noqa: E402

HOUR_LANES = (64, 512)
TIMER_LANES = (10, 50, 200, 500, 1000, 2000)
TIMER_RUNS = 3
SESSIONS = 200
TURNS = 20
FAST = EngineModel(
    per_sequence_ms=0.005,
    per_context_token_ms=0.0,
    per_prefill_token_ms=0.001,
    prefill_budget_tokens=65_536,
    cache_blocks=4_000_000,
    max_running=1024,
)


class Meter:
    """Prints what each part took: seconds, of CPU too, and its own peak of resident memory."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()
        Path("/proc/self/clear_refs").write_text("5")

    def part(self, name: str, said: str = "") -> None:
        """Say what has been since the part before, and begin the next."""
        wall_s, cpu_s = time.perf_counter() - self._wall_s, time.process_time() - self._cpu_s
        status = Path("/proc/self/status").read_text()
        peak_mb = int(status.split("VmHWM:")[1].split()[0]) / 1024
        print(f"  {name:<22}{wall_s:7.1f} s{cpu_s:7.1f} s{peak_mb:8,.0f} MB  {said}", flush=True)
        self._begin()


def hour(traces: Path, lanes: int, path: Path) -> None:
    """Play a simulated hour into a run directory and print what each part cost this process."""
    meter = Meter()
    scenario = load_scenario("agentx")
    corpus = read_corpus(traces)
    selection = select_sessions(corpus, max_context=None, max_sessions=scenario.max_sessions)
    plan = Plan(scenario, corpus.fingerprint, GraphLibrary(selection, scenario), lanes)
    prompting = Prompting(
        chat_wording(builtin_vocabulary()), CHATML, "salt", scenario.shared_prefix
    )
    run = RunDirectory.create(path)
    run.write_sweep({"command": ["virtual_scale"], "started_unix_s": time.time()})
    directory = run.start_point(Measurement(lanes), {})
    meter.part("plan")
    result = run_virtual(_play(plan, prompting, directory))
    meter.part("replay, recorded")
    for table in LEVEL_TABLES:
        table.compact(directory)
    meter.part("compaction")
    window = _window(result)
    records = records_of(REQUESTS.at(directory).groups)
    meter.part("responses", f"{len(records.responses):,}")
    write_log(latency_log(directory), latency_series(records, window), 0.0)
    meter.part("histograms", f"{records.responses.event_counts.sum():,} tokens")
    rules = Rules(scenario.name, scenario.comparable, scenario.window_s)
    facts = PointFacts(lanes, None, window, rules, Conduct())
    point = measure_point(records, None, facts, PointStatus.COMPLETE)
    meter.part("numbers", "valid" if point.valid else "; ".join(point.texts(Kind.INVALID)))
    report = level_fidelity(plan, directory, window)
    kept = report is not None and not any(broken(report))
    run.write_point(
        Measurement(lanes), PointStatus.COMPLETE, point_document(replace(point, fidelity=report))
    )
    meter.part("fidelity", "all kept" if kept else "NOT all kept")


async def _play(plan: Plan, prompting: Prompting, directory: Path) -> ReplayResult:
    clock = virtual_clock()
    prompts = prompting.level(plan.concurrency, 0)
    with closing(Recorder(directory, Measurement(plan.concurrency), origin_ns=0)) as recorder:
        endpoint = InProcessEndpoint(clock, FAST)
        return await Replay(plan, prompts, clock, endpoint, recorder, run_id="t").run()


def _window(result: ReplayResult) -> Window:
    if result.window is None:
        raise SystemExit("the warm-up did not reach the window")
    open_ns, close_ns = result.window.open_ns, result.window.close_ns
    return Window(open_ns, close_ns, (close_ns - open_ns) / S)


def report(path: Path) -> None:
    """Make the report of a run directory and print what it cost this process."""
    meter = Meter()
    page = Report.of(path, DEFAULT_TARGETS).write()
    meter.part("report", f"{page.stat().st_size / 1e6:.1f} MB of page")


class _Waits:
    """A server that takes a second and a little, and a recorder that counts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.requests = 0

    async def send(self, dispatch: Dispatch) -> Response:
        """Wait for as long as the lane says."""
        send_ns = self._clock.now_ns()
        over = asyncio.get_running_loop().create_future()
        wait_ns = S + 100_000 * dispatch.lane
        self._clock.call_at(send_ns + wait_ns, lambda: over.set_result(None))
        await over
        end_ns = self._clock.now_ns()
        return Response(Status.OK, send_ns, end_ns, completion_tokens=dispatch.max_tokens)

    def prepare(
        self, lane: int, conversation_id: str, due_ns: int, compose: Callable[[], int]
    ) -> None:
        """Hold no connection."""

    def cut(self) -> None:
        """Let what is in flight come to its end."""

    def conversation_ended(self, conversation_id: str) -> None:
        """Hold nothing for a stream."""

    async def close(self) -> None:
        """Hold nothing."""

    def record(self, *_: object) -> None:
        """Count a response."""
        self.requests += 1

    def record_play(self, *_: object) -> None:
        """Plays are not counted."""


def short_session(number: int) -> SessionGraph:
    """Return a session of ``TURNS`` requests with gaps of 1 to 10 s."""
    turns = [turn(i, 5.0 * i, gap_s=1.0 + (7 * i + number) % 10) for i in range(TURNS)]
    return graph(turns, session_id=f"s{number}")


def timers(lanes: int) -> tuple[int, float]:
    """Return how many requests were played and the microseconds of CPU for each.

    The window is as long as it takes for about 40,000 requests; both caps are on.
    """
    rules = replace(
        SCENARIO, window_s=7.0 * 40_000 / lanes, system_idle_cap_s=10.0, session_idle_cap_s=300.0
    )
    plan = plan_of([short_session(number) for number in range(SESSIONS)], lanes, rules)

    async def play() -> int:
        clock = virtual_clock()
        server = _Waits(clock)
        await Replay(plan, lambda *_: NoText(), clock, server, server, run_id="t").run()
        return server.requests

    begun_s = time.process_time()
    requests = run_virtual(play())
    return requests, (time.process_time() - begun_s) * 1e6 / requests


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(traces: Path) -> None:
    """Print both tables."""
    for lanes in HOUR_LANES:
        print(f"a simulated hour of agentx at {lanes} lanes: time, CPU, peak memory", flush=True)
        with TemporaryDirectory() as scratch:
            run = f"{scratch}/run"
            alone = [sys.executable, __file__]
            before_s, begun_s = _children_cpu_s(), time.perf_counter()
            subprocess.run([*alone, "hour", str(traces), str(lanes), run], check=True)
            subprocess.run([*alone, "report", run], check=True)
        wall_s, cpu_s = time.perf_counter() - begun_s, _children_cpu_s() - before_s
        print(f"  {'in all, with start':<22}{wall_s:7.1f} s{cpu_s:7.1f} s", flush=True)
    # As in a run: the collector does not walk all that is loaded again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 10, 1_000_000_000)
    print("the closed loop and its timers alone:")
    for lanes in TIMER_LANES:
        requests, used_us = min((timers(lanes) for _ in range(TIMER_RUNS)), key=lambda r: r[1])
        print(f"{lanes:>5} lanes: {requests:>7,} requests, {used_us:6.1f} us of CPU each")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["hour", traces, lanes, run]:
            hour(Path(traces), int(lanes), Path(run))
        case ["report", run]:
            report(Path(run))
        case [traces]:
            main(Path(traces))
        case _:
            raise SystemExit("python benchmarks/virtual_scale.py TRACES")

"""A client that cannot keep up says so itself: the point is not valid, and the reason is it."""

from functools import partial
from pathlib import Path

import pytest
from hdrh.log import HistogramLogReader
from recording_endpoint import Orders, RecordingEndpoint
from screens import BlankScreen

from agentx_replay.analysis.facts import Conduct, Rules
from agentx_replay.analysis.point import Point, PointFacts
from agentx_replay.experiment.interrupts import Interrupts
from agentx_replay.experiment.level import run_level
from agentx_replay.experiment.part import Part
from agentx_replay.experiment.prompting import Prompting, wording_of
from agentx_replay.experiment.sessions import SessionSource
from agentx_replay.experiment.settings import Target
from agentx_replay.plan.plan import GraphLibrary, Plan
from agentx_replay.prompts.calibration import assumed
from agentx_replay.replay.driver import Progress
from agentx_replay.replay.instrument import ClientLoad
from agentx_replay.results.histograms import new_histogram
from agentx_replay.results.layout import latency_log
from agentx_replay.results.recent import Snapshot
from agentx_replay.results.run_directory import RunDirectory, read_points
from agentx_replay.scenario import load_scenario

SCENARIO = load_scenario("quick").override(
    window_s=3.0, grace_s=2.0, warmup_requests=1, primer_lead_s=0.1
)


class Seen(BlankScreen):
    """A screen that keeps what it was shown of the client."""

    def __init__(self) -> None:
        self.loads: list[ClientLoad] = []

    def show(self, progress: Progress, recent: Snapshot, load: ClientLoad) -> None:
        self.loads.append(load)


def measured(tmp_path: Path, traces: Path, busy_s: float, workers: int) -> tuple[Point, Seen]:
    notes = tmp_path / "notes"
    notes.mkdir()
    source = SessionSource(traces, False, None, "session", None)
    corpus, selection = source.read()
    calibration = assumed("test", "chat")
    open_endpoint = partial(RecordingEndpoint, Orders(notes, busy_s=busy_s))
    part = Part(
        plan=Plan(SCENARIO, corpus.fingerprint, GraphLibrary(selection, SCENARIO), 4),
        source=source,
        prompting=Prompting(
            wording_of(calibration, chat=True), calibration.cost, "salt", "session"
        ),
        attempt=0,
        run_id="r",
        open=open_endpoint,
        workers=workers,
    )
    rules = Rules("quick", comparable=False, window_s=SCENARIO.window_s)
    facts = PointFacts(4, None, None, rules, Conduct())
    target = Target(open=open_endpoint, facts={})
    seen = Seen()
    run = RunDirectory.create(tmp_path / "run")
    run.write_sweep({})
    return run_level(part, facts, 1, target, run, seen, Interrupts(seen.say)), seen


@pytest.mark.parametrize("workers", [1, 2])
def test_a_client_whose_loop_is_blocked_makes_its_point_invalid(
    tmp_path: Path, small_traces: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    tests = Path(__file__).resolve().parents[1]
    monkeypatch.setenv("PYTHONPATH", f"{tests.parent}:{tests}")
    # Of every 0.32 s the loop is blocked for 0.12 s, far longer than a whole response takes.
    point, seen = measured(tmp_path, small_traces, busy_s=0.12, workers=workers)
    assert not point.valid
    assert point.has("client-stamps-late")
    assert point.has("client-sends-late")
    assert point.instrument is not None
    assert point.instrument.loop_lag_p99_s is not None
    assert point.instrument.loop_lag_p99_s > 0.05
    assert max(load.loop_lag_p99_ns for load in seen.loads) > 50e6
    (stored,) = read_points(tmp_path / "run")
    assert set(stored.instrument()["worker"].to_pylist()) == set(range(workers))
    # A block of 120 ms delays the timer that is due within its first 10 by over 100.
    assert longest_loop_lag_ns(latency_log(stored.directory)) > 100e6


def longest_loop_lag_ns(path: Path) -> int:
    """The longest loop lag in a histogram log."""
    log = HistogramLogReader(str(path), new_histogram())
    longest_ns = 0
    while (histogram := log.get_next_interval_histogram()) is not None:
        if histogram.get_tag() == "loop_lag":
            longest_ns = max(longest_ns, histogram.get_max_value())
    log.close()
    return longest_ns

"""Killed with SIGKILL at a random moment: what is on disk opens, and says how far it came."""

import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from command_line import finished
from crash_runs import Doom, Left, killed_runs, simulator
from small_corpus import corpus, request, session

from agentx_replay.results.layout import Measurement, point_directory
from agentx_replay.results.run_directory import read_points
from agentx_replay.results.server_metrics import read_server_metrics

WORKER = Doom("worker", 2)
PARENT = Doom("parent", 2, ("--live-history",), parts=1)
ALONE = Doom("parent", 1, parts=2)
"""Killed last. Its second part of samples has the window in it."""
PROMISE_S = 5.0
SLACK_S = 3.0
"""A part is begun every 4 s; on a disk and cores that others use too, writing it may take long."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """The killed runs, and the recorded sessions that they replayed."""

    worker: Left
    parent: Left
    alone: Left
    traces: Path

    @property
    def all(self) -> tuple[Left, ...]:
        return self.worker, self.parent, self.alone


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory, small_traces: Path) -> Crashed:
    place = tmp_path_factory.mktemp("crashes")
    traces = shutil.copytree(small_traces, place / "traces")
    runs = (WORKER, PARENT, ALONE)
    with simulator() as url:
        worker, parent, alone = killed_runs(url, place, runs, traces, random.Random())
    return Crashed(worker, parent, alone, traces)


def test_every_response_that_ended_some_seconds_before_is_on_disk(crashed: Crashed) -> None:
    assert crashed.alone.on_disk > 0
    assert all(run.lost_s < PROMISE_S + SLACK_S for run in crashed.all), crashed


def test_the_point_says_that_it_did_not_finish_and_can_be_reported(crashed: Crashed) -> None:
    for run in crashed.all:
        by_parent = run.doom.victim == "parent"
        assert run.status == ("running" if by_parent else "failed")
        assert run.reported["status"] == run.status
        assert run.reported["valid"] is False
        codes = [finding["code"] for finding in run.reported["findings"]]
        assert ("not-finished" if by_parent else "worker-died") in codes


def test_nothing_of_a_killed_run_goes_on(crashed: Crashed) -> None:
    assert [run.orphans for run in crashed.all] == [0, 0, 0]


def test_samples_of_server_and_client_are_on_disk_and_on_the_page(crashed: Crashed) -> None:
    out = crashed.alone.out
    (stored,) = read_points(out)
    server, client = read_server_metrics(point_directory(out, Measurement(4))), stored.instrument()
    assert "vllm:kv_cache_usage_perc" in server["name"].to_pylist()
    for table in (server, client):
        at_s = table["at_ns"].to_numpy() / 1e9
        assert at_s.max() - at_s.min() > 4  # more than the first part holds
    page = (out / "report.html").read_text()
    assert "<h4>KV cache " in page
    assert "<h4>The client&#x27;s own lag</h4>" in page


# --- fidelity that is told late, from records and recorded sessions ------------------------------


def reported(out: Path) -> str:
    done = finished("report", out)
    assert (done.returncode, done.stderr) == (1, "")
    return " ".join(done.stdout.split())


def test_a_killed_run_tells_what_it_kept(crashed: Crashed) -> None:
    said = reported(crashed.alone.out)
    assert "replay exact" in said
    assert "not kept" not in said
    assert "[late-" not in said
    assert "plays alive" in (crashed.alone.out / "report.html").read_text()


def test_a_killed_run_with_live_history_compares_no_prefixes(crashed: Crashed) -> None:
    said = reported(crashed.parent.out)
    assert "replay exact" in said
    assert "not kept" not in said
    page = (crashed.parent.out / "report.html").read_text()
    assert re.search(r"fed back: \d+ of \d+", page)


@pytest.fixture
def moved(crashed: Crashed, tmp_path: Path) -> Iterator[Path]:
    """Where the sessions were that the runs replayed, moved away until the test is over."""
    crashed.traces.rename(tmp_path / "traces")
    yield crashed.traces
    shutil.rmtree(crashed.traces, ignore_errors=True)
    (tmp_path / "traces").rename(crashed.traces)


def test_without_its_recorded_sessions_or_with_others_it_says_why_there_is_none(
    crashed: Crashed, moved: Path
) -> None:
    said = reported(crashed.alone.out)
    assert f" {moved} cannot be read" in said
    assert "[late-sessions-changed]" in said
    assert "replay exact" not in said
    corpus(moved, session("s0", request(0, range(10)), request(2, range(11))))
    said = reported(crashed.alone.out)
    assert "[late-sessions-changed]" in said
    assert "cannot be read" not in said


@pytest.mark.parametrize(
    ("file", "change", "code"),
    [
        ("sweep.json", {"source": {}}, "late-settings-unknown"),
        ("sweep.json", {"source__max_sessions": 0}, "late-settings-unknown"),
        ("sweep.json", {"scenario__start_fraction": [1.5, 0.5]}, "late-settings-unknown"),
        ("sweep.json", {"scenario": {"name": "old", "unknown": 1}}, "late-settings-unknown"),
        ("c0004/point.json", {"plan_fingerprint": "0" * 16}, "late-plan-differs"),
    ],
)
def test_a_run_of_another_version_or_with_another_plan_has_none(
    crashed: Crashed, tmp_path: Path, file: str, change: dict[str, object], code: str
) -> None:
    out = shutil.copytree(crashed.alone.out, tmp_path / "out")
    document = orjson.loads((out / file).read_bytes())
    for name, value in change.items():
        part, _, field = name.partition("__")
        document[part] = document[part] | {field: value} if field else value
    (out / file).write_bytes(orjson.dumps(document))
    assert f"[{code}]" in reported(out)

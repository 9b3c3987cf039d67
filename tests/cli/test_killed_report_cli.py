"""The fidelity report of a run that was cut short: a killed one's is made from its records and its
recorded sessions, an interrupted one's was made before it ended.
"""

import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from command_line import SHORT, finished, started
from small_corpus import corpus, request, session

from agentx_replay.results.run_directory import read_points


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, slow_server: str) -> Path:
    """A directory with the sessions ``traces`` and the killed run ``out``."""
    place = tmp_path_factory.mktemp("killed")
    assert ended_by(signal.SIGKILL, place, "--url", slow_server) == -signal.SIGKILL
    return place


def ended_by(number: signal.Signals, place: Path, *more: str) -> int:
    """Run in ``place`` until a signal ends it in its window; return the exit code."""
    turns = [request(2 * n, range(10 + n), out=4) for n in range(100)]
    corpus(place / "traces", *(session(f"s{n}", *turns) for n in range(3)))
    out = place / "out"
    arguments = (
        "run", "--traces", str(place / "traces"), "--concurrency", "3", "--workers", "1",
        "--override", "window_s=600", *SHORT, "--out", str(out), *more,
    )  # fmt: skip
    with started(place, *arguments) as command:
        command.wait_until_it_says("c=3 window")
        command.wait_until(lambda: _window_requests(out) > 0)
        command.signal(number)
        return command.ended()


def _window_requests(out: Path) -> int:
    (point,) = read_points(out)
    return int(point.requests(("phase",))["phase"].to_pylist().count("window"))


def reported(out: Path) -> str:
    done = finished("report", str(out))
    assert (done.returncode, done.stderr) == (1, "")
    return " ".join(done.stdout.split())


def codes(out: Path) -> list[str]:
    """The codes of the findings on the run's one point."""
    (point,) = orjson.loads(finished("report", str(out), "--json").stdout)["points"]
    return [finding["code"] for finding in point["findings"]]


def test_a_killed_run_tells_what_it_kept(killed: Path) -> None:
    said = reported(killed / "out")
    assert "replay exact" in said
    assert "no fidelity report" not in said
    assert "not kept" not in said
    assert "not-finished" in codes(killed / "out")
    assert "plays alive" in (killed / "out" / "report.html").read_text()


def test_a_killed_run_with_live_history_compares_no_prefixes(
    tmp_path: Path, slow_server: str
) -> None:
    assert (
        ended_by(signal.SIGKILL, tmp_path, "--url", slow_server, "--live-history")
        == -signal.SIGKILL
    )
    said = reported(tmp_path / "out")
    assert "replay exact" in said
    assert "not kept" not in said
    page = (tmp_path / "out" / "report.html").read_text()
    assert re.search(r"fed back: \d+ of \d+", page)


def test_an_interrupted_run_tells_what_it_kept_without_its_sessions(
    tmp_path: Path, slow_server: str
) -> None:
    assert ended_by(signal.SIGINT, tmp_path, "--url", slow_server) == 130
    shutil.rmtree(tmp_path / "traces")
    said = reported(tmp_path / "out")
    assert "replay exact" in said
    assert "not kept" not in said


@pytest.fixture
def moved(killed: Path, tmp_path: Path) -> Iterator[Path]:
    """The same run, its sessions moved away until the test is over."""
    (killed / "traces").rename(tmp_path / "traces")
    yield killed
    shutil.rmtree(killed / "traces", ignore_errors=True)
    (tmp_path / "traces").rename(killed / "traces")


def test_without_its_recorded_sessions_it_says_why_there_is_none(moved: Path) -> None:
    said = reported(moved / "out")
    assert f" {moved / 'traces'} cannot be read" in said
    assert "[late-sessions-changed]" in said
    assert "isolation kept" not in said


def test_with_other_sessions_in_their_place_it_says_so(moved: Path) -> None:
    corpus(moved / "traces", session("s0", request(0, range(10)), request(2, range(11))))
    said = reported(moved / "out")
    assert "[late-sessions-changed]" in said
    assert "cannot be read" not in said


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"source": {}}, "[late-source-unknown]"),
        ({"source__max_sessions": 0}, "[late-source-unknown]"),
        ({"scenario__start_fraction": [1.5, 0.5]}, "[late-rules-unknown]"),
        ({"scenario": {"name": "old", "unknown": 1}}, "[late-rules-unknown]"),
    ],
)
def test_a_run_of_another_version_has_none(
    killed: Path, tmp_path: Path, change: dict[str, object], told: str
) -> None:
    out = tmp_path / "out"
    shutil.copytree(killed / "out", out)
    document = orjson.loads((out / "sweep.json").read_bytes())
    for name, value in change.items():
        part, _, field = name.partition("__")
        document[part] = document[part] | {field: value} if field else value
    (out / "sweep.json").write_bytes(orjson.dumps(document))
    assert told in reported(out)


def test_a_plan_that_is_made_otherwise_now_gives_none(killed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(killed / "out", out)
    point = out / "c0003" / "point.json"
    document = orjson.loads(point.read_bytes()) | {"plan_fingerprint": "0" * 16}
    point.write_bytes(orjson.dumps(document))
    assert "[late-plan-differs]" in reported(out)

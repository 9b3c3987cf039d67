"""``sweep --resume``: what is complete stands, the rest begins again, nothing is thrown away."""

import json
import shlex
import shutil
from pathlib import Path

import orjson
import pytest
from command_line import finished, refusal, told

from agentx_replay.results.layout import point_file
from agentx_replay.results.run_directory import read_json, read_points, read_sweep
from agentx_replay.results.schema import REQUESTS

SWEEP = ("sweep", "--concurrency", "2,4", "--resume")


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory, small_traces: Path) -> Path:
    """A run of two levels, both complete."""
    out = tmp_path_factory.mktemp("whole") / "out"
    rules = ("--virtual", "--traces", small_traces, "--override", "window_s=4")
    assert finished("sweep", "--concurrency", "2,4", *rules, "--out", out).returncode == 0
    return out


@pytest.fixture
def killed_run(whole_run: Path, tmp_path: Path) -> Path:
    """The same whose second level says that it runs: its process is gone."""
    out = shutil.copytree(whole_run, tmp_path / "out")
    point = out / "c0004" / "point.json"
    document = orjson.loads(point.read_bytes())
    point.write_bytes(orjson.dumps(document | {"status": "running"}))
    return out


def files_of(level: Path) -> dict[str, bytes]:
    return {str(f.relative_to(level)): f.read_bytes() for f in level.rglob("*") if f.is_file()}


def test_it_says_what_becomes_of_each_level(killed_run: Path) -> None:
    said = finished("sweep", "--resume", "-c", "2,3", "--json", "--out", killed_run).stderr
    for fate in (
        "2 agents: complete, kept",
        "3 agents: added to the run",
        "4 agents: interrupted before, not asked for now",
    ):
        assert f"\n  {fate}" in said


def test_another_option_is_told_before_its_effect(whole_run: Path) -> None:
    less = refusal("sweep", "--resume", "--max-context", "1", "--out", whole_run)
    assert "--max-context was not given and is 1 [resume-differs]" in less


def test_complete_levels_are_kept_and_the_rest_are_begun_again(killed_run: Path) -> None:
    kept, unfinished = files_of(killed_run / "c0002"), files_of(killed_run / "c0004")
    salt = read_sweep(killed_run)["salt"]
    result = finished(*SWEEP, "--json", "--out", killed_run)
    assert result.returncode == 0, result.stderr
    assert "2 agents: complete, kept" in result.stderr
    assert [point["concurrency"] for point in json.loads(result.stdout)["points"]] == [2, 4]
    assert files_of(killed_run / "c0002") == kept
    assert files_of(killed_run / "unfinished" / "c0004.attempt-0") == unfinished
    two, four = read_points(killed_run)
    assert (str(two.status), str(four.status)) == ("complete", "complete")
    assert (two.document["attempt"], four.document["attempt"]) == (0, 1)
    assert read_sweep(killed_run)["salt"] == salt
    assert len(read_sweep(killed_run)["resumed"]) == 1
    # An attempt again has ids of its own, and both can be read.
    before = killed_run / "unfinished" / "c0004.attempt-0"
    assert four.document["run_id"] == read_json(point_file(before))["run_id"] + "-a1"
    sent_before = set(REQUESTS.read(before, ("request_id",))["request_id"].to_pylist())
    sent_again = set(four.requests(("request_id",))["request_id"].to_pylist())
    assert len(sent_before) > 0
    assert len(sent_again) > 0
    assert not sent_before & sent_again


def test_a_resumption_may_add_levels_and_needs_none_named(killed_run: Path) -> None:
    out = str(killed_run)
    options = ("sweep", "--resume", "--out", out)
    assert finished(*options).returncode == 0
    assert finished(*options, "--concurrency", "1").returncode == 0
    assert [point.concurrency for point in read_points(killed_run)] == [1, 2, 4]
    assert read_sweep(killed_run)["levels"] == [1, 2, 4]


def test_a_resumption_may_add_starts_and_goes_on_with_those_of_before(killed_run: Path) -> None:
    options = ("sweep", "--resume")
    result = finished(*options, "--starts", "2", "--out", str(killed_run))
    assert result.returncode == 0, result.stderr
    again = killed_run / "c0004-s2" / "point.json"
    again.write_bytes(again.read_bytes().replace(b'"complete"', b'"running"'))
    kept = files_of(killed_run / "c0002-s2")
    result = finished(*options, "--out", str(killed_run))
    assert result.returncode == 0, result.stderr
    assert "2 agents (start 2): complete, kept" in result.stderr
    assert files_of(killed_run / "c0002-s2") == kept
    points = read_points(killed_run)
    assert [(str(point.measurement), point.document["attempt"]) for point in points] == [
        ("2", 0), ("2-s2", 1), ("4", 1), ("4-s2", 2),
    ]  # fmt: skip
    assert points[3].document["run_id"].endswith("-s2-a2")


def test_a_run_that_has_changed_is_refused_and_left_as_it_is(killed_run: Path) -> None:
    before = files_of(killed_run)
    changed = (*SWEEP, "--override", "seed=7", "--out", str(killed_run))
    said = refusal(*changed)
    assert "[resume-differs]" in said
    assert "--override" in said
    assert files_of(killed_run) == before
    assert finished(*changed, "--override").returncode == 0
    (again,) = read_sweep(killed_run)["resumed"]
    (difference,) = again["differences"]
    assert difference.endswith(" seed was 42 and is 7")


def test_a_kept_level_keeps_its_plan_and_no_other_is_told(killed_run: Path) -> None:
    changed = (*SWEEP, "--override", "seed=7", "--out", str(killed_run), "--override")
    two = read_sweep(killed_run)["plans"]["2"]
    for _ in ("the second level is run", "both are complete"):
        done = finished(*changed)
        assert done.returncode == 0
        assert "2 agents: plan" not in done.stderr
        points = read_points(killed_run)
        plans = {str(each.concurrency): each.document["plan_fingerprint"] for each in points}
        assert plans["2"] == two
        assert read_sweep(killed_run)["plans"] == plans
    assert ": plan" not in done.stderr


def test_the_command_that_a_refusal_names_goes_on(killed_run: Path) -> None:
    said = refusal("sweep", "--resume", "--gpus", "2", "--out", str(killed_run))
    assert " --gpus was " in said
    _, name, *options = shlex.split(said.splitlines()[2])
    assert (name, *options) == ("sweep", "--resume", "--out", str(killed_run))
    before = read_sweep(killed_run)
    config = killed_run.parent / "targets.toml"
    config.write_text("at = [60, 70]")
    assert finished(name, *options, "--config", config).returncode == 0
    assert str(read_points(killed_run)[1].status) == "complete"
    after = read_sweep(killed_run)
    assert after["settings"] == before["settings"] | {"at": [60.0, 70.0]}
    at = told("report", killed_run)["curve"]["at"]
    assert [value["target"] for value in at] == [60.0, 70.0]
    for part in ("scenario", "levels", "starts", "salt", "target", "timestamps"):
        assert after[part] == before[part]


def test_a_secret_is_asked_again(killed_run: Path) -> None:
    file = killed_run / "sweep.json"
    document = read_sweep(killed_run)
    document["settings"]["header"] = ["Cookie: ***"]
    file.write_bytes(orjson.dumps(document))
    resume = ("sweep", "--resume", "--out", str(killed_run))
    said = refusal(*resume)
    assert "[resume-without-secret]" in said
    assert "--header" in said
    assert "[resume-differs]" in refusal(*resume, "--header", "Authorization: other")
    assert finished(*resume, "--header", "Cookie: chocolate").returncode == 0
    assert "chocolate" not in file.read_text()


def test_the_clock_of_arrivals_may_not_change(killed_run: Path) -> None:
    document = read_sweep(killed_run)
    (killed_run / "sweep.json").write_bytes(orjson.dumps(document | {"timestamps": "kernel"}))
    said = refusal("sweep", "--resume", "--out", str(killed_run))
    assert "[resume-differs]" in said
    assert " was kernel and is process" in said


def test_a_complete_level_that_is_not_valid_is_measured_again_on_demand(killed_run: Path) -> None:
    file = killed_run / "c0002" / "point.json"
    document = orjson.loads(file.read_bytes())
    document["facts"]["conduct"] |= {"failure": "refused", "failure_code": "warm-up-failed"}
    file.write_bytes(orjson.dumps(document))
    resume = ("sweep", "--resume", "--out", str(killed_run))
    assert finished(*resume).returncode == 1
    assert read_points(killed_run)[0].document["attempt"] == 0
    result = finished(*resume, "--again")
    assert result.returncode == 0, result.stderr
    two, four = read_points(killed_run)
    assert (two.document["attempt"], four.document["attempt"]) == (2, 1)
    assert (killed_run / "unfinished" / "c0002.attempt-0").is_dir()
    assert "[again-without-resume]" in refusal("sweep", "--again", "--virtual")


def test_there_must_be_a_run_to_resume(tmp_path: Path) -> None:
    assert "[not-a-run]" in refusal(*SWEEP, "--out", tmp_path / "typo")
    assert not (tmp_path / "typo").exists()
    assert "[resume-without-out]" in refusal(*SWEEP)

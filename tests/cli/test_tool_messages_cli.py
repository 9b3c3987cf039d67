"""``--tool-messages`` as a person meets it: exact, on record, another experiment, refused."""

import json
import shutil
from pathlib import Path

import duckdb
import pytest
from calibration_line import exact_by
from command_line import finished

BUILTIN_WORDS, BY = "1,234 built-in words", "counted by "
SHORT = ("--concurrency", "1", "--override", "window_s=1.0", "--override", "grace_s=5.0")


@pytest.fixture(scope="module")
def with_tools(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A run on the built-in simulator: its directory and what it said on both streams."""
    out = tmp_path_factory.mktemp("runs") / "tools"
    ended = finished("run", *SHORT, "--tool-messages", "--json", "--out", str(out))
    return out, ended.stdout, ended.stderr


def test_its_lengths_are_exact_and_say_of_what(with_tools: tuple[Path, str, str]) -> None:
    out, _, said = with_tools
    assert exact_by(said) == f"{BUILTIN_WORDS}, tool messages, {BY}/tokenize"
    errors = f"select distinct prompt_length_error from '{out}/*/requests*/*.parquet'"
    assert duckdb.execute(errors).fetchall() == [(0,)]


def test_it_is_on_record_and_not_comparable_by_name(with_tools: tuple[Path, str, str]) -> None:
    out, told, _ = with_tools
    sweep = json.loads((out / "sweep.json").read_text())
    assert sweep["tool_messages"] is True
    assert sweep["calibration"]["cost"]["tool_messages"] is True
    (point,) = json.loads(told)["points"]
    assert "tool-messages" in [each["code"] for each in point["findings"]]


def test_its_calibration_serves_no_plain_run(
    with_tools: tuple[Path, str, str], tmp_path: Path
) -> None:
    file = str(with_tools[0] / "calibration.json")
    ended = finished("run", *SHORT, "--calibration", file, "--out", str(tmp_path / "never"))
    assert ended.returncode == 2
    assert "[calibration-of-other-messages]" in ended.stderr


def test_a_run_that_sent_them_goes_on_sending_them(with_tools: tuple[Path, str, str]) -> None:
    resume = ("sweep", "--resume", "--out", str(with_tools[0]))
    ended = finished(*resume)
    assert exact_by(ended.stderr) == f"{BUILTIN_WORDS}, tool messages, {BY}/tokenize"
    assert "[live-history-with-tool-messages]" in finished(*resume, "--live-history").stderr


def test_on_record_they_are_left_out_and_the_server_is_calibrated_anew(
    with_tools: tuple[Path, str, str], tmp_path: Path
) -> None:
    out = shutil.copytree(with_tools[0], tmp_path / "mixed")
    (tmp_path / "plain.toml").write_text("tool-messages = false")
    resume = ("sweep", "--resume", "--out", str(out), "--config", str(tmp_path / "plain.toml"))
    refused = finished(*resume, "--concurrency", "2")
    assert "[resume-differs]" in refused.stderr
    assert "[calibration-of-other" not in refused.stderr
    ended = finished(*resume, "--concurrency", "2", "--override")
    assert exact_by(ended.stderr) == f"{BUILTIN_WORDS}, {BY}/tokenize"
    *_, again = json.loads((out / "sweep.json").read_text())["resumed"]
    assert again["differences"][-1] == "--tool-messages was True and is False"


def test_completions_have_no_messages(tmp_path: Path) -> None:
    asked = ("--tool-messages", "--endpoint", "completions")
    ended = finished("run", *SHORT, *asked, "--out", str(tmp_path / "never"))
    assert ended.returncode == 2
    assert "[tool-messages-without-chat]" in ended.stderr


def test_without_a_wire_their_cost_is_assumed_and_the_same_plan_is_played(tmp_path: Path) -> None:
    out = tmp_path / "virtual"
    ended = finished("run", *SHORT, "--virtual", "--tool-messages", "--json", "--out", str(out))
    assert f"({BUILTIN_WORDS}, tool messages)" in ended.stderr
    calibration = json.loads((out / "sweep.json").read_text())["calibration"]
    assert calibration["verification"]["probes"] == 0
    (point,) = json.loads(ended.stdout)["points"]
    assert "--tool-messages" in point["incomparable_reasons"]


def test_a_plan_says_it(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text("tool-messages = true")
    told = json.loads(finished("plan", "--config", str(config), "--json").stdout)
    assert told["tool_messages"] is True
    assert "tool calls" in finished("plan", "--tool-messages").stdout

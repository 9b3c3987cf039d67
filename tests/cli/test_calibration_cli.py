"""Calibration as a person meets it: its line, its file, its reuse, its refusals."""

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from calibration_line import exact_by
from command_line import finished

SHORT = ("--concurrency", "1", "--override", "window_s=1.0", "--override", "grace_s=5.0")
BUILTIN_WORDS = "1,234 built-in words, counted by "


def run(*arguments: str) -> CompletedProcess[str]:
    return finished("run", *arguments)


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("runs") / "first"
    return out, run(*SHORT, "--out", str(out)).stderr


def test_a_run_says_in_one_line_that_lengths_are_exact(first_run: tuple[Path, str]) -> None:
    _, said = first_run
    assert exact_by(said) == BUILTIN_WORDS + "/tokenize"


def test_a_run_keeps_its_calibration_whole_and_the_sweep_its_numbers(
    first_run: tuple[Path, str],
) -> None:
    out, _ = first_run
    whole = json.loads((out / "calibration.json").read_text())
    summary = json.loads((out / "sweep.json").read_text())["calibration"]
    assert len(whole["words"]) == summary["words"] == 1_234
    assert whole["cost"] == summary["cost"]
    proven = summary["verification"]
    assert proven["exact"] == proven["probes"] >= 8


def test_a_calibration_is_used_again(first_run: tuple[Path, str], tmp_path: Path) -> None:
    file = first_run[0] / "calibration.json"
    said = run(*SHORT, "--calibration", str(file), "--out", str(tmp_path / "again")).stderr
    assert exact_by(said) == BUILTIN_WORDS + "/tokenize"


def test_completions_are_calibrated_by_token_ids(tmp_path: Path) -> None:
    said = run(*SHORT, "--endpoint", "completions", "--out", str(tmp_path / "ids")).stderr
    assert exact_by(said) == BUILTIN_WORDS + "usage"
    assert len(json.loads((tmp_path / "ids" / "calibration.json").read_text())["ids"]) == 1_235


def test_without_a_wire_lengths_are_assumed_and_said_to_be(tmp_path: Path) -> None:
    said = run(*SHORT, "--virtual", "--out", str(tmp_path / "virtual")).stderr
    assert "(1,234 built-in words)\n" in said
    sweep = json.loads((tmp_path / "virtual" / "sweep.json").read_text())
    assert sweep["calibration"]["verification"]["probes"] == 0


def test_a_run_resumed_with_another_api_names_it_not_the_calibration_taken_along(
    first_run: tuple[Path, str],
) -> None:
    resume = ("--resume", "--out", str(first_run[0]))
    ended = finished("sweep", *SHORT, *resume, "--endpoint", "completions")
    assert ended.returncode == 2
    assert "[resume-differs]" in ended.stderr
    assert "[calibration-of-other" not in ended.stderr


def test_a_file_that_is_no_calibration_is_refused_in_two_sentences(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text("{}")
    ended = run(*SHORT, "--calibration", str(file), "--out", str(tmp_path / "never"))
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert "[not-a-calibration]" in ended.stderr

"""Facts of a system as a person gives them: on record, in place of options, refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import finished, refusal

from agentx_replay.results.run_directory import read_sweep


@pytest.fixture
def measured(tmp_path: Path, small_traces: Path) -> Any:
    """Measure one level in virtual time with more arguments; return what is on record."""

    def run(*more: object) -> dict[str, Any]:
        out = tmp_path / "out"
        level = ("run", "--virtual", "--concurrency", "2", "--traces", small_traces)
        done = finished(*level, "--out", out, *more)
        assert done.returncode in (0, 1), done.stderr
        return dict(read_sweep(out))

    return run


def test_facts_of_a_file_and_of_the_command_line_are_on_record(
    measured: Any, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('hw = "b300"\ngpus = 8\nlaunch = "x --api-key sk-1"\nsnapshot = 2026-10-09\n')
    sweep = measured("--system", file, "--fact", "tp=8", "--fact", "launch=y --hf-token hf-1")
    assert sweep["system"] == {
        "hw": "b300", "gpus": 8, "launch": "y --hf-token ***", "snapshot": "2026-10-09", "tp": 8,
    }  # fmt: skip
    assert (sweep["gpus"], sweep["command"][-1]) == (8, "launch=y --hf-token ***")
    assert not any(secret in json.dumps(sweep) for secret in ("sk-1", "hf-1"))


def test_facts_are_checked_before_anything_is_measured(tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    assert "[fact-unknown]" in refusal("run", "--virtual", *out, "--fact", "tpp=8")
    twice = ("--gpus", "4", "--fact", "gpus=8")
    assert "[gpus-contradicted]" in refusal("run", "--virtual", *out, *twice)
    bad = tmp_path / "bad.toml"
    bad.write_text("tp = \n")
    assert "[system-not-toml]" in refusal("run", "--virtual", *out, "--system", bad)
    assert "[file-unreadable]" in refusal("sweep", "--virtual", *out, "--system", tmp_path / "no")
    assert not (tmp_path / "out").exists()

"""A run directory is one process's, and its end, however it comes, frees it."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import ROOT, finished
from made_runs import Level, make_run
from refusals import refuses

from agentx_replay.results.run_directory import RunDirectory

HOLD = """
import sys
from pathlib import Path
from agentx_replay.results.run_directory import lock
lock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path) -> Iterator[None]:
    """A run directory that another process writes into."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_run_is_told_that_another_writes_there(tmp_path: Path, resume: bool) -> None:
    with held(tmp_path), refuses("run-locked") as raised:
        RunDirectory.create(tmp_path, resume=resume)
    assert str(tmp_path) in raised.value.what


def test_a_killed_run_blocks_nobody(tmp_path: Path) -> None:
    with held(tmp_path):
        pass
    RunDirectory.create(tmp_path, resume=True)


def test_what_was_only_locked_is_an_empty_directory(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path)
    RunDirectory.create(tmp_path)


def test_a_report_may_be_made_meanwhile(tmp_path: Path) -> None:
    made = make_run(tmp_path / "made", [Level(2, 60.0, 1000.0)])  # and locked by this process
    out = shutil.copytree(made, tmp_path / "out")
    with held(out):
        assert finished("report", str(out)).returncode == 0

"""What a command's own process is like, and what becomes of its standard streams."""

import gc
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ROOT, SHORT, all_shown

from agentx_replay.cli import loaded


def test_garbage_is_collected_once_all_is_loaded_but_not_sought_in_what_was() -> None:
    gc.disable()
    try:
        loaded()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_nowhere_to_print_to_is_no_traceback() -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "agentx_replay", "traces", "stats"],
            cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert (result.returncode, len(result.stderr.splitlines())) == (1, 1)
    assert result.stderr.startswith("agentx-replay: ")


def test_it_keeps_no_reserve_of_memory_for_arrow_and_no_interrupt_comes_after_its_end() -> None:
    program = (
        "import atexit, os, signal, sys; from agentx_replay.cli import main;"
        "sys.argv[1:] = ['--version']; atexit.register(os.kill, os.getpid(), signal.SIGINT);"
        "atexit.register(lambda: print(__import__('pyarrow').default_memory_pool().backend_name));"
        "main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[-1] == "system"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_what_is_opened_never_gets_the_number_of_a_standard_stream(closed: str) -> None:
    program = (
        "import os; from agentx_replay.cli import _open_missing_streams as open_missing;"
        "open_missing(); os._exit(os.open(os.devnull, os.O_RDONLY))"
    )
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", program]
    assert subprocess.call(command, cwd=ROOT, timeout=60) == 3


def test_a_command_started_without_standard_streams_runs(
    tmp_path: Path, small_traces: Path
) -> None:
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "agentx_replay", "run", "--traces", str(small_traces),
        "--concurrency", "1", "--override", "window_s=0.5", *SHORT, "--out", str(out),
    ]  # fmt: skip
    closed = 'exec "$@" <&- >&- 2>&-'
    code = subprocess.call(["sh", "-c", closed, "sh", *command], cwd=ROOT, timeout=60)
    assert code in (0, 1)  # of half a second it may be that no point is valid
    assert b'"complete"' in (out / "c0001" / "point.json").read_bytes()


def test_nothing_is_written_behind_a_levels_live_line(tmp_path: Path, small_traces: Path) -> None:
    leader, follower = pty.openpty()
    command = [
        sys.executable, "-m", "agentx_replay", "sweep", "--concurrency", "1,2", "--workers", "1",
        "--traces", str(small_traces), *SHORT, "--override", "window_s=1.0", "--override",
        "grace_s=5.0", "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower
    ):
        os.close(follower)
        text = all_shown(leader)
    os.close(leader)
    live = [line for line in text.split("\r\n") if "c=1 " in line or "c=2 " in line]
    assert live
    # Erased in place, again and again, and at the end: what follows begins an empty line.
    for line in live:
        shown = line.split("\r\x1b[K")
        assert not re.match(r"c=\d", shown[-1]), line
        assert all(re.match(r"c=\d ", each) for each in shown[:-1])

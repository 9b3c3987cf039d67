"""A run that is told to end: once, twice, by a person, by a machine, by a terminal that closes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ROOT, SHORT, finished, started, started_in_a_terminal

from agentx_replay.results.run_directory import read_points

LONG_RUN = (
    "run", "--concurrency", "4", "--workers", "1",
    "--override", "window_s=600", "--override", "grace_s=2", *SHORT,
)  # fmt: skip
IN_THE_WINDOW = "c=4 window"
INTERRUPTED = 130


def rows_and_status(out: Path) -> tuple[int, str]:
    """How many responses are on disk, and what the point says of itself."""
    (point,) = read_points(out)
    return len(point.requests(("request_id",))), str(point.status)


def reported(out: Path) -> dict[str, object]:
    """The one point of ``report --json``, which must work whatever happened."""
    result = finished("report", str(out), "--json")
    assert "Traceback" not in result.stderr
    (point,) = json.loads(result.stdout)["points"]
    assert isinstance(point, dict)
    return point


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_drains_writes_and_says_so(
    tmp_path: Path, slow_server: str, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    with started(tmp_path, *LONG_RUN, "--url", slow_server, "--out", str(out)) as command:
        command.wait_until_it_says(IN_THE_WINDOW)
        command.signal(number)
        assert command.ended() == INTERRUPTED
        assert "stopping: draining what is in flight" in command.said
        assert "Traceback" not in command.said
    rows, status = rows_and_status(out)
    assert rows > 0
    assert status == "interrupted"
    point = reported(out)
    assert (point["status"], point["valid"]) == ("interrupted", False)


def test_a_second_signal_leaves_at_once_and_what_is_on_disk_can_be_reported(
    tmp_path: Path, slow_server: str
) -> None:
    out = tmp_path / "out"
    long_run = (*LONG_RUN, "--override", "grace_s=600", "--url", slow_server)
    with started(tmp_path, *long_run, "--out", str(out)) as command:
        command.wait_until_it_says(IN_THE_WINDOW)
        command.signal(signal.SIGSTOP)  # so that both signals come before anything has drained
        command.signal(signal.SIGINT)
        command.signal(signal.SIGTERM)
        command.signal(signal.SIGCONT)
        assert command.ended() == INTERRUPTED
    assert rows_and_status(out)[1] == "running"
    point = reported(out)
    assert (point["status"], point["valid"]) == ("running", False)


def test_a_signal_in_the_warm_up_ends_it_at_once(tmp_path: Path, slow_server: str) -> None:
    out = tmp_path / "out"
    slow = ("--override", "primer_lead_s=300", "--url", slow_server)
    with started(tmp_path, *LONG_RUN, *slow, "--out", str(out)) as command:
        command.wait_until_it_says("c=4 warm-up")
        command.signal(signal.SIGINT)
        assert command.ended() == INTERRUPTED
    assert rows_and_status(out)[1] == "interrupted"


def test_a_simulated_plan_that_is_interrupted_prints_none(tmp_path: Path) -> None:
    simulate = ("plan", "--simulate", "--override", "window_s=1e6")
    with started(tmp_path, *simulate, TMPDIR=str(tmp_path)) as command:
        command.wait_until(lambda: any(tmp_path.glob("*/run/c*/point.json")))
        command.signal(signal.SIGINT)
        assert command.ended() == INTERRUPTED
        assert command.said.endswith("agentx-replay: interrupted.\n")
    assert (tmp_path / "stdout").read_text() == ""
    assert not any(tmp_path.glob("*/run"))


def test_a_terminal_that_closes_takes_the_screen_and_not_the_records(
    tmp_path: Path, slow_server: str
) -> None:
    out = tmp_path / "out"
    with started_in_a_terminal(*LONG_RUN, "--url", slow_server, "--out", str(out)) as terminal:
        terminal.wait_until_it_says(b"c=4 window")
        terminal.close()
        assert terminal.process.wait(60) == INTERRUPTED
    rows, status = rows_and_status(out)
    assert rows > 0
    assert status == "interrupted"
    assert reported(out)["status"] == "interrupted"


def test_a_reader_that_has_seen_enough_gets_no_traceback(tmp_path: Path) -> None:
    """As ``agentx-replay report DIR | head``: the pipe is closed before anything is printed."""
    out = tmp_path / "out"
    assert finished("run", "--virtual", "--out", str(out)).returncode == 0
    (out / "report.html").unlink()
    reader, writer = os.pipe()
    os.close(reader)
    with (tmp_path / "stderr").open("wb") as errors:
        code = subprocess.call(
            [sys.executable, "-m", "agentx_replay", "report", str(out)],
            cwd=ROOT,
            stdout=writer,
            stderr=errors,
        )
    os.close(writer)
    assert (code, (tmp_path / "stderr").read_bytes()) == (0, b"")
    assert (out / "report.html").exists()

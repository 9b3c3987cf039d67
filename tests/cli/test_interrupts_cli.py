"""Interrupted before the first level: at once, with an answer, and with nothing left half done."""

import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import ROOT, SHORT, Command, finished, started

from agentx_replay.results.run_directory import read_points

NOTHING = "interrupted before anything was measured"
INTERRUPTED = 130
ASKED_TO_END = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize(
    ("number", "imported"),
    [
        (signal.SIGINT, "agentx_replay.cli"),
        (signal.SIGTERM, "click.core"),
        (signal.SIGHUP, "numpy"),
        (signal.SIGINT, "pyarrow.lib"),
        (signal.SIGTERM, "pyarrow.lib"),
    ],
)
def test_while_it_is_still_loading(tmp_path: Path, number: signal.Signals, imported: str) -> None:
    out = tmp_path / "out"
    # Python tells of each import when it is done; after this one of ours begins ours to answer.
    with started(tmp_path, "run", "--out", str(out), PYTHONPROFILEIMPORTTIME="1") as command:
        command.wait_until_it_says(f" {imported}\n")
        command.signal(number)
        assert command.ended() == INTERRUPTED
        assert f"agentx-replay: {NOTHING}.\n" in command.said
        assert "Traceback" not in command.said
    assert not out.exists()


@pytest.mark.parametrize("number", ASKED_TO_END)
def test_while_the_server_does_not_answer(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with started(tmp_path, "run", "--url", url, "--out", str(out)) as command:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1)
                command.signal(number)
                assert command.ended() == INTERRUPTED
            assert NOTHING in command.said
            assert "[stopped-by-signal]" in command.said
            assert len(command.said.splitlines()) == 2
    assert not out.exists()


@pytest.mark.parametrize(
    ("command", "child"),
    [("run", "agentx_replay.simulator.server"), ("check", "agentx_replay.simulator.process")],
)
def test_while_the_simulator_starts_its_child_says_nothing(command: str, child: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "agentx_replay", command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    told = 0
    while told < 2:  # parent and child import it, and both tell of it here
        told += process.stderr.readline().endswith(f" {child}\n")
    # Stopped, so that the parent's end comes before the child has said that it is there.
    started_child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
    os.kill(started_child, signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    with ThreadPoolExecutor(1) as reader:  # a full pipe would keep the parent from ending
        reading = reader.submit(process.stderr.read)  # to the end of both
        try:
            assert process.wait(60) == INTERRUPTED
        finally:
            process.kill()
            with suppress(ProcessLookupError):
                os.kill(started_child, signal.SIGCONT)
    rest = reading.result()
    process.communicate()
    assert "agentx-replay: interrupted" in rest
    assert "Traceback" not in rest


def test_another_command_says_that_it_was_interrupted_and_no_more(tmp_path: Path) -> None:
    with started(tmp_path, "compare", "a", "b", PYTHONPROFILEIMPORTTIME="1") as command:
        command.wait_until_it_says(" numpy\n")
        command.signal(signal.SIGINT)
        assert command.ended() == INTERRUPTED
        assert "agentx-replay: interrupted.\n" in command.said


def test_a_hang_up_that_was_to_be_ignored_stays_ignored(tmp_path: Path, slow_server: str) -> None:
    """As under ``nohup``: one Ctrl-C after it is the first, and drains."""
    out = tmp_path / "out"
    errors = tmp_path / "stderr"
    run = (
        "run", "--concurrency", "4", "--workers", "1", "--override", "window_s=600",
        "--override", "grace_s=5", *SHORT, "--url", slow_server, "--out", str(out),
    )  # fmt: skip
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", sys.executable, "-m", "agentx_replay",
             *run],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
            start_new_session=True,
        )  # fmt: skip
    command = Command(process, errors)
    try:
        command.wait_until_it_says("c=4 window")
        # Stopped, so that both are there before either is seen.
        for number in (signal.SIGSTOP, signal.SIGHUP, signal.SIGINT, signal.SIGCONT):
            command.signal(number)
        assert command.ended() == INTERRUPTED
    finally:
        process.kill()
        process.wait()
    (point,) = read_points(out)
    assert str(point.status) == "interrupted"


def test_an_empty_path_in_a_config_is_wrong_usage_too(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('out = ""')
    ended = finished("run", "--config", str(tmp_path / "c.toml"))
    assert ended.returncode == 2
    assert "path is empty" in ended.stderr


def test_the_levels_an_interrupted_sweep_did_not_come_to_are_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sweep = (
        "sweep", "--concurrency", "4,8,16", "--workers", "1", "--override", "window_s=600",
        "--override", "grace_s=1", *SHORT, "--out", str(out), "--json",
    )  # fmt: skip
    with started(tmp_path, *sweep) as command:
        command.wait_until_it_says("c=4 window")
        command.signal(signal.SIGINT)
        assert command.ended() == INTERRUPTED
    told = json.loads((tmp_path / "stdout").read_text())
    assert told["not_measured"] == [
        {"concurrency": 8, "start": 1, "why": "not begun"},
        {"concurrency": 16, "start": 1, "why": "not begun"},
    ]
    again = finished("report", str(out))
    assert again.returncode == 1
    assert f"\nagentx-replay sweep --resume --out {out}\n" in again.stdout


def test_while_the_report_is_made_what_was_measured_is_named(tmp_path: Path) -> None:
    """Nothing of a report is loaded before there is something to report."""
    out = tmp_path / "out"
    run = ("run", "--virtual", "--concurrency", "2", "--out", str(out))
    with started(tmp_path, *run, PYTHONPROFILEIMPORTTIME="1") as command:
        command.wait_until_it_says(" agentx_replay.report.rebuild\n")
        command.signal(signal.SIGINT)
        assert command.ended() == INTERRUPTED
    assert "[stopped-by-signal]" in command.said
    assert command.said.endswith(f" agentx-replay report {out}.\n")
    (point,) = read_points(out)
    assert str(point.status) == "complete"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_what_is_opened_never_gets_the_number_of_a_standard_stream(closed: str) -> None:
    program = (
        "import os; from agentx_replay.cli import _open_missing_streams as open_missing;"
        "open_missing(); os._exit(os.open(os.devnull, os.O_RDONLY))"
    )
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", program]
    assert subprocess.call(command, cwd=ROOT, timeout=60) == 3


def test_a_command_started_without_standard_streams_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = ("run", "--concurrency", "1", "--override", "window_s=1", *SHORT, "--out", str(out))
    closed = 'exec "$@" <&- >&- 2>&-'
    code = subprocess.call(
        ["sh", "-c", closed, "sh", sys.executable, "-m", "agentx_replay", *run],
        cwd=ROOT,
        timeout=60,
    )
    assert code in (0, 1)  # of one second it may be that no point is valid
    (point,) = read_points(out)
    assert str(point.status) == "complete"


def test_when_all_is_said_an_interrupt_changes_nothing() -> None:
    program = (
        "import atexit, os, signal, sys; from agentx_replay.cli import main;"
        "sys.argv[1:] = ['--version']; atexit.register(os.kill, os.getpid(), signal.SIGINT); main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")

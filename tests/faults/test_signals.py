"""A run that is told to end: once, twice, by a person, by a machine, by a terminal that closes."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from command_line import ROOT, SHORT, Command, finished, started, started_in_a_terminal

from agentx_replay.cli import commands
from agentx_replay.results.run_directory import read_points

IN_THE_WINDOW = "c=4 window"
INTERRUPTED = 130


@pytest.fixture
def long_run(tmp_path: Path, small_traces: Path, slow_server: str) -> tuple[str, ...]:
    """A sweep whose first level does not end by itself, on sessions of its own, into ``out``."""
    traces = shutil.copytree(small_traces, tmp_path / "traces")
    return (
        "sweep", "--concurrency", "4,8", "--workers", "1", "--override", "window_s=600",
        "--override", "grace_s=2", *SHORT, "--traces", str(traces), "--url", slow_server,
        "--out", str(tmp_path / "out"),
    )  # fmt: skip


def kept(out: Path) -> tuple[str, bool]:
    """What the one level that was begun says of itself, and whether responses are on disk."""
    point = read_points(out)[0]
    return str(point.status), len(point.requests(("request_id",))) > 0


def test_one_signal_drains_writes_and_names_what_was_not_measured(
    tmp_path: Path, long_run: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    with started(tmp_path, *long_run, "--json") as command:
        command.wait_until_it_says(IN_THE_WINDOW)
        command.signal(signal.SIGTERM)
        assert command.ended() == INTERRUPTED
        assert "Traceback" not in command.said
    assert kept(out) == ("interrupted", True)
    told = json.loads((tmp_path / "stdout").read_text())
    (lacking,) = told["not_measured"]
    assert (lacking["concurrency"], lacking["start"]) == (8, 1)
    # A report needs no recorded sessions: what was replayed was checked when the run ended.
    shutil.rmtree(tmp_path / "traces")
    report = finished("report", out)
    assert report.returncode == 1
    assert f"--resume --out {out}\n" in report.stdout
    assert "[late-" not in report.stdout
    (point,) = told["points"]
    assert (point["status"], point["valid"]) == ("interrupted", False)
    assert read_points(out)[0].document["fidelity"]["conformity"]["requests"] > 0


def test_a_second_signal_leaves_at_once_and_what_is_on_disk_can_be_reported(
    tmp_path: Path, long_run: tuple[str, ...]
) -> None:
    with started(tmp_path, *long_run, "--override", "grace_s=600") as command:
        command.wait_until_it_says(IN_THE_WINDOW)
        both_at_once(command, signal.SIGINT, signal.SIGTERM)
        assert command.ended() == INTERRUPTED
    (point,) = json.loads(finished("report", tmp_path / "out", "--json").stdout)["points"]
    assert (point["status"], point["valid"]) == ("running", False)


def both_at_once(command: Command, *numbers: signal.Signals) -> None:
    """Send signals to a process that is stopped meanwhile, so that it sees all together."""
    for number in (signal.SIGSTOP, *numbers, signal.SIGCONT):
        command.signal(number)


def test_a_signal_in_the_warm_up_ends_it_at_once(tmp_path: Path, long_run: tuple[str, ...]) -> None:
    with started(tmp_path, *long_run, "--override", "primer_lead_s=300") as command:
        command.wait_until_it_says("c=4 warm-up")
        command.signal(signal.SIGINT)
        assert command.ended() == INTERRUPTED
    assert kept(tmp_path / "out")[0] == "interrupted"


def test_a_hang_up_that_was_to_be_ignored_stays_ignored(
    tmp_path: Path, long_run: tuple[str, ...]
) -> None:
    """As under ``nohup``: one Ctrl-C after it is the first, and drains."""
    errors = tmp_path / "stderr"
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", sys.executable, "-m", "agentx_replay",
             *long_run],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
            start_new_session=True,
        )  # fmt: skip
    command = Command(process, errors)
    try:
        command.wait_until_it_says(IN_THE_WINDOW)
        both_at_once(command, signal.SIGHUP, signal.SIGINT)
        assert command.ended() == INTERRUPTED
    finally:
        process.kill()
        process.wait()
    assert kept(tmp_path / "out")[0] == "interrupted"


def test_a_terminal_that_closes_takes_the_screen_and_not_the_records(
    tmp_path: Path, long_run: tuple[str, ...]
) -> None:
    with started_in_a_terminal(*long_run) as terminal:
        terminal.wait_until_it_says(IN_THE_WINDOW.encode())
        terminal.close()
        assert terminal.process.wait(60) == INTERRUPTED
    assert kept(tmp_path / "out") == ("interrupted", True)


def test_a_signal_while_a_dataclass_is_imported_is_an_exit_code_too(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        f"import sys; sys.path.append({str(ROOT)!r})\n"
        "from agentx_replay import cli\n"
        "from agentx_replay.cli import commands\n"
        "def command():\n"
        "    cli.loaded()\n"
        "    exec('import os; os.kill(os.getpid(), 15); sum(range(100_000))')\n"
        "commands.run_command_line = command\n"
        "cli.main()\n"
    )
    run = [sys.executable, "-m", "program"]
    assert subprocess.run(run, cwd=tmp_path, check=False, timeout=60).returncode == INTERRUPTED


def test_a_file_that_ends_too_soon_is_no_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: object) -> None:
        raise click.Abort from EOFError("marshal data too short")

    monkeypatch.setattr(commands, "cli", broken)
    with pytest.raises(EOFError, match="marshal"):
        commands.run_command_line()


def test_a_simulated_plan_that_is_interrupted_prints_none(
    tmp_path: Path, small_traces: Path
) -> None:
    simulate = ("plan", "--simulate", "--override", "window_s=1e6", "--traces", str(small_traces))
    with started(tmp_path, *simulate, TMPDIR=str(tmp_path)) as command:
        command.wait_until(lambda: any(tmp_path.glob("*/run/c*/point.json")))
        command.signal(signal.SIGINT)
        assert command.ended() == INTERRUPTED
        assert command.said.endswith("agentx-replay: interrupted.\n")
    assert (tmp_path / "stdout").read_text() == ""
    assert not any(tmp_path.glob("*/run"))


def test_a_reader_that_has_seen_enough_gets_no_traceback(
    tmp_path: Path, small_traces: Path
) -> None:
    """As ``agentx-replay report DIR | head``: the pipe is closed before anything is printed."""
    out = tmp_path / "out"
    run = ("run", "--virtual", "--concurrency", "2", "--override", "window_s=4", "--traces")
    assert finished(*run, small_traces, "--out", out).returncode == 0
    (out / "report.html").unlink()
    reader, writer = os.pipe()
    os.close(reader)
    report = subprocess.run(
        [sys.executable, "-m", "agentx_replay", "report", str(out)],
        cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (report.returncode, report.stderr) == (0, b"")
    assert (out / "report.html").exists()

"""Interrupted before the first level: at once, with an answer, and with nothing left half done."""

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import ROOT, started

from agentx_replay.results.run_directory import read_points

NOTHING = "agentx-replay: interrupted before anything was measured"
INTERRUPTED = 130


AT_AN_IMPORT = """
import os, sys
number, module = int(sys.argv.pop(1)), sys.argv.pop(1)

class Interrupter:
    def find_spec(self, name, path, target=None):
        if name == module:
            os.kill(os.getpid(), number)

sys.meta_path.insert(0, Interrupter())
from agentx_replay.cli import main
main()
"""
"""The command line, which gets a signal when it begins to load a module."""


def interrupted(number: signal.Signals, module: str, *command: object) -> str:
    """Run a command that is interrupted as it loads a module; return what it says of it."""
    ended = subprocess.run(
        [sys.executable, "-c", AT_AN_IMPORT, str(int(number)), module, *map(str, command)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (INTERRUPTED, ""), ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr


@pytest.mark.parametrize(
    ("number", "module", "command", "answer"),
    [
        (signal.SIGINT, "agentx_replay.cli.commands", "run", NOTHING),
        (signal.SIGTERM, "click.core", "compare", "agentx-replay: interrupted"),
        (signal.SIGHUP, "pyarrow.lib", "sweep", NOTHING),
    ],
)
def test_while_it_is_still_loading(
    number: signal.Signals, module: str, command: str, answer: str
) -> None:
    assert interrupted(number, module, command) == f"{answer}.\n"


def test_while_the_server_does_not_answer(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with started(tmp_path, "run", "--url", url, "--out", str(out)) as command:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1)
                command.signal(signal.SIGTERM)
                assert command.ended() == INTERRUPTED
            assert NOTHING in command.said
            assert "[stopped-by-signal]" in command.said
            assert len(command.said.splitlines()) == 2
    assert not out.exists()


def test_while_the_simulator_starts_its_child_says_nothing() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "agentx_replay", "run"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    told = 0
    while told < 2:  # parent and child import it, and both tell of it here
        told += process.stderr.readline().endswith(" agentx_replay.simulator.server\n")
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


def test_while_the_report_is_made_what_was_measured_is_named(
    tmp_path: Path, small_traces: Path
) -> None:
    """Nothing of a report is loaded before there is something to report."""
    out = tmp_path / "out"
    run = ("run", "--virtual", "--concurrency", "1", "--override", "window_s=1", "--traces")
    module = "agentx_replay.report.rebuild"
    said = interrupted(signal.SIGINT, module, *run, small_traces, "--out", out)
    assert "[stopped-by-signal]" in said
    assert said.endswith(f" agentx-replay report {out}.\n")
    (point,) = read_points(out)
    assert str(point.status) == "complete"

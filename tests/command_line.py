"""The command line as a person types it: in this process, where only what it prints, writes and
exits with matters; in a process of its own, where signals, pipes, terminals or start-up do.
"""

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from agentx_replay.cli.commands import run_command_line

ROOT = Path(__file__).resolve().parents[1]
_DEADLINE_S = 60.0
SHORT = ("--override", "warmup_requests=1", "--override", "primer_lead_s=0.1")
"""Rules that bring a run to its window in a second or two."""


@dataclass(slots=True)
class Command:
    """A running command. ``said`` is what it has written to standard error, to be read anew."""

    process: subprocess.Popen[bytes]
    errors: Path

    @property
    def said(self) -> str:
        return self.errors.read_text(errors="replace")

    def wait_until_it_says(self, text: str) -> None:
        """Return once standard error holds ``text``; the process must not end before."""
        self.wait_until(lambda: text in self.said)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return once it is so; the process must not end before."""
        deadline_s = time.monotonic() + _DEADLINE_S
        while not condition():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline_s, self.said
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Return the exit code."""
        return self.process.wait(_DEADLINE_S)


def _environment(extra: dict[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **extra}


@contextmanager
def started(directory: Path, *arguments: str, **environment: str) -> Iterator[Command]:
    """Start a command whose output goes to files in ``directory``; kill it at the end."""
    errors = directory / "stderr"
    with errors.open("wb") as stderr, (directory / "stdout").open("wb") as stdout:
        process = subprocess.Popen(
            [sys.executable, "-m", "agentx_replay", *arguments],
            env=_environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            yield Command(process, errors)
        finally:
            process.kill()
            process.wait()


@dataclass(slots=True)
class Terminal:
    """A command that has a terminal for its own."""

    process: subprocess.Popen[bytes]
    master: int
    said: bytes = b""

    def wait_until_it_says(self, text: bytes) -> None:
        """Return once the terminal has shown ``text``."""
        while text not in self.said:
            self.said += os.read(self.master, 65_536)

    def close(self) -> None:
        """Close the terminal as a person closes a window: the kernel hangs up."""
        os.close(self.master)


def all_shown(master: int) -> str:
    """Return what a terminal shows until nobody has it open for writing any more.

    One read may return a part: the kernel hands a terminal's bytes on in the background.
    """
    parts = []
    while True:
        try:
            part = os.read(master, 65_536)
        except OSError:  # how Linux tells a terminal's end
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode()


def _take_terminal() -> None:
    """Make standard input the controlling terminal: its end is then a hang-up."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def started_in_a_terminal(*arguments: str) -> Iterator[Terminal]:
    """Start a command as the leader of a session on a new terminal; kill it at the end."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "agentx_replay", *arguments],
        env=_environment({}),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()


class _CommandLine(click.Command):
    """The command line as ``CliRunner`` calls a command, with what we say of errors."""

    def __init__(self) -> None:
        super().__init__("agentx-replay")

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> Any:
        before = sys.argv, {number: signal.getsignal(number) for number in _HANDLED}
        sys.argv = ["agentx-replay", *(args or ())]
        try:
            run_command_line()
        finally:
            sys.argv, handlers = before
            for number, handler in handlers.items():
                signal.signal(number, handler)


_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def finished(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in this process. An exception that the command line does not
    handle, which a person would see as a traceback, is the test's.
    """
    words = [str(each) for each in arguments]
    ended = CliRunner().invoke(_CommandLine(), words, env=environment, catch_exceptions=False)
    return subprocess.CompletedProcess(words, ended.exit_code, ended.stdout, ended.stderr)


def told(*arguments: object, exit_code: int = 0) -> dict[str, Any]:
    """What a command says with ``--json``."""
    result = finished(*arguments, "--json")
    assert result.returncode == exit_code, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def refusal(*arguments: object, exit_code: int = 2) -> str:
    """Run what cannot be done; return what is said of it, all of which is on standard error, with
    its code as JSON on standard output where ``--json`` asks.
    """
    result = finished(*arguments)
    as_json = "--json" in arguments
    code = json.loads(result.stdout)["error"]["code"] if as_json else ""
    assert (result.returncode, bool(result.stdout)) == (exit_code, as_json), result.stderr
    assert code in result.stderr
    return result.stderr


def finished_alone(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "agentx_replay", *map(str, arguments)],
        env=_environment(environment),
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )

"""The simulator as a process: to serve in this one, or to start in a child of it.

A child answers on a port it chose, says so in one line, and ends when its parent does: its
standard input is a pipe that the parent holds open.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import IO, cast

import orjson
import uvloop

from agentx_replay.errors import UsageError
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.server import ServerConfig, running_server

_CLOSE_TIMEOUT_S = 5.0


def serve(config: ServerConfig, announce: Callable[[str], None], *, end_with_stdin: bool) -> None:
    """Serve until SIGINT or SIGTERM, or until standard input ends where that is asked for.

    ``announce`` is called with the URL once requests can come. Raises UsageError where the
    address cannot be had.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, announce, end_with_stdin=end_with_stdin))


async def _serve(
    config: ServerConfig, announce: Callable[[str], None], *, end_with_stdin: bool
) -> None:
    async with running_server(config) as running:
        await until_ended(partial(announce, running.url), end_with_stdin=end_with_stdin)


async def until_ended(announce: Callable[[], None], *, end_with_stdin: bool) -> None:
    """Announce that requests can come, and wait for the end as ``serve`` says."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if end_with_stdin:
        loop.add_reader(sys.stdin.fileno(), _stop_at_end_of_stdin, stop)
    announce()
    await stop.wait()


def _stop_at_end_of_stdin(stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop.set()


def say(**line: str) -> None:
    """Print the one line of a child: its URL, or what is wrong."""
    print(orjson.dumps(line).decode(), flush=True)


def config_from_json(text: str) -> ServerConfig:
    """Return the configuration that ``launch_simulator`` hands to its child."""
    values = orjson.loads(text)
    return ServerConfig(**{**values, "engine": EngineModel(**values["engine"])})


@dataclass(frozen=True, slots=True)
class SimulatorProcess:
    """A simulator in a child process. ``url`` has no path."""

    url: str
    pid: int
    process: subprocess.Popen[bytes]

    def close(self) -> None:
        """End it and wait for its end."""
        self.process.terminate()
        try:
            self.process.communicate(timeout=_CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()


def launch_simulator(config: ServerConfig) -> SimulatorProcess:
    """Start a simulator in a child process and return when it answers.

    Raises UsageError with what the child said where it could not start.
    """
    return launch("agentx_replay.simulator", orjson.dumps(asdict(config)).decode())


def launch(module: str, *arguments: str) -> SimulatorProcess:
    """Start a module as a child that serves, as ``launch_simulator`` does."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is the parent's to handle
    )
    said = orjson.loads(_first_line(process) or b"{}")
    if "url" in said:
        return SimulatorProcess(said["url"], process.pid, process)
    process.communicate()
    raise UsageError(
        said.get("code", "simulator-ended"),
        said.get("what", "the simulator ended before it could serve"),
        said.get("what_to_do", "see what it wrote to standard error"),
    )


def _first_line(process: "subprocess.Popen[bytes]") -> bytes:
    """Return what a child says first. It is ended where nobody waits for it any more: it would
    tell that nobody reads it, after its parent's last word.
    """
    try:
        return cast(IO[bytes], process.stdout).readline()
    except BaseException:
        process.kill()
        process.wait()
        raise

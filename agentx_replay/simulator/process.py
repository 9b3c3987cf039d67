"""The simulator as a process: to serve in this one, or to start in a child of it.

A child takes its configuration as JSON in its one argument, answers on a port it chose, says so in
one line, and ends when its parent does: its standard input is a pipe that the parent holds open.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from typing import IO, cast

import orjson
import uvloop

from agentx_replay.errors import UsageError
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.server import ServerConfig, running_server

_CLOSE_TIMEOUT_S = 5.0


def serve(config: ServerConfig, announce: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM. ``announce`` is called with the URL once requests can come.

    Raises UsageError where the address cannot be had.
    """
    uvloop.run(_serve(_simulator(config), announce))


@asynccontextmanager
async def _simulator(config: ServerConfig) -> AsyncIterator[str]:
    async with running_server(config) as running:
        yield running.url


def serve_as_child(server: AbstractAsyncContextManager[str]) -> None:
    """Serve while the context is open, which is the URL, at most until standard input ends. Print
    the URL as JSON, or what is wrong.
    """

    def say(**line: str) -> None:
        print(orjson.dumps(line).decode(), flush=True)

    try:
        uvloop.run(_serve(server, lambda url: say(url=url), end_with_stdin=True))
    except UsageError as error:
        say(code=error.code, what=error.what, what_to_do=error.what_to_do)
        sys.exit(error.exit_code)


async def _serve(
    server: AbstractAsyncContextManager[str],
    announce: Callable[[str], None],
    *,
    end_with_stdin: bool = False,
) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def read_stdin() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            loop.remove_reader(sys.stdin.fileno())
            stop.set()

    async with server as url:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        if end_with_stdin:
            loop.add_reader(sys.stdin.fileno(), read_stdin)
        announce(url)
        await stop.wait()


def config_from_json(text: str) -> ServerConfig:
    """Return the configuration that ``launch_simulator`` hands to its child."""
    values = orjson.loads(text)
    return ServerConfig(**{**values, "engine": EngineModel(**values["engine"])})


@dataclass(frozen=True, slots=True)
class SimulatorProcess:
    """A simulator in a child process. ``url`` has no path."""

    url: str
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
    return launch("agentx_replay.simulator.process", orjson.dumps(asdict(config)).decode())


def launch(module: str, *arguments: str) -> SimulatorProcess:
    """Start a module that calls ``serve_as_child``, as ``launch_simulator`` does."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is the parent's to handle
    )
    try:
        said = orjson.loads(cast(IO[bytes], process.stdout).readline() or b"{}")
    except BaseException:  # else it would complain, after its parent's last word, of a closed pipe
        process.kill()
        process.wait()
        raise
    if "url" in said:
        return SimulatorProcess(said["url"], process)
    process.communicate()
    raise UsageError(
        said.get("code", "simulator-ended"),
        said.get("what", "the simulator ended before it could serve"),
        said.get("what_to_do", "see what it wrote to standard error"),
    )


if __name__ == "__main__":
    serve_as_child(_simulator(config_from_json(sys.argv[1])))

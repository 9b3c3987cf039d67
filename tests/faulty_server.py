"""A simulator in a process of its own that breaks one response in a hundred.

    python tests/faulty_server.py

Prints its URL, serves until standard input ends, and tells at ``/truth`` what it sent.
"""

import asyncio
import itertools
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop
from faulty_answers import Act, Break, Fault, Point, Shape, faulty

from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.server import ServerConfig, running_server

SHARE = 0.01
UNHARMED = 3_000
"""Requests before the first fault: calibration and warm-up must not fail."""

CONFIG = ServerConfig(
    engine=EngineModel(step_base_ms=15.0, per_sequence_ms=0.0, max_running=2_000),
    truth_bytes=1 << 28,
)
FAULTS = (
    *(Fault(breaks=Break(Act.RESET, at)) for at in Point),
    *(Fault(breaks=Break(Act.CLOSE, at)) for at in Point),
    *(Fault(breaks=Break(Act.STALL, at, stall_s=2.0)) for at in Point),
    Fault(breaks=Break(Act.ERROR_OBJECT, Point.BETWEEN_EVENTS)),
    Fault(breaks=Break(Act.GARBAGE, Point.BETWEEN_EVENTS)),
    Fault(breaks=Break(Act.STATUS, Point.BEFORE_HEADERS, status=429)),
    Fault(breaks=Break(Act.STATUS, Point.BEFORE_HEADERS, status=503)),
    Fault(Shape(sheared=True, line_end="\r\n")),
    Fault(Shape(usage="every", events_per_write=3)),
)


class OneInAHundred:
    """Breaks requests at random, in every way in turn."""

    def __init__(self) -> None:
        self._rng = random.Random(8)
        self._faults = itertools.cycle(FAULTS)

    def on_request(self, number: int, body: bytes) -> Fault | None:
        """Break it, or not."""
        breaks = number >= UNHARMED and self._rng.random() < SHARE
        return next(self._faults) if breaks else None


async def _serve() -> None:
    async with running_server(CONFIG, hook=faulty(OneInAHundred())) as running:
        print(running.url, flush=True)
        end = asyncio.Event()
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), end.set)
        await end.wait()
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())


@contextmanager
def faulty_server() -> Iterator[str]:
    """Run the server in a child process while the context is open; its URL."""
    root = Path(__file__).resolve().parents[1]
    process = subprocess.Popen(
        [sys.executable, __file__],
        env={"PYTHONPATH": str(root), "PATH": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.communicate(timeout=20)


if __name__ == "__main__":
    uvloop.run(_serve())

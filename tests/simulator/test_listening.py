"""When a request was there: the kernel's stamp, not when the server looked."""

import asyncio
import socket
import struct
import time
from collections.abc import Iterator

import pytest
import uvloop
from raw_http import post

from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.http_connection import received_ns
from agentx_replay.simulator.server import RunningServer, ServerConfig, running_server

MS = 1_000_000
CONFIG = ServerConfig(engine=EngineModel(step_base_ms=1), truth_bytes=1_000_000)
BODY = {"messages": [{"role": "user", "content": "word"}], "max_tokens": 1}


async def received(running: RunningServer, requests: int) -> int:
    """When the server had the last of so many requests."""
    while len(told := running.server.truth.as_json()) < requests:
        await asyncio.sleep(0)
    stamp: int = told[-1]["received_ns"]
    return stamp


def stamps_are_to_be_had(listener: socket.socket) -> bool:
    """Whether the kernel stamps what this machine receives. While ``listener`` is open, it does."""
    try:
        listener.setsockopt(socket.SOL_SOCKET, 35, 1)
    except OSError:
        return False
    with socket.create_connection(listener.getsockname()) as client:
        accepted, _ = listener.accept()
        with accepted:
            for _ in range(100):  # the kernel begins to stamp a little later
                client.send(b"x")
                if accepted.recvmsg(1, 64)[1]:
                    return True
                time.sleep(0.01)
    return False


@pytest.fixture
def stamping() -> Iterator[None]:
    """The kernel stamps what comes from now on, or the test is skipped."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        if not stamps_are_to_be_had(listener):
            pytest.skip("this kernel gives no receive stamps")
        yield


@pytest.mark.usefixtures("stamping")
def test_a_request_counts_from_when_it_was_there_and_not_from_when_the_server_looked() -> None:
    async def main() -> list[tuple[int, int, int]]:
        found = []
        async with running_server(CONFIG) as running:
            with socket.create_connection(("127.0.0.1", running.port)) as client:
                for number in (1, 2):
                    sent_ns = time.monotonic_ns()
                    client.sendall(post("/v1/chat/completions", BODY))
                    time.sleep(0.1)  # the server's loop stands still, too
                    late_ns = time.monotonic_ns()
                    found.append((sent_ns, await received(running, number), late_ns))
        return found

    for sent_ns, stamp_ns, late_ns in uvloop.run(main()):
        assert (
            sent_ns - MS < stamp_ns < late_ns - 50 * MS
        )  # two clocks are read one after the other


def test_a_stamp_is_told_on_the_monotonic_clock_and_without_one_it_is_now() -> None:
    before_ns = time.monotonic_ns()
    second_ago_ns = time.time_ns() - 1000 * MS
    timespec = struct.pack("@qq", *divmod(second_ago_ns, 1000 * MS))
    stamped_ns = received_ns([(socket.SOL_SOCKET, 35, timespec)])
    unstamped_ns = received_ns([])
    after_ns = time.monotonic_ns()
    # Two clocks are read one after the other, and a busy machine may stop us in between.
    assert before_ns - 1200 * MS < stamped_ns < after_ns - 800 * MS
    assert before_ns <= unstamped_ns <= after_ns


def test_no_stamp_is_of_the_future() -> None:
    ahead_ns = time.time_ns() + 60_000 * MS
    timespec = struct.pack("@qq", *divmod(ahead_ns, 1000 * MS))
    assert received_ns([(socket.SOL_SOCKET, 35, timespec)]) <= time.monotonic_ns()

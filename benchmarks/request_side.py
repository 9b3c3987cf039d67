"""The request side: large bodies at a high rate, and what they do to the loop.

    python -m benchmarks.request_side [--rate 1000] [--seconds 5] [--write]

A server in a process of its own reads bodies and answers each with one token. First 300 KB bodies
at 1,000 a second on one core (goal: all of them, on time), then 1 MB bodies at 20 a second (goal:
the loop never stalls for more than 3 ms). Loop lag is sampled every ms; the same loop with
nothing to do is measured before, since a shared machine stalls idle loops too. ``--write``
replaces ``benchmarks/results/request_side.json``.
"""

import argparse
import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
import uvloop

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.requests import Requests
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.replay.clock import real_clock
from agentx_replay.replay.ports import Clock, Response, Status
from benchmarks.results_file import write_result

_T = TypeVar("_T")
Figures = dict[str, float]
MS = 1_000_000
STREAMS = 64
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
EVENTS = (
    b'data: {"choices":[{"index":0,"delta":{"content":" x"},"finish_reason":"length"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'
    b"data: [DONE]\n\n"
)
ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
    % len(EVENTS)
) + EVENTS


class Sink(asyncio.BufferedProtocol):
    """Counts a body's bytes and answers; keeps none of them."""

    def __init__(self) -> None:
        self._buffer = bytearray(1 << 20)
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - the protocol's signature
        """Read into the same place, always."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take a head, or a piece of a body."""
        if not self._left:
            head, _, rest = bytes(self._buffer[:nbytes]).partition(b"\r\n\r\n")
            found = LENGTH.search(head)
            assert found is not None
            self._left = int(found[1]) - len(rest)
        else:
            self._left -= nbytes
        if not self._left:
            self._transport.write(ANSWER)


async def sink() -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Sink, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    end = asyncio.Event()
    loop.add_reader(0, end.set)
    await end.wait()


@dataclass(slots=True)
class Lags:
    """How late 1 ms timers fired, and the CPU this process used between two of them, in ms.

    On a shared machine a timer is late for others' sake too; CPU is this process's alone.
    """

    clock: Clock
    late_ms: list[float]
    cpu_ms: list[float]
    due_ns: int = 0
    cpu_ns: int = 0
    over: bool = False

    def sample(self) -> None:
        """Take a sample and arm the next."""
        now_ns, cpu_ns = self.clock.now_ns(), time.process_time_ns()
        if self.due_ns:
            self.late_ms.append((now_ns - self.due_ns) / MS)
            self.cpu_ms.append((cpu_ns - self.cpu_ns) / MS)
        self.cpu_ns = cpu_ns
        if not self.over:
            self.due_ns = now_ns + MS
            self.clock.call_at(self.due_ns, self.sample)

    def figures(self) -> Figures:
        """The percentiles that matter."""
        p50, p99, p999 = np.percentile(self.late_ms, (50, 99, 99.9))
        return {
            "loop_lag_p50_ms": float(p50),
            "loop_lag_p99_ms": float(p99),
            "loop_lag_p99_9_ms": float(p999),
            "loop_lag_most_ms": max(self.late_ms),
            "cpu_between_timers_most_ms": max(self.cpu_ms),
        }


async def sampled(clock: Clock, work: Awaitable[_T]) -> tuple[_T, Lags, float]:
    """Await ``work`` with lags sampled; return its result, them and the share of a core used."""
    lags = Lags(clock, [], [])
    lags.sample()
    begun = time.process_time(), time.monotonic()
    result = await work
    share = (time.process_time() - begun[0]) / (time.monotonic() - begun[1])
    lags.over = True
    return result, lags, share


async def load(
    client: Client, clock: Clock, request: bytes, rate: float, seconds: float
) -> tuple[list[float], float]:
    """Send ``rate`` requests a second, each on an idle connection; return the send lags in ms and
    the rate reached.
    """
    loop = asyncio.get_running_loop()
    begun_ns, count = clock.now_ns() + 10 * MS, round(rate * seconds)
    idle = [str(stream) for stream in range(STREAMS)]
    tasks: list[asyncio.Task[Response]] = []
    all_sent: asyncio.Future[None] = loop.create_future()

    def due_ns(number: int) -> int:
        return begun_ns + round(number * 1e9 / rate)

    async def one(number: int) -> Response:
        stream = idle.pop() if idle else f"more-{number}"
        response = await client.request(stream, bytes(bytearray(request)))
        idle.append(stream)
        return response

    def send() -> None:
        tasks.append(loop.create_task(one(len(tasks))))
        if len(tasks) < count:
            clock.call_at(due_ns(len(tasks)), send)
        else:
            all_sent.set_result(None)

    clock.call_at(begun_ns, send)
    await all_sent
    responses = await asyncio.gather(*tasks)
    assert all(response.status is Status.OK for response in responses)
    span_s = (max(response.end_ns for response in responses) - begun_ns) / 1e9
    lags_ms = [(response.send_ns - due_ns(n)) / MS for n, response in enumerate(responses)]
    return lags_ms, count / span_s


def body_of(settings: EndpointSettings, size: int) -> bytes:
    """Return a request with a body of about ``size`` bytes."""
    words = b"word " * (size // 5)
    messages = b'[{"role":"user","content":"' + words + b'"}]'
    return Requests(settings).build({"X-Request-ID": "r"}, 1, messages)


async def measure(port: int, rate: float, seconds: float) -> dict[str, Figures]:
    """Measure an idle loop, then small and large bodies; return and print the figures of each."""
    settings = EndpointSettings(parse_base_url(f"http://127.0.0.1:{port}"), "m")
    found: dict[str, Figures] = {}
    with real_clock(asyncio.get_running_loop()) as clock:
        client = Client(settings)
        _, lags, _ = await sampled(clock, asyncio.sleep(seconds))
        found["nothing to do"] = lags.figures()
        for size, at in ((300_000, rate), (1_000_000, 20.0)):
            work = load(client, clock, body_of(settings, size), at, seconds)
            (send_lags_ms, reached), lags, share = await sampled(clock, work)
            p50, p99 = np.percentile(send_lags_ms, (50, 99))
            found[f"{size / 1e3:,.0f} KB bodies"] = {
                "asked_a_second": at,
                "reached_a_second": reached,
                "cpu_ms_each": share / reached * 1e3,
                "core_share_at_the_rate_asked": share / reached * at,
                "send_lag_p50_ms": float(p50),
                "send_lag_p99_ms": float(p99),
            } | lags.figures()
        await client.close()
    for what, figures in found.items():
        print(what)
        for name, value in figures.items():
            print(f"  {name:30} {value:10,.2f}")
    return found


def main() -> None:
    """Start the sink and measure."""
    parser = argparse.ArgumentParser(description="large bodies at a high rate")
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--write", action="store_true", help="replace the results file")
    arguments = parser.parse_args()
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.request_side", "--sink"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        found = uvloop.run(measure(port, arguments.rate, arguments.seconds))
    finally:
        server.terminate()
        server.communicate()
    if arguments.write:
        print(write_result("request_side", {"seconds": arguments.seconds, "loads": found}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--sink"]:
        uvloop.run(sink())
    else:
        main()

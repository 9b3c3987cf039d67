"""The token path against a C epoll client doing the same reads: CPU per token, delay of stamps.

    python -m benchmarks.hot_path [--streams 256 1024] [--rounds 3] [--busy 0] [--write]

Builds the C client and a C token server with ``cc``, runs both clients against the same load (a
token every 20 ms a stream) staggered and in step-synchronised bursts, and prints CPU per token,
their ratio, and how long after the server's stamp each client's stamp came. Both are connected at
once, each to a server of its own, and get their tokens in turns of half a second: what else the
machine does then weighs on both alike, where runs of seconds one after the other differed by a
quarter. CPU is counted mid-run, so connecting and parsing are not in it; parsing follows on a line
of its own, then the sum of both over the C client's; recording is in ``recorder.py``. Delays are of
the events whose timestamp is not marked as a bound; the share of the others is told. ``--busy``
keeps the machine busy beside the clients with so many loops. ``--write`` replaces
``benchmarks/results/hot_path.json``.
"""

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import uvloop
from numpy.typing import NDArray

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.requests import Requests
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.experiment.part import quiet_collector
from benchmarks.results_file import write_result

INTERVAL_US = 20_000
TOKENS = 250
TURN_TOKENS = 25
START_S = 4.0
"""Within it both clients have started, and asked on every stream."""

FIRST_TURN, LAST_TURN = 1, 9
"""CPU is counted from the first of these turns of every client to the last, not included."""

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Run:
    """One client's run: CPU µs a token in the middle, reads a token, every stamp in ns.

    ``sent_ns`` are the server's stamps, ``seen_ns`` the client's, one stream after the other, and
    ``marked`` whether the client says that one is only a bound. A
    client that falls behind finds several tokens in one read, and is cheaper for it: CPU per
    token compares two clients only where their reads per token are alike.
    """

    cpu_us: float
    reads: float
    sent_ns: NDArray[np.int64]
    seen_ns: NDArray[np.int64]
    marked: NDArray[np.bool_]
    parse_us: float = 0.0


def build(folder: Path) -> None:
    """Compile the C programs of this folder into another."""
    for name in ("token_server", "epoll_floor"):
        command = ("cc", "-O2", "-Wall", "-Wextra", "-o", folder / name, HERE / f"{name}.c")
        subprocess.run(command, check=True)


Commands = dict[str, tuple[str | Path, ...]]
"""How each client is started, before its arguments."""


def commands(folder: Path) -> Commands:
    """Return the two clients; the C one was built in ``folder``."""
    ours = (sys.executable, "-m", "benchmarks.hot_path", "--run")
    return {"floor": (folder / "epoll_floor",), "agentx-replay": ours}


def in_turns(
    folder: Path,
    clients: Commands,
    streams: int,
    *,
    burst: bool,
    every_us: int = INTERVAL_US,
    start_s: float = START_S,
) -> dict[str, Run]:
    """Run clients for one round, each against a server of its own, taking turns."""
    turn_ns = TURN_TOKENS * every_us * 1000
    start_ns = time.monotonic_ns() + round(start_s * 1e9)
    window_ns = [start_ns + turn * len(clients) * turn_ns for turn in (FIRST_TURN, LAST_TURN)]
    started: dict[str, tuple[subprocess.Popen[str], subprocess.Popen[str]]] = {}
    for place, (client, command) in enumerate(clients.items()):
        load = (streams, TOKENS, every_us, int(burst), folder / f"{client}.sent")
        turns = (start_ns + place * turn_ns, TURN_TOKENS, len(clients))
        server = _start(folder / "token_server", *load, *turns)
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        seen = folder / f"{client}.seen"
        started[client] = server, _start(*command, port, streams, TOKENS, *window_ns, seen)
    return {client: _ended(folder, client, streams, *pair) for client, pair in started.items()}


def _start(*command: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(tuple(map(str, command)), stdout=subprocess.PIPE, text=True)


def _ended(
    folder: Path,
    client: str,
    streams: int,
    server: "subprocess.Popen[str]",
    process: "subprocess.Popen[str]",
) -> Run:
    told, _ = process.communicate()
    server.communicate()
    if process.returncode or server.returncode:
        sys.exit(f"{client}: exit code {process.returncode}, its server's {server.returncode}")
    cpu_s, events, *parse_us = map(float, told.split())
    sent, seen = (np.fromfile(folder / f"{client}.{name}", np.int64) for name in ("sent", "seen"))
    marks = folder / f"{client}.seen.marked"
    marked = np.fromfile(marks, np.bool_) if marks.exists() else np.zeros(len(seen), np.bool_)
    return Run(cpu_s / events * 1e6, reads_per_token(seen, streams), sent, seen, marked, *parse_us)


def reads_per_token(seen: NDArray[np.int64], streams: int) -> float:
    """Return how many different stamps there are for each token of a stream."""
    return float(np.mean(np.diff(seen.reshape(streams, TOKENS), prepend=0) != 0))


def measured(port: str, streams: str, tokens: str, from_ns: str, to_ns: str, file: str) -> None:
    """Be our client, with the arguments and the output of the C one, and the parse µs a token."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        url = parse_base_url(f"http://127.0.0.1:{port}")
        client = Client(settings := EndpointSettings(url, "served-model-name"))
        build = Requests(settings).build
        messages = b'[{"role":"user","content":"x"}]'
        tasks = [
            loop.create_task(
                client.exchange(str(i), build({"X-Request-ID": str(i)}, int(tokens), messages))
            )
            for i in range(int(streams))
        ]
        cpu = CpuOverTime(loop)
        bodies = [exchange.body for exchange in await asyncio.gather(*tasks)]
        ended_ns = cpu.sample()
        await client.close()
        streams_read = [body.stream for body in bodies if body is not None and body.stream]
        arrivals = np.concatenate([each.arrival_ns for each in streams_read])
        arrivals.tofile(file)
        marked = np.concatenate([each.uncertainty_ns for each in streams_read]) > 0
        marked.tofile(f"{file}.marked")
        window_ns = int(from_ns), int(to_ns)
        events = np.count_nonzero((arrivals >= window_ns[0]) & (arrivals < window_ns[1]))
        parse_s = cpu.between(int(arrivals.max()) + 100_000_000, ended_ns)
        print(cpu.between(*window_ns), events, parse_s / len(arrivals) * 1e6)

    with quiet_collector():
        uvloop.run(run())


class CpuOverTime:
    """CPU seconds of this process, sampled every 20 ms."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._samples: list[tuple[int, float]] = []
        self._tick()

    def _tick(self) -> None:
        self.sample()
        self._loop.call_later(0.02, self._tick)

    def sample(self) -> int:
        """Take a sample; return its time in ns."""
        self._samples.append((time.monotonic_ns(), cpu_s()))
        return self._samples[-1][0]

    def between(self, from_ns: int, to_ns: int) -> float:
        """Return the CPU seconds spent between two times."""
        times, spent = np.array(self._samples).T
        start, end = np.interp((from_ns, to_ns), times, spent)
        return float(end - start)


def cpu_s() -> float:
    """Return user and system CPU seconds of this process, as the C client counts them."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def compare(folder: Path, streams: int, rounds: int, *, burst: bool) -> dict[str, Any]:
    """Run both clients, print what came out and return it for the results file."""
    clients = commands(folder)
    done = [in_turns(folder, clients, streams, burst=burst) for _ in range(rounds)]
    runs = {client: [each[client] for each in done] for client in clients}
    how = "step-synchronised" if burst else "staggered"
    print(f"\n{streams} streams, a token every {INTERVAL_US / 1e3:g} ms, {how}, {rounds} rounds")
    figures = {client: _figures(each) for client, each in runs.items()}
    for client, told in figures.items():
        cpu, reads = (_listed(told[name]) for name in ("cpu_us_a_token", "reads_a_token"))
        print(f"  {client:14} CPU µs/token {cpu}; reads/token {reads}")
        delays = (f"p{p} {told[f'stamp_delay_p{p}_us']:.0f}" for p in ("50", "99", "99_9"))
        print(f"  {'':14} stamp delay {', '.join(delays)} µs; marked {told['marked_share']:.2%}")
    pairs = list(zip(runs["agentx-replay"], runs["floor"], strict=True))
    by_token = [ours.cpu_us / floor.cpu_us for ours, floor in pairs]
    by_read = [ours.cpu_us / ours.reads / floor.cpu_us * floor.reads for ours, floor in pairs]
    for unit, ratios in (("token", by_token), ("read", by_read)):
        print(f"  CPU per {unit}, ratio: median {median(ratios):.2f} (rounds: {_listed(ratios)})")
    parse_us = median(run.parse_us for run in runs["agentx-replay"])
    parsing = median(ours.parse_us / floor.cpu_us for ours, floor in pairs)
    print(f"  parsing, after the response: {parse_us:.2f} µs/token, {parsing:.2f} of the floor")
    print(f"  both: {median(by_token) + parsing:.2f} times the floor")
    return {
        "streams": streams,
        "how": how,
        "cpu_a_token_over_floor": median(by_token),
        "cpu_a_read_over_floor": median(by_read),
        "parsing_us_a_token": parse_us,
        "parsing_over_floor": parsing,
        "both_over_floor": median(by_token) + parsing,
        "clients": figures,
    }


def _figures(runs: list[Run]) -> dict[str, Any]:
    marked = np.concatenate([run.marked for run in runs])
    delays_us = np.concatenate([run.seen_ns - run.sent_ns for run in runs])[~marked] / 1e3
    p50, p99, p999 = np.percentile(delays_us, (50, 99, 99.9))
    return {
        "cpu_us_a_token": [run.cpu_us for run in runs],
        "reads_a_token": [run.reads for run in runs],
        "stamp_delay_p50_us": float(p50),
        "stamp_delay_p99_us": float(p99),
        "stamp_delay_p99_9_us": float(p999),
        "marked_share": float(np.mean(marked)),
    }


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep the machine busy with so many processes."""
    loops = [subprocess.Popen((sys.executable, "-c", "while True: pass")) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> None:
    """Compare, staggered and in bursts."""
    parser = argparse.ArgumentParser(description="CPU per token against a C epoll client")
    parser.add_argument("--streams", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, default=0, help="busy loops beside the clients")
    parser.add_argument("--write", action="store_true", help="replace the results file")
    arguments = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name, busy_loops(arguments.busy):
        folder = Path(name)
        build(folder)
        loads = [
            compare(folder, streams, arguments.rounds, burst=burst)
            for streams in arguments.streams
            for burst in (False, True)
        ]
    print(f"\n{time.monotonic() - started:.0f} s")
    if arguments.write:
        result = {
            "busy_loops": arguments.busy,
            "every_ms": INTERVAL_US / 1e3,
            "rounds": arguments.rounds,
            "loads": loads,
        }
        print(write_result("hot_path", result))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        measured(*sys.argv[2:])
    else:
        main()

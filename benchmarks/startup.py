"""From the command to the first request, and the memory of a whole run.

    python benchmarks/startup.py ../shared/traces/real

Runs ``agentx-replay run`` at concurrency 8 three times against a simulator in this process and
prints medians: command start to the first request of any kind (calibration), to the first request
of a session, and the peak of the resident memory of the command's process tree. With the embedded
simulator the tree has one process more: its memory is printed too. For comparison: the official
harness took 32 s and about 1 GB for the same files on a machine of this kind.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.server import ServerConfig, running_server

ROUNDS = 3
SESSION_BODY_BYTES = 30_000
SAMPLE_S = 0.05
COMMAND = (sys.executable, "-m", "agentx_replay", "run", "--concurrency", "8", "--gpus", "8")
SHORT = ("--scenario", "quick", "--override", "window_s=3", "--override", "grace_s=1")


class Arrivals:
    """A hook of the server: when completions came, and how long their bodies were."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []

    def __call__(self, number: int, body: bytes) -> None:  # noqa: ARG002 - the hook's signature
        """Note a request."""
        self.seen.append((time.monotonic(), len(body)))


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process and all it started."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return 0
    own = pages * os.sysconf("SC_PAGE_SIZE")
    return own + sum(resident_bytes(child) for child in children)


async def run(arguments: tuple[str, ...]) -> tuple[float, int]:
    """Run a command to its end; return when it started and the peak of its tree's memory."""
    started_s, peak = time.monotonic(), 0
    process = await asyncio.create_subprocess_exec(
        *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    ended = asyncio.create_task(process.wait())
    while not ended.done():
        peak = max(peak, resident_bytes(process.pid))
        await asyncio.wait([ended], timeout=SAMPLE_S)
    return started_s, peak


async def one_round(traces: str, folder: str) -> tuple[float, float, float, float]:
    """Return seconds to the first request, to the first of a session, and two peaks in MB."""
    arrivals = Arrivals()
    engine = EngineModel(per_prefill_token_ms=0.001, max_model_len=2_000_000)
    async with running_server(ServerConfig(engine=engine), hook=arrivals) as server:
        served = ("--traces", traces, "--url", server.url, "--out", f"{folder}/served")
        started_s, peak = await run((*COMMAND, *SHORT, *served))
    first_s = arrivals.seen[0][0] - started_s
    session_s = next(at for at, size in arrivals.seen if size > SESSION_BODY_BYTES) - started_s
    embedded = ("--traces", traces, "--out", f"{folder}/embedded")
    _, peak_with_simulator = await run((*COMMAND, *SHORT, *embedded))
    return first_s, session_s, peak / 1e6, peak_with_simulator / 1e6


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description="time and memory of a start")
    parser.add_argument("traces", help="a directory of recorded sessions with long prompts")
    traces = parser.parse_args().traces
    rows = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(asyncio.run(one_round(traces, folder)))
    first_s, session_s, peak, embedded = (
        statistics.median(column) for column in zip(*rows, strict=True)
    )
    print(f"command to first request          {first_s:6.2f} s")
    print(f"command to first session request  {session_s:6.2f} s   (official harness: 32 s)")
    print(f"peak memory, client               {peak:6.0f} MB  (official harness: about 1,000 MB)")
    print(f"peak memory, with the simulator   {embedded:6.0f} MB")


if __name__ == "__main__":
    main()

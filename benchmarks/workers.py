"""Several workers against one: when the first request goes, what a worker costs, what is measured.

    python benchmarks/workers.py [--concurrency 16] [--workers 1,2,3] [--traces PATH]

Runs ``agentx-replay run`` on the built-in simulator with the same salt, once for each number of
workers, and prints the seconds from the command to the first request (reading the corpus,
calibrating and starting the workers among them), the CPU of a worker, and the P90 ITL and
throughput, which are to agree within the simulator's own scatter.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

RULES = ("warmup_requests=2", "primer_lead_s=0.5", "window_s=15.0", "grace_s=10.0")


def run(out: Path, concurrency: int, workers: int, traces: str | None) -> dict[str, float]:
    """Run one level and return what is to be compared."""
    overrides = [part for rule in RULES for part in ("--override", rule)]
    more = ["--traces", traces] if traces else []
    command = [
        *(sys.executable, "-m", "agentx_replay", "run", "--json", "--salt", "same"),
        *("--concurrency", str(concurrency), "--workers", str(workers), "--out", str(out)),
        *overrides,
        *more,
    ]
    begun_ns = time.monotonic_ns()
    begun_unix_s = time.time()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = (time.monotonic_ns() - begun_ns) / 1e9
    (point,) = json.loads(done.stdout)["points"]
    directory = out / f"c{concurrency:04d}"
    log = (directory / "latency.hlog").read_text()
    origin_unix_s = float(log.partition("#[BaseTime: ")[2].partition(" ")[0])
    sent_ns = pq.read_table(directory / "requests.parquet", columns=["send_ns"])["send_ns"]
    samples = pq.read_table(directory / "instrument.parquet")
    worker, at_ns, cpu_ns, lag_ns = (
        samples[name].to_numpy() for name in ("worker", "at_ns", "cpu_ns", "loop_lag_ns")
    )
    shares = [
        float(np.ptp(cpu_ns[worker == number]) / np.ptp(at_ns[worker == number]))
        for number in np.unique(worker)
    ]
    return {
        "first request s": origin_unix_s - begun_unix_s + min(sent_ns.to_pylist()) / 1e9,
        "whole s": seconds,
        "most CPU of a worker": max(shares),
        "loop lag P99 ms": float(np.percentile(lag_ns, 99)) / 1e6,
        "P90 ITL ms": point["response_itl_p90_s"] * 1e3,
        "tok/s": point["total_tokens_per_s"],
        "requests": point["requests"],
    }


def main() -> None:
    """Print a row for each number of workers."""
    parser = argparse.ArgumentParser(description="several workers against one")
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--workers", default="1,2,3")
    parser.add_argument("--traces")
    arguments = parser.parse_args()
    for workers in map(int, arguments.workers.split(",")):
        with tempfile.TemporaryDirectory() as name:
            found = run(Path(name) / "run", arguments.concurrency, workers, arguments.traces)
        facts = ", ".join(f"{what} {value:,.3g}" for what, value in found.items())
        print(f"{workers} workers: {facts}")


if __name__ == "__main__":
    main()

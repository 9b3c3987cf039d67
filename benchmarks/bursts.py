"""Step-synchronised bursts: how late stamps are when every stream's token comes at once.

    python -m benchmarks.bursts [--streams 256] [--rounds 5] [--write]

256 streams emit on the same step every 20 ms, as an engine does. Our client and a C epoll client
(``epoll_floor.c``) take turns against the same C server, which stamps every write. Goals, of each
round's median: stamp delay P50 under 0.5 ms; P99 less than 3 ms above the floor's; P90 response
ITL within 2.5 % of what the server's own stamps give. ``--write`` replaces
``benchmarks/results/bursts.json``.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from benchmarks.hot_path import INTERVAL_US, TOKENS, Run, build, commands, in_turns
from benchmarks.results_file import write_result

Row = tuple[float, float, float]
"""Stamp delay P50 and P99 in ms, and the relative error of the P90 response ITL."""


def p90_itl(stamps_ns: NDArray[np.int64]) -> float:
    """P90 over responses of the mean gap; ``stamps_ns`` is one response after the other."""
    streams_ns = stamps_ns.reshape(-1, TOKENS)
    return float(np.percentile((streams_ns[:, -1] - streams_ns[:, 0]) / (TOKENS - 1), 90))


def row(run: Run) -> Row:
    """Return what a client's round came to."""
    p50_ns, p99_ns = np.percentile(run.seen_ns - run.sent_ns, (50, 99))
    error = abs(p90_itl(run.seen_ns) / p90_itl(run.sent_ns) - 1)
    return float(p50_ns) / 1e6, float(p99_ns) / 1e6, error


def main() -> None:
    """Print each round, and the medians against the goals."""
    parser = argparse.ArgumentParser(description="stamps in step-synchronised bursts")
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="replace the results file")
    arguments = parser.parse_args()
    rows: dict[str, list[Row]] = {"floor": [], "agentx-replay": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        for _ in range(arguments.rounds):
            for client, command in commands(folder).items():
                alone = in_turns(folder, {client: command}, arguments.streams, burst=True)
                rows[client].append(row(alone[client]))
    for client, done in rows.items():
        print(f"{client}: stamp delay P50, P99 in ms, P90 ITL error")
        for p50, p99, error in done:
            print(f"  {p50:7.2f} {p99:7.2f} {error:8.3%}")
    ours, floor = rows["agentx-replay"], rows["floor"]
    p50_ms, error = (median(row[column] for row in ours) for column in (0, 2))
    above_ms = median(o[1] - f[1] for o, f in zip(ours, floor, strict=True))
    print(f"median P50 {p50_ms:.2f} ms (goal under 0.5)")
    print(f"median P99 above the floor's {above_ms:.2f} ms (goal under 3)")
    print(f"median P90 ITL error {error:.3%} (goal under 2.5 %)")
    if arguments.write:
        result = {
            "streams": arguments.streams,
            "every_ms": INTERVAL_US / 1e3,
            "stamp_delay_p50_ms": p50_ms,
            "stamp_delay_p99_above_floor_ms": above_ms,
            "itl_p90_error": error,
            "rounds_p50_ms_p99_ms_error": rows,
        }
        print(write_result("bursts", result))


if __name__ == "__main__":
    main()

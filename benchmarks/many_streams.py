"""Many streams in one process, at the rate of tokens of 1,024: what a stream more costs.

    python -m benchmarks.many_streams [--streams 1024 2048 4096] [--rounds 3] [--write]

51,200 tokens a second in all, staggered, against the C token server of ``hot_path.py``, one number
of streams after the other. Prints CPU a token and a read, over those of the first number: a client
that falls behind finds several tokens in one read, and is cheaper for it. Then reads a token, and
the share of events whose timestamp is marked as a bound. ``--write`` replaces
``benchmarks/results/many_streams.json``.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from agentx_replay.experiment.open_files import raise_open_files
from benchmarks.hot_path import Run, build, commands, in_turns
from benchmarks.results_file import write_result

TOKENS_A_SECOND = 51_200
START_S = 8.0
OURS = "agentx-replay"


def figures(streams: int, runs: list[Run]) -> dict[str, Any]:
    """Return what the rounds of one number of streams came to."""
    return {
        "streams": streams,
        "cpu_us_a_token": median(run.cpu_us for run in runs),
        "cpu_us_a_read": median(run.cpu_us / run.reads for run in runs),
        "cpu_us_a_token_by_round": [run.cpu_us for run in runs],
        "reads_a_token": median(run.reads for run in runs),
        "marked_share": median(float(np.mean(run.marked)) for run in runs),
    }


def main() -> None:
    """Measure in rounds, and print the medians."""
    parser = argparse.ArgumentParser(description="many streams at one rate of tokens")
    parser.add_argument("--streams", type=int, nargs="+", default=[1024, 2048, 4096])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="replace the results file")
    arguments = parser.parse_args()
    raise_open_files()
    runs: dict[int, list[Run]] = {streams: [] for streams in arguments.streams}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        client = {OURS: commands(folder)[OURS]}
        for _ in range(arguments.rounds):
            for streams, done in runs.items():
                every_us = round(streams / TOKENS_A_SECOND * 1e6)
                found = in_turns(
                    folder, client, streams, burst=False, every_us=every_us, start_s=START_S
                )
                done.append(found[OURS])
    loads = [figures(streams, done) for streams, done in runs.items()]
    for load in loads:
        for unit in ("token", "read"):
            cost = f"cpu_us_a_{unit}"
            load[f"cpu_a_{unit}_over_first"] = load[cost] / loads[0][cost]
        print(
            f"{load['streams']} streams: CPU {load['cpu_us_a_token']:.2f} µs a token, "
            f"{load['cpu_a_token_over_first']:.2f} of the first, "
            f"{load['cpu_a_read_over_first']:.2f} a read; "
            f"reads a token {load['reads_a_token']:.3f}; marked {load['marked_share']:.2%}"
        )
    if arguments.write:
        result = {"tokens_a_s": TOKENS_A_SECOND, "rounds": arguments.rounds, "loads": loads}
        print(write_result("many_streams", result))


if __name__ == "__main__":
    main()

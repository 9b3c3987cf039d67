"""Numbers of a busy machine: four busy loops on its cores, and the errors against the truth.

    python -m benchmarks.busy [--rounds 3] [--loops 4] [--runs "sweep,quick,process"] [--write]

Runs the README's first command (``sweep`` without a server) and ``sweep --scenario quick
--concurrency 2,8,16``, both against the built-in simulator with its log of when tokens left, while
the loops run; and the first with ``--timestamps process`` too, for what a client without the
kernel's timestamps makes of the same machine. The goal is P90 ITL and P90 TTFT within 1 % of the
truth, every level valid, exit code 0. The loops end by themselves after ``_MOST_S``.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from benchmarks.results_file import write_result
from benchmarks.truth import measured_with_truth, truth_file

MAX_ERROR = 0.01
_MOST_S = 240
_LOOP = f"import time\nend = time.monotonic() + {_MOST_S}\nwhile time.monotonic() < end: pass"
RUNS = {
    "sweep": ("sweep",),
    "quick": ("sweep", "--scenario", "quick", "--concurrency", "2,8,16"),
    "process": ("sweep", "--timestamps", "process"),
}


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep so many loops busy while the context is open, ``_MOST_S`` at most."""
    running = [subprocess.Popen([sys.executable, "-c", _LOOP]) for _ in range(loops)]
    try:
        yield
    finally:
        for loop in running:
            loop.kill()
            loop.wait()


def measured(arguments: Sequence[str], loops: int) -> dict[str, Any]:
    """Run a sweep on a busy machine; return its exit code, and its levels beside the truth."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "run"
        with busy(loops):
            exit_code = measured_with_truth(arguments, out).wait()
        return {"exit_code": exit_code, "levels": orjson.loads(truth_file(out).read_bytes())}


def _sound(run: dict[str, Any]) -> bool:
    return run["exit_code"] == 0 and all(
        level["valid"] and abs(level["itl_error"]) <= MAX_ERROR
        and abs(level["ttft_error"]) <= MAX_ERROR
        for level in run["levels"]
    )  # fmt: skip


def _say(name: str, run: dict[str, Any]) -> None:
    print(f"{name}: exit code {run['exit_code']}")
    for level in run["levels"]:
        verdict = "valid" if level["valid"] else f"not valid ({', '.join(level['codes'])})"
        print(
            f"  {level['level']:>3}: ITL {level['itl_error']:+.3%}, "
            f"TTFT {level['ttft_error']:+.3%}, {verdict}, {level['timestamps']} timestamps",
            flush=True,
        )


def main() -> int:
    """Run every command so often, and say whether those by the kernel reached the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loops", type=int, default=4)
    parser.add_argument("--runs", default=",".join(RUNS))
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in asked.runs.split(",")}
    for _ in range(asked.rounds):
        for name in runs:
            runs[name].append(measured(RUNS[name], asked.loops))
            _say(name, runs[name][-1])
    sound = {name: sum(map(_sound, each)) for name, each in runs.items()}
    for name, number in sound.items():
        print(f"{name}: {number} of {asked.rounds} valid, exit code 0 and within {MAX_ERROR:.0%}")
    if asked.write:
        write_result("busy", {"loops": asked.loops, "sound": sound, "runs": runs})
    by_kernel = [sound[name] for name in sound if name != "process"]
    return 0 if all(number == asked.rounds for number in by_kernel) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Workers that are stopped at any moment: does a number that says valid hold?

    python -m benchmarks.stalls [--cases 200] [--first 0] [--jobs 2] [--timestamps auto] [--write]

Each case, drawn by its seed, sweeps one level of the built-in simulator on 1 to 3 workers, and
stops one of them (SIGSTOP, then SIGCONT) one to three times for 0.05 to 10 s, at any moment of the
window. Then P90 ITL and P90 TTFT are held against the simulator's log of when tokens left. No case
that is valid may be off by over 2.5 %.
"""

import argparse
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from benchmarks.results_file import write_result
from benchmarks.truth import measured_with_truth, truth_file

MAX_ERROR = 0.025
_RULES = ("window_s=10", "grace_s=20")
_WINDOW_S = 10.0
_START_TIMEOUT_S = 120.0
_LOOK_S = 0.05
_WORKER = b"agentx_replay.experiment.worker"
_WINDOW_OPEN = re.compile(rb"c=\d+ window")


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop of one worker: seconds after the window opened, and how long."""

    at_s: float
    length_s: float
    worker: int


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured, and what is done to it."""

    seed: int
    workers: int
    concurrency: int
    stops: tuple[Stop, ...]


def drawn(seed: int) -> Case:
    """Draw a case."""
    rng = random.Random(seed)
    workers = rng.randint(1, 3)
    stops = []
    at_s = 0.0
    for _ in range(rng.randint(1, 3)):
        at_s = rng.uniform(at_s, max(at_s, _WINDOW_S))
        length_s = math.exp(rng.uniform(math.log(0.05), math.log(10.0)))
        stops.append(Stop(at_s, length_s, rng.randrange(workers)))
        at_s += length_s
    return Case(seed, workers, rng.choice((6, 12, 24)), tuple(stops))


def measured(case: Case, timestamps: str) -> dict[str, Any]:
    """Measure a case and return its level beside the truth."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "run"
        rules = [part for rule in _RULES for part in ("--override", rule)]
        arguments = (
            *("sweep", "--scenario", "quick", "--concurrency", str(case.concurrency)),
            *("--workers", str(case.workers), "--timestamps", timestamps, *rules),
        )
        process = measured_with_truth(arguments, out)
        try:
            stops_made = _stop(case, process, out.with_name("run.txt"))
            process.wait()
        finally:
            process.kill()
        kept = truth_file(out)
        levels = orjson.loads(kept.read_bytes()) if kept.exists() else []
        return {**asdict(case), "stops_made": stops_made, "level": levels[0] if levels else None}


def _stop(case: Case, process: "subprocess.Popen[bytes]", said: Path) -> int:
    """Stop the workers as the case has it; return how many stops were made before the run ended."""
    until_s = time.monotonic() + _START_TIMEOUT_S
    while not _WINDOW_OPEN.search(said.read_bytes()):
        if process.poll() is not None or time.monotonic() > until_s:
            return 0
        time.sleep(_LOOK_S)
    opened_s = time.monotonic()
    if process.poll() is not None:
        return 0
    workers = [process.pid] if case.workers == 1 else sorted(_workers_of(process.pid))
    for made, stop in enumerate(case.stops):
        time.sleep(max(0.0, opened_s + stop.at_s - time.monotonic()))
        if process.poll() is not None:
            return made
        try:
            os.kill(workers[stop.worker], signal.SIGSTOP)
            time.sleep(stop.length_s)
        except ProcessLookupError:
            return made
        finally:
            with suppress(ProcessLookupError):
                os.kill(workers[stop.worker], signal.SIGCONT)
    return len(case.stops)


def _workers_of(parent: int) -> Iterator[int]:
    """Find the worker processes of a run."""
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            status = (directory / "stat").read_text().rpartition(")")[2].split()
            if int(status[1]) == parent and _WORKER in (directory / "cmdline").read_bytes():
                yield int(directory.name)


def worst(level: dict[str, Any]) -> float:
    """Return the larger error of a level, without its sign."""
    return max(abs(float(level["itl_error"])), abs(float(level["ttft_error"])))


def summary(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many were measured, valid and wrong, and by how much valid ones were off."""
    levels = [case["level"] for case in cases if case["level"] is not None]
    valid = [level for level in levels if level["valid"]]
    codes = [code for level in levels for code in level["codes"]]
    return {
        "cases": len(cases),
        "measured": len(levels),
        "stopped": sum(case["stops_made"] > 0 for case in cases),
        "valid": len(valid),
        "valid_and_wrong": sum(worst(level) > MAX_ERROR for level in valid),
        "worst_valid_error": max(map(worst, valid), default=None),
        "refused_and_wrong": sum(worst(e) > MAX_ERROR for e in levels if not e["valid"]),
        "refused_for": {code: codes.count(code) for code in sorted(set(codes))},
    }


def _kept(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is kept of each case; the rest follows from its seed."""
    kept = ("valid", "codes", "responses", "itl_error", "ttft_error", "itl_shift", "ttft_shift")
    return [
        {"seed": case["seed"], "stops_made": case["stops_made"]}
        | {name: (case["level"] or {}).get(name) for name in kept}
        for case in cases
    ]


def main() -> int:
    """Measure the cases, several at once, and say whether every valid one held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timestamps", default="auto")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()

    def one(seed: int) -> dict[str, Any]:
        found = measured(drawn(seed), asked.timestamps)
        level = found["level"]
        print(
            f"{seed}: nothing was measured" if level is None else
            f"{seed}: {'valid' if level['valid'] else level['codes']}, ITL "
            f"{level['itl_error']:+.3%}, TTFT {level['ttft_error']:+.3%}",
            flush=True,
        )  # fmt: skip
        return found

    with ThreadPoolExecutor(asked.jobs) as pool:
        cases = list(pool.map(one, range(asked.first, asked.first + asked.cases)))
    found = summary(cases)
    print(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
    if asked.write:
        name = "stalls_process" if asked.timestamps == "process" else "stalls"
        write_result(name, {"timestamps": asked.timestamps, **found, "of_each": _kept(cases)})
    return 0 if found["valid_and_wrong"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())

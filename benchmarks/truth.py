"""How far a run's numbers are from the truth: the log of the simulator that it measured.

    python -m benchmarks.truth sweep --concurrency 2,8,16 --scenario quick --out DIR

runs the command, with the built-in simulator keeping a log of when each request was there and when
each token left, prints for each level P90 ITL and P90 TTFT as measured and in truth, and writes
them to ``DIR.truth.json``. The truth is on the same clock: of ITL (last − first token written) /
tokens after the first event, of TTFT the first token written − the kernel's timestamp of the
request's first byte.

The run goes on as ``main`` of the package would have it; the last part of its output is ours.
"""

import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from agentx_replay.analysis.point import stored_point
from agentx_replay.analysis.responses import MEASURED_STATUSES
from agentx_replay.results.run_directory import StoredPoint, read_points

_TRUTH_BYTES = 400_000_000
_COLUMNS = ("request_id", "phase", "status", "send_ns")

Truth = Mapping[str, Sequence[Mapping[str, Any]]]
"""The server's records by the id of their request: several, where one was sent again."""


@dataclass(frozen=True, slots=True)
class Off:
    """One level beside the truth: times in seconds, errors relative to the truth.

    ``codes`` are of the findings that make it invalid; ``itl_shift`` and ``ttft_shift`` how far the
    level itself says that it may be off.
    """

    level: str
    valid: bool
    codes: tuple[str, ...]
    timestamps: str
    responses: int
    itl_s: float
    true_itl_s: float
    ttft_s: float
    true_ttft_s: float
    itl_shift: float | None
    ttft_shift: float | None
    send_lag_p99_s: float | None

    @property
    def itl_error(self) -> float:
        """How far the P90 ITL is off."""
        return self.itl_s / self.true_itl_s - 1.0

    @property
    def ttft_error(self) -> float:
        """How far the P90 TTFT is off."""
        return self.ttft_s / self.true_ttft_s - 1.0

    @property
    def worst(self) -> float:
        """The larger of both errors, without its sign."""
        return max(abs(self.itl_error), abs(self.ttft_error))

    def document(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**asdict(self), "itl_error": self.itl_error, "ttft_error": self.ttft_error}

    def line(self) -> str:
        """Return it as a line of text."""
        verdict = "valid" if self.valid else f"not valid ({', '.join(self.codes)})"
        itl = _beside(self.itl_s, self.true_itl_s, self.itl_error)
        ttft = _beside(self.ttft_s, self.true_ttft_s, self.ttft_error)
        return (
            f"{self.level:>6}: {verdict}, {self.timestamps} timestamps, P90 of {self.responses}: "
            f"ITL {itl}, TTFT {ttft}"
        )


def _beside(measured_s: float, true_s: float, error: float) -> str:
    return f"{measured_s * 1e3:.3f} ms, in truth {true_s * 1e3:.3f} ({error:+.2%})"


def told_by(url: str) -> Truth:
    """Return what a running simulator has on record."""
    with urllib.request.urlopen(f"{url}/truth") as answer:
        return by_request(orjson.loads(answer.read())["responses"])


def by_request(records: Sequence[Mapping[str, Any]]) -> Truth:
    """Return the records of a truth log by the id of their request, in order."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        found.setdefault(record["request_id"], []).append(record)
    return found


def compare(run: Path, truth: Truth) -> list[Off]:
    """Return each level of a run that has numbers beside the truth."""
    levels = [_compared(stored, truth) for stored in read_points(run)]
    return [level for level in levels if level is not None]


def _compared(stored: StoredPoint, truth: Truth) -> Off | None:
    point = stored_point(stored)
    window, summary, client = point.facts.window, point.summary, point.instrument
    if window is None or summary is None or summary.response_itl is None or summary.ttft is None:
        return None
    rows = stored.requests(_COLUMNS)
    known = [truth[request] for request in _measured(rows, window.open_ns, window.close_ns)]
    return Off(
        level=point.name,
        valid=point.valid,
        codes=tuple(f.code for f in point.findings if f.kind == "invalid"),
        timestamps=client.timestamps if client else "none",
        responses=len(known),
        itl_s=summary.response_itl.p90_s,
        true_itl_s=_p90_s([itl for each in known if (itl := _itl_ns(each[-1])) is not None]),
        ttft_s=summary.ttft.p90_s,
        true_ttft_s=_p90_s([each[-1]["sent_ns"][0] - each[0]["received_ns"] for each in known]),
        itl_shift=client.itl_shift if client else None,
        ttft_shift=client.ttft_shift if client else None,
        send_lag_p99_s=client.send_lag_p99_s if client else None,
    )


def _measured(rows: pa.Table, open_ns: int, close_ns: int) -> list[str]:
    """Return the ids of the responses that the level's latencies are of."""
    columns = (rows[name].to_pylist() for name in _COLUMNS)
    return [
        request
        for request, phase, status, send_ns in zip(*columns, strict=True)
        if phase == "window" and status in MEASURED_STATUSES and open_ns <= send_ns < close_ns
    ]


def _itl_ns(record: Mapping[str, Any]) -> float | None:
    sent_ns, tokens = record["sent_ns"], record["tokens"]
    later = sum(tokens) - tokens[0]
    return (sent_ns[-1] - sent_ns[0]) / later if later else None


def _p90_s(values_ns: Sequence[float]) -> float:
    return float(np.percentile(values_ns, 90)) / 1e9


def run_with_truth(arguments: Sequence[str], log: Path) -> int:
    """Run the command line in this process, its built-in simulator's log written to ``log`` when it
    ends; return the exit code.
    """
    from agentx_replay.cli import main
    from agentx_replay.simulator import process

    launch, close = process.launch_simulator, process.SimulatorProcess.close

    def launch_with_log(config: Any) -> Any:
        return launch(replace(config, truth_bytes=_TRUTH_BYTES))

    def close_and_keep(self: Any) -> None:
        with urllib.request.urlopen(f"{self.url}/truth") as answer:
            log.write_bytes(answer.read())
        close(self)

    process.launch_simulator = launch_with_log
    process.SimulatorProcess.close = close_and_keep  # type: ignore[method-assign]
    sys.argv = ["agentx-replay", *arguments]
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _out(arguments: Sequence[str]) -> Path:
    place = arguments.index("--out") + 1 if "--out" in arguments else 0
    if not 0 < place < len(arguments):
        sys.exit("give the run a directory: --out DIR")
    return Path(arguments[place])


def truth_file(out: Path) -> Path:
    """Where the comparison of a run in ``out`` is written."""
    return out.with_name(f"{out.name}.truth.json")


def measured_with_truth(arguments: Sequence[str], out: Path) -> "subprocess.Popen[bytes]":
    """Start a command of the tool under this module in a process of its own, its words kept beside
    ``out``.
    """
    command = [sys.executable, "-m", "benchmarks.truth", *arguments, "--out", str(out)]
    with out.with_name(f"{out.name}.txt").open("wb") as said:
        return subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)


if __name__ == "__main__":
    out = _out(sys.argv[1:])
    with tempfile.TemporaryDirectory() as scratch:
        kept = Path(scratch) / "truth.json"
        code = run_with_truth(sys.argv[1:], kept)
        if not kept.exists():  # it ended before it had a simulator
            sys.exit(code)
        levels = compare(out, by_request(orjson.loads(kept.read_bytes())["responses"]))
    truth_file(out).write_bytes(orjson.dumps([level.document() for level in levels]))
    print("\nbeside the simulator's own log")
    print("\n".join(level.line() for level in levels))
    sys.exit(code)

"""A coverage-guided fuzzer over the readers of the wire and of traces.

    pip install atheris
    python benchmarks/fuzz.py 120

Runs each target of ``tests/fuzz_targets.py`` for so many seconds, starting from what a good server
and a good trace look like, and writes ``benchmarks/results/fuzz.json``: executions, branches that
were reached, and what was found. An input that breaks a target is left beside the results.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.results_file import RESULTS, write_result  # noqa: E402 - found by the line before

_SLOW_INPUT_S = 10
_LONGEST_INPUT_BYTES = 4096
_DONE = re.compile(r"Done (\d+) runs in (\d+) second")
_COVERAGE = re.compile(r"cov: (\d+)")


def seeds() -> dict[str, list[bytes]]:
    """Return good inputs of each target; their first byte cuts them into reads of 8."""
    from scripted_server import DONE, HEAD, LAST_CHUNK, TWO_TOKENS, chunk

    body = chunk(TWO_TOKENS) + LAST_CHUNK
    trace = (
        b'{"id":"s","block_size":64,"hash_id_scope":"local","requests":[{"t":0,"type":"n",'
        b'"in":128,"out":3,"hash_ids":[1,2],"api_time":1},{"t":2,"type":"subagent","agent_id":"a",'
        b'"duration_ms":3,"requests":[{"t":0,"in":64,"out":1,"hash_ids":[9]}]}]}'
    )
    return {
        "events": [b"\x07" + TWO_TOKENS, b"\x07event: error\r\ndata: x\r\r" + DONE],
        "chunks": [b"\x07" + body, b"\x073\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\nT: t\r\n\r\n"],
        "http": [b"\x07" + HEAD + body, b"\x07HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno"],
        "trace": [trace],
    }


def fuzz_forever(target: str, arguments: list[str]) -> None:
    """Run libFuzzer on one target in this process; it does not return."""
    import atheris

    with atheris.instrument_imports(include=["agentx_replay.endpoint", "agentx_replay.traces"]):
        from fuzz_targets import TARGETS

    atheris.Setup([sys.argv[0], *arguments], TARGETS[target])
    atheris.Fuzz()


def fuzzed(target: str, seconds: int, inputs: list[bytes]) -> dict[str, Any]:
    """Run a target in a process of its own and return what came of it."""
    with tempfile.TemporaryDirectory() as corpus:
        for number, data in enumerate(inputs):
            (Path(corpus) / str(number)).write_bytes(data)
        said = subprocess.run(
            [sys.executable, __file__, "--target", target, f"-max_total_time={seconds}",
             f"-timeout={_SLOW_INPUT_S}", f"-max_len={_LONGEST_INPUT_BYTES}",
             f"-artifact_prefix={RESULTS}/fuzz-{target}-", corpus],
            capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
    done = _DONE.search(said.stderr)
    covered = _COVERAGE.findall(said.stderr)
    return {
        "executions": int(done[1]) if done else None,
        "seconds": int(done[2]) if done else None,
        "branches_reached": int(covered[-1]) if covered else None,
        "found": None if said.returncode == 0 else said.stderr[-2000:],
    }


def main() -> None:
    """Fuzz every target, or the one that the arguments name."""
    if sys.argv[1] == "--target":
        fuzz_forever(sys.argv[2], sys.argv[3:])
    RESULTS.mkdir(exist_ok=True)
    seconds = int(sys.argv[1])
    found = {target: fuzzed(target, seconds, inputs) for target, inputs in seeds().items()}
    for target, result in found.items():
        print(target, result)
    print(write_result("fuzz", {"seconds_a_target": seconds, "targets": found}))
    sys.exit(any(result["found"] for result in found.values()))


if __name__ == "__main__":
    main()

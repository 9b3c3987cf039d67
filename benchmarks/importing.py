"""How fast and in how much memory Claude Code's logs are imported.

    python -m benchmarks.importing 2000                 a made tree of 2,000 MB
    python -m benchmarks.importing 2000 LOG_DIRECTORY   copies of a real one up to that size

Prints the ratio to ``orjson.loads`` over the same lines, by wall and by CPU time, the median of
three pairs, and the peak memory of the import. Needs as much disk as the tree is large.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import orjson

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from claude_logs import answer, line, text, told, tool_result, tool_use, usage  # noqa: E402

_TURNS = 150
_RESULT_CHARACTERS, _ANSWER_CHARACTERS = 3_000, 400
_REPETITIONS = 3
_REPORTS = 7
"""Reports of progress a turn, as in logs of 2.1.39."""


def made_session(name: str) -> Iterator[bytes]:
    """Yield the lines of a session whose prompts grow by 700 tokens a turn from 20,000."""
    report = {"data": {"type": "hook_progress"}, "cwd": "/data/project", "gitBranch": "main"}
    yield orjson.dumps(told(0))
    for at in range(_TURNS):
        key, counts = f"{name}-{at}", usage(20_000 + 700 * at, 700)
        yield orjson.dumps(answer(10 * at + 3, key, counts, text(_ANSWER_CHARACTERS)))
        yield orjson.dumps(answer(10 * at + 4, key, counts, tool_use(f"c{at}", command="x" * 90)))
        for _ in range(_REPORTS):
            yield orjson.dumps(line("progress", 10 * at + 5, **report))
        result = tool_result(10 * at + 6, f"c{at}")
        result["message"]["content"][0]["content"] = "r" * _RESULT_CHARACTERS
        yield orjson.dumps(result)


def fill(tree: Path, megabytes: int, real: Path | None) -> int:
    """Write logs of so many MB in all, and return how many bytes they are."""
    written = number = 0
    while written < megabytes * 10**6:
        number += 1
        for name, raw in _copy(real, number) if real else [("s.jsonl", _made(number))]:
            file = tree / f"{number}" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            written += file.write_bytes(raw)
    return written


def _made(number: int) -> bytes:
    return b"\n".join(made_session(f"m{number}")) + b"\n"


def _copy(real: Path, number: int) -> Iterator[tuple[str, bytes]]:
    """Yield a copy of each log, with ids of its own: what two files hold counts once."""
    for file in sorted(real.rglob("*.jsonl")):
        raw = file.read_bytes().replace(b'"msg_', b'"msg_%d' % number)
        yield str(file.relative_to(real)), raw.replace(b"toolu_", b"toolu%d_" % number)


def parse_all(tree: Path) -> None:
    for file in tree.rglob("*.jsonl"):
        with file.open("rb") as lines:
            for each in lines:
                orjson.loads(each)


def measured(tree: Path, what: str) -> tuple[float, float, float]:
    """Return the wall and CPU seconds and the peak MB of one of both in its own process."""
    command = [sys.executable, "-m", "benchmarks.importing", what, str(tree)]
    if what == "import":
        out = str(tree / "out.jsonl.gz")
        command = [sys.executable, "-m", "agentx_replay", "traces", "import", "claude-code"]
        command += [str(tree), "--out", out, "--json"]
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    wall_s, after = time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall_s, cpu_s, after.ru_maxrss / 1000


def main() -> None:
    if sys.argv[1] == "parse":
        parse_all(Path(sys.argv[2]))
        return
    real = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        size = fill(tree, int(sys.argv[1]), real) / 1e6
        ratios = []
        for _ in range(_REPETITIONS):
            wall_s, cpu_s, _ = measured(tree, "parse")
            import_wall_s, import_cpu_s, peak_mb = measured(tree, "import")
            (tree / "out.jsonl.gz").unlink()
            ratios.append((wall_s / import_wall_s, cpu_s / import_cpu_s))
            print(
                f"import of {size:,.0f} MB: {size / import_wall_s:.0f} MB/s, orjson.loads"
                f" {size / wall_s:.0f} MB/s, peak {peak_mb:.0f} MB"
            )
    wall, cpu = (statistics.median(of) for of in zip(*ratios, strict=True))
    print(f"{wall:.2f} of orjson.loads, {cpu:.2f} by CPU (median of {_REPETITIONS})")


if __name__ == "__main__":
    main()

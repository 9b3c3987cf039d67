"""What a command cost: CPU and memory of its whole process tree.

The command runs under a process of its own that adopts every descendant whose parent ends first
(``PR_SET_CHILD_SUBREAPER``) and waits for all of them, so that the kernel's own account of ended
children is the CPU of the tree, start and end included. Memory is sampled: RSS as the sum over
processes counts a shared page once a process, PSS shares it among them.

    python -m benchmarks.measured COST_FILE TIMEOUT_S COMMAND …

writes the cost as JSON. Linux only.
"""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

_PR_SET_CHILD_SUBREAPER = 36
_SAMPLE_S = 0.1
_SAMPLES_A_PSS = 10
"""PSS takes the kernel a walk over all pages, so it is asked for once a second."""

_STRAGGLERS_S = 5.0


@dataclass(frozen=True, slots=True)
class Cost:
    """``started_ns`` is on the monotonic clock; bytes are peaks over the samples."""

    started_ns: int
    wall_s: float
    cpu_s: float
    rss_bytes: int
    pss_bytes: int
    exit_code: int


def measure(command: Sequence[str | Path], output: Path, timeout_s: float) -> Cost:
    """Run a command to its end, what it prints in ``output``, and return what it cost.

    After ``timeout_s`` it is killed with all it started, and its exit code is not 0.
    """
    with TemporaryDirectory() as scratch, output.open("wb") as printed:
        cost = Path(scratch) / "cost.json"
        wrapper = (sys.executable, "-m", "benchmarks.measured", str(cost), str(timeout_s))
        subprocess.run(
            [*wrapper, *map(str, command)], check=True, stdout=printed, stderr=subprocess.STDOUT
        )
        return Cost(**json.loads(cost.read_text()))


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and what they started."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found + [grandchild for child in found for grandchild in descendants(child)]


def resident_bytes(pid: int) -> int:
    """Return a process's resident memory, 0 where it is gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    return 0


def proportional_bytes(pid: int) -> int:
    """Return a process's share of the pages it has resident, 0 where it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def cpu_s_so_far(pid: int) -> float:
    """Return the CPU seconds of a process that runs, its children not counted."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class _Peaks(Thread):
    """Samples the memory of all that this process started, until told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.rss_bytes = self.pss_bytes = 0
        self.stop = Event()

    def run(self) -> None:
        """Sample."""
        sample = 0
        while not self.stop.wait(_SAMPLE_S):
            tree = descendants(os.getpid())
            self.rss_bytes = max(self.rss_bytes, sum(map(resident_bytes, tree)))
            if sample % _SAMPLES_A_PSS == 0:
                self.pss_bytes = max(self.pss_bytes, sum(map(proportional_bytes, tree)))
            sample += 1


def _kill_tree() -> None:
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _wait_for_all(command: subprocess.Popen[bytes], until_s: float) -> int:
    """Wait for the command, then for what it left behind; return the command's exit code.

    What is left is given a few seconds and then killed.
    """
    code: int | None = None
    while True:
        if time.monotonic() > until_s:
            _kill_tree()
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return -1 if code is None else code
        if pid == command.pid:
            code = command.returncode = os.waitstatus_to_exitcode(status)
            until_s = min(until_s, time.monotonic() + _STRAGGLERS_S)
        elif pid == 0:
            time.sleep(0.01)


def _main(cost_file: str, timeout_s: str, *arguments: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    peaks = _Peaks()
    peaks.start()
    started_ns = time.monotonic_ns()
    command = subprocess.Popen(arguments, stdin=subprocess.DEVNULL)
    code = _wait_for_all(command, time.monotonic() + float(timeout_s))
    wall_s = (time.monotonic_ns() - started_ns) / 1e9
    peaks.stop.set()
    peaks.join()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    cost = Cost(started_ns, wall_s, cpu_s, peaks.rss_bytes, peaks.pss_bytes, code)
    Path(cost_file).write_text(json.dumps(asdict(cost)))


if __name__ == "__main__":
    _main(*sys.argv[1:])

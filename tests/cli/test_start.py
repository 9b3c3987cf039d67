"""What a command's process is like once its modules are loaded."""

import gc
import subprocess
import sys
from pathlib import Path

import orjson

from agentx_replay.cli import loaded

ROOT = Path(__file__).parents[2]
_TOLD = """
import sys
from agentx_replay.cli import main

def tell(event, arguments):
    if event == "subprocess.Popen":
        print(*arguments[1])

sys.addaudithook(tell)
main()
"""


def test_garbage_is_collected_once_all_is_loaded_but_not_sought_in_what_was() -> None:
    gc.disable()
    try:
        loaded()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.enable()
        gc.unfreeze()


def test_a_run_that_needs_no_other_process_starts_none(tmp_path: Path) -> None:
    options = ("--virtual", "--json", "--concurrency", "1", "--scenario", "quick")
    command = [sys.executable, "-c", _TOLD, "run", *options, "--out", str(tmp_path / "run")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    assert "points" in orjson.loads(done.stdout)

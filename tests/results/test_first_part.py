"""A recorder sets up all it needs before it is given anything."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from pathlib import Path
from record_cases import LEVEL, dispatch, response
from agentx_replay.results.recorder import Recorder
recorder = Recorder(Path(sys.argv[1]), LEVEL, origin_ns=0)
ready = set(sys.modules)
recorder.record(dispatch(), response(arrival_ns=[1, 2, 3]))
recorder.close()
print(*sorted(set(sys.modules) - ready))
"""


def test_nothing_is_imported_when_the_first_part_is_written(tmp_path: Path) -> None:
    """An import holds up every thread of the process for as long as it takes."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ""

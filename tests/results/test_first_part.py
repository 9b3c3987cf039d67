"""What recording imports: pandas never, and nothing once a recorder is there."""

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
try:
    import pandas
except RuntimeError as error:
    print(error)
"""


def test_a_first_part_imports_nothing_and_pandas_is_left_to_others(tmp_path: Path) -> None:
    """An import holds up every thread of the process for as long as it takes."""
    (tmp_path / "pandas.py").write_text('raise RuntimeError("pandas was loaded")')
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "c0002")],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}:{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("\npandas was loaded\n", "")

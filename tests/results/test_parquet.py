"""How record files are written and read, whatever else is installed."""

import subprocess
import sys
from pathlib import Path

_RECORD = """
import sys
import agentx_replay.results.records
import pyarrow as pa
pa.array([1])
assert "pandas" not in sys.modules
try:
    import pandas
except RuntimeError as error:
    print(error)
"""


def test_records_do_not_load_pandas_where_it_is_installed_and_others_still_can(
    tmp_path: Path,
) -> None:
    (tmp_path / "pandas.py").write_text('raise RuntimeError("pandas was loaded")')
    command = [sys.executable, "-c", _RECORD]
    path = f"{tmp_path}:{Path(__file__).parents[2]}"
    done = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("pandas was loaded\n", "")

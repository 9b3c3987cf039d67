"""Every number of four kept runs, wherever it is shown, is what it was.

A number moves only where a change says so: see ``golden_files``.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from golden_files import Goldens, numbers_of_page
from kept_runs import RUNS

from agentx_replay.experiment.late_fidelity import with_late_fidelity
from agentx_replay.report.rebuild import Report
from agentx_replay.results.run_directory import read_points
from agentx_replay.results.schema import POINTS

TARGETS = (30.0, 50.0, 100.0)
ANOTHER_EACH_TIME = {"mark", "out", "page"}


@pytest.mark.parametrize("name", RUNS)
def test_the_numbers_of_a_kept_run_are_frozen(
    name: str, kept_run: Callable[[str], Path], goldens: Goldens
) -> None:
    out = kept_run(name)
    points = [_lasting(dict(point.document)) for point in read_points(out)]
    goldens.check_values(f"numbers/{name}-point", points)

    found = Report.of(out, TARGETS)
    run, _ = with_late_fidelity(found.run)
    found = replace(found, run=run)
    goldens.check_values(f"numbers/{name}-report", _lasting(found.plain()))

    page = found.write().read_text()
    goldens.check_values(f"numbers/{name}-page", numbers_of_page(page))
    rows = pq.read_table(POINTS.whole(out)).to_pylist()
    goldens.check_values(f"numbers/{name}-points", rows)


def _lasting(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in ANOTHER_EACH_TIME}

"""Throughput at the targets in a terminal: what is the same for several of them is said once."""

import re
from pathlib import Path

from made_runs import Level, make_run

from agentx_replay.report.rebuild import Report


def test_targets_beyond_one_end_of_the_curve_are_told_together(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [Level(12, 60.0, 6000.0), Level(16, 40.0, 9134.0)])
    text = Report.of(run, (30.0, 10.0, 40.0, 150.0, 100.0)).text()
    said = " ".join(text.split())
    # Faster than 30 is faster than 10, too; not as fast as 100 is not as fast as 150.
    assert re.search(r" 10, 30 not reached [^(]* 30 \([^)]* 40\.0 [^)]* 16, 9,134 tok", said)
    assert re.search(r" 100, 150 not reached [^(]* 100 \([^)]* 60\.0 [^)]* 12, 6,000 tok", said)
    assert said.count("not reached") == 2

"""Throughput at the targets in a terminal: what is the same for several of them is said once."""

from pathlib import Path

from made_runs import Level, make_run

from agentx_replay.report.rebuild import Report


def test_targets_beyond_one_end_of_the_curve_are_told_together(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [Level(12, 60.0, 6000.0), Level(16, 40.0, 9134.0)])
    text = Report.of(run, (30.0, 10.0, 40.0, 150.0, 100.0)).text()
    said = " ".join(text.split())
    # Faster than 30 is faster than 10, too; not as fast as 100 is not as fast as 150.
    assert (
        "10, 30 not reached every valid level is faster than 30 (slowest: 40.0 at concurrency 16, "
        "9,134 tok/s/GPU (window)): try a higher concurrency 40 "
    ) in said
    assert (
        "100, 150 not reached no valid level is as fast as 100 (fastest: 60.0 at concurrency 12, "
        "6,000 tok/s/GPU (window)) frontier"
    ) in said
    assert said.count("not reached") == 2

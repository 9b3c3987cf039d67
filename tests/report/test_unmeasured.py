"""A level that was asked for and has no point is named, wherever a run is shown."""

import shutil
from pathlib import Path

from made_runs import Level, make_run

from agentx_replay.report.rebuild import Report
from agentx_replay.results.run_directory import RunDirectory, read_sweep

LEVELS = [Level(12, 160.0, 1500.0), Level(16, 60.0, 6000.0)]


def asked(path: Path, levels: list[int] | None) -> Path:
    """A run of levels 12 and 16 that was asked for ``levels``."""
    make_run(path, LEVELS)
    asked = {} if levels is None else {"levels": levels}
    RunDirectory(path).write_sweep(read_sweep(path) | asked)
    return path


def report(path: Path, levels: list[int] | None) -> Report:
    return Report.of(asked(path, levels), (100.0,))


def test_a_run_with_all_its_levels_says_nothing(tmp_path: Path) -> None:
    for number, levels in enumerate(([12, 16], None)):  # an older run does not tell its levels
        found = report(tmp_path / str(number), levels)
        assert found.plain()["not_measured"] == []
        assert "not measured" not in found.text()
        assert found.sound


def test_levels_that_were_not_begun_are_named_and_how_to_go_on(tmp_path: Path) -> None:
    found = report(tmp_path / "run", [16, 64, 12, 32])
    assert found.plain()["not_measured"] == [
        {"concurrency": 32, "start": 1, "why": "not begun"},
        {"concurrency": 64, "start": 1, "why": "not begun"},
    ]
    go_on = (
        "not measured: 32, 64 agents; this goes on:\nagentx-replay sweep --resume "
        f"--out {tmp_path}/run"
    )
    assert go_on in found.text()  # a line that is not wrapped, so that it can be copied
    assert not found.sound
    assert "ot measured: 32, 64 agents;" in found.write().read_text()


def test_starts_that_were_not_begun_are_named(tmp_path: Path) -> None:
    path = asked(tmp_path / "run", [12, 16])
    RunDirectory(path).write_sweep({**read_sweep(path), "starts": 2})
    found = Report.of(path, (100.0,))
    assert found.plain()["not_measured"] == [
        {"concurrency": 12, "start": 2, "why": "not begun"},
        {"concurrency": 16, "start": 2, "why": "not begun"},
    ]
    assert "not measured: 12 agents (start 2), 16 agents (start 2); " in found.text()
    assert not found.sound


def test_a_level_that_lost_its_point_is_named_and_counts_as_missing(tmp_path: Path) -> None:
    path = asked(tmp_path / "run", [12, 16])
    (path / "c0016" / "point.json").unlink()
    found = Report.of(path, (100.0,))
    assert found.plain()["not_measured"] == [
        {"concurrency": 16, "start": 1, "why": "c0016 has no point.json"}
    ]
    assert ": c0016 has no point.json" in found.text()
    assert not found.sound


def test_a_level_whose_directory_is_gone_was_not_measured(tmp_path: Path) -> None:
    path = asked(tmp_path / "run", [12, 16])
    shutil.rmtree(path / "c0012")
    assert "not measured: 12 agents;" in Report.of(path, (100.0,)).text()


def test_other_files_in_a_run_directory_are_no_levels(tmp_path: Path) -> None:
    path = asked(tmp_path / "run", [12, 16])
    for name in ("c0099", "calibration.json"):
        (path / name).write_text("{}")
    (path / "copies").mkdir()
    for stray in ("c0012-s01", "c12", "c0012-old"):
        shutil.copytree(path / "c0012", path / stray)
    (path / "c0016-s02").mkdir()
    found = Report.of(path, (100.0,))
    assert [point.name for point in found.run.points] == ["12", "16"]
    assert found.plain()["not_measured"] == []
    assert found.sound

"""The report of a run as a whole, for a terminal."""

from pathlib import Path

from made_runs import Level, make_run

from agentx_replay.report.rebuild import Report

LEVELS = (Level(12, 160.0, 1500.0), Level(16, 60.0, 6000.0))


def test_the_answer_stands_between_the_tables_and_the_definitions(tmp_path: Path) -> None:
    text = Report.of(make_run(tmp_path / "r", LEVELS), (100.0,)).text()
    parts = ("ITL P50", "at tok/s/user", "frontier", "ITL: the mean gap", "intervals: 95%")
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_intervals_are_explained_where_a_target_is_reached(tmp_path: Path) -> None:
    path = make_run(tmp_path / "r", LEVELS)
    assert "intervals: 95%" in Report.of(path, (100.0,)).text()
    assert "intervals: 95%" not in Report.of(path, (500.0,)).text()


def test_every_line_fits_100_columns(tmp_path: Path) -> None:
    urls = [f"http://127.0.0.1:{8000 + place}/v1" for place in range(16)]
    path = make_run(tmp_path / "r", LEVELS, target={"kind": "server", "url": urls, "model": "m"})
    assert max(map(len, Report.of(path, (30.0, 100.0)).text().splitlines())) <= 100

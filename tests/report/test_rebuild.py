"""The report of a run as a whole, for a terminal."""

from pathlib import Path

from made_runs import Level, make_run

from agentx_replay.report.rebuild import Report

UNLIKE = "levels-unlike"
LEVELS = (Level(12, 160.0, 1500.0), Level(16, 60.0, 6000.0))


def test_the_answer_stands_between_the_tables_and_the_definitions(tmp_path: Path) -> None:
    text = Report.of(make_run(tmp_path / "r", LEVELS), (100.0,)).text()
    parts = ("ITL P50", "at tok/s/user", "frontier", "ITL: the mean gap", "1 start: no")
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_intervals_are_explained_where_a_target_is_reached(tmp_path: Path) -> None:
    path = make_run(tmp_path / "r", LEVELS)
    assert "1 start: no interval" in Report.of(path, (100.0,)).text()
    assert "1 start" not in Report.of(path, (500.0,)).text()


def test_every_line_fits_100_columns(tmp_path: Path) -> None:
    urls = [f"http://127.0.0.1:{8000 + place}/v1" for place in range(16)]
    path = make_run(tmp_path / "r", LEVELS, target={"kind": "server", "url": urls, "model": "m"})
    assert max(map(len, Report.of(path, (30.0, 100.0)).text().splitlines())) <= 100


def test_that_neighbouring_levels_did_other_work_is_said_once_wherever_the_run_is(
    tmp_path: Path,
) -> None:
    report = Report.of(make_run(tmp_path / "r", LEVELS), (100.0,))
    (said,) = [each["text"] for each in report.plain()["findings"] if each["code"] == UNLIKE]
    # 1,500 tok/s × 8 GPUs × 100 s / 12 lanes, less 101 of output; 6,000 over 16 lanes likewise.
    assert "99,899 tokens at 12, 299,899 tokens at 16" in said
    assert " ".join(report.text().split()).count(said) == 1
    assert report.write().read_text().split("</header>")[0].count(said) == 1


def test_levels_that_did_like_work_are_not_spoken_of(tmp_path: Path) -> None:
    like = (Level(12, 160.0, 1500.0), Level(16, 60.0, 2000.0))
    report = Report.of(make_run(tmp_path / "r", like), (100.0,))
    assert UNLIKE not in [each["code"] for each in report.plain()["findings"]]


def test_a_point_that_is_known_is_not_computed_again(tmp_path: Path) -> None:
    path = make_run(tmp_path / "r", LEVELS)
    low, high = Report.of(path, (100.0,)).run.points
    again = Report.of(path, (100.0,), [high]).run.points
    assert again == [low, high]
    assert again[0] is not low
    assert again[1] is high

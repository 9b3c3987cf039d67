"""What is said of starts on screen, on the page and in JSON; and of one run alone, what is not."""

from pathlib import Path

import pytest
from made_runs import Level, make_run

from agentx_replay.analysis.curve import Curve, curve_of
from agentx_replay.analysis.run import read_run
from agentx_replay.replay.ports import Status
from agentx_replay.report.rebuild import Report
from agentx_replay.report.start_lines import uncertainty

ONCE = Level(12, 100.0, 5000.0)
TWICE = (Level(16, 40.0, 9000.0, start=1), Level(16, 60.0, 11_000.0, start=2))
FAILED = Level(16, 60.0, 11_000.0, status=Status.FAILED, start=3)
NOT_COVERED = "not how far it varies from run to run"
FURTHER = "starts lie further apart in speed and throughput than the interval of a single run"


def report(path: Path, *levels: Level) -> Report:
    return Report.of(make_run(path, levels), (50.0, 75.0))


def curve(path: Path, *levels: Level) -> Curve:
    return curve_of(read_run(make_run(path, levels)))


def test_every_start_is_a_row_and_the_level_a_row_of_its_own(tmp_path: Path) -> None:
    lines = report(tmp_path / "r", ONCE, *TWICE, FAILED).text().splitlines()
    rows = [line.split()[:3] for line in lines[3:7]]
    assert rows == [["12", "1", "100"], ["16", "1", "40.0"], ["16", "2", "60.0"], ["16", "3", "-"]]
    at = lines.index(next(line for line in lines if line.startswith("conc  starts")))
    # 48 is the harmonic mean of 40 and 60: they lie at 40/48 - 1 = -16.7 % and 60/48 - 1 = 25 %.
    # Lanes are all alike, so the sessions leave nothing uncertain.
    assert lines[at : at + 2] == [
        "conc  starts  tok/s/user       runs %  sessions %  tok/s/GPU (window)       runs %  "
        "sessions %",
        "  16  2 of 3        48.0  -16.7 +25.0   +0.0 +0.0              10,000  -10.0 +10.0   "
        "+0.0 +0.0",
    ]


def test_what_is_to_be_minded_of_starts_is_said(tmp_path: Path) -> None:
    said = " ".join(report(tmp_path / "r", ONCE, *TWICE, FAILED).text().split())
    assert "concurrency 16-s3 is not valid: 16 of 16 requests (100.0%) failed, over 1%" in said
    assert f"concurrency 16: {FURTHER}" in said
    assert "known from few starts at concurrency 16 (2): intervals are the wider for it" in said
    assert NOT_COVERED not in said
    assert (
        "how far it varies from run to run; not that where measured once: concurrency 12." in said
    )


def test_of_four_starts_that_agree_nothing_is_to_be_minded(tmp_path: Path) -> None:
    levels = [Level(16, 50.0, 9000.0, uneven=0.2, start=n) for n in (1, 2, 3, 4)]
    said = " ".join(report(tmp_path / "r", *levels).text().split())
    assert "16 4 of 4 50.0 +0.0 +0.0" in said
    assert "lie further apart" not in said
    assert "few starts" not in said


def test_levels_that_are_measured_once_are_told_as_ever(tmp_path: Path) -> None:
    found = report(tmp_path / "r", ONCE, TWICE[0])
    text = found.text()
    assert text.splitlines()[0].split()[:2] == ["conc", "speed"]
    assert "start" not in text
    assert NOT_COVERED in " ".join(text.split())
    assert found.plain()["curve"]["run_to_run"] == []
    page = found.write().read_text()
    assert NOT_COVERED in page
    assert "From run to run" not in page


def test_json_has_the_starts_and_how_far_they_lie_apart(tmp_path: Path) -> None:
    plain = report(tmp_path / "r", ONCE, *TWICE).plain()
    assert [(row["concurrency"], row["start"]) for row in plain["points"]] == [
        (12, 1), (16, 1), (16, 2),
    ]  # fmt: skip
    (level,) = plain["curve"]["run_to_run"]
    assert (level["concurrency"], level["starts"]) == (16, 2)
    assert level["throughput"]["mean"] == pytest.approx(10_000.0)
    assert level["throughput"]["lowest"] == pytest.approx(-0.1)


def test_the_page_shows_the_starts(tmp_path: Path) -> None:
    page = report(tmp_path / "r", ONCE, *TWICE).write().read_text()
    assert "<h3>From run to run</h3>" in page
    assert f"Concurrency 16: {FURTHER}" in page
    assert page.count("<title>one start: ") == 2
    assert "one start of a level, whose mean is its point" in page
    assert ">16-s2</label>" in page
    assert "16 lanes, start 2" in page
    assert "✓ 3 of 3 starts valid" in page
    assert NOT_COVERED not in page


def test_what_intervals_cover_is_said_for_each_run(tmp_path: Path) -> None:
    once, twice = curve(tmp_path / "a", ONCE, TWICE[0]), curve(tmp_path / "b", *TWICE)
    covered = "by Student's t over starts, how far it varies from run to run"
    assert uncertainty({"": once}).endswith(f"which sessions were played, {NOT_COVERED}.")
    assert uncertainty({"": twice}).endswith(f"{covered}.")
    assert uncertainty({"a": once, "b": twice}).endswith(
        f"{covered}; not that where measured once: a concurrency 12, 16."
    )
    assert uncertainty({"a": once, "b": once}) == uncertainty({"": once})

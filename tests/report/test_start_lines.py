"""What is said of starts on screen, on the page and in JSON; and what of one start is not."""

import re
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
COVERED = "other starting points and sessions of this corpus, same running server"
STARTS_HEADING = "<h3>From start to start</h3>"
ONE = "1 start: no interval"


def report(path: Path, *levels: Level) -> Report:
    return Report.of(make_run(path, levels), (50.0, 75.0))


def curve(path: Path, *levels: Level) -> Curve:
    return curve_of(read_run(make_run(path, levels)))


def test_every_start_is_a_row_and_the_level_a_row_of_its_own(tmp_path: Path) -> None:
    text = report(tmp_path / "r", ONCE, *TWICE, FAILED).text()
    lines = text.splitlines()
    rows = [line.split()[:2] for line in lines[3:7]]
    assert rows == [["12", "100"], ["16", "40.0"], ["16-s2", "60.0"], ["16-s3", "-"]]
    at = lines.index(next(line for line in lines if line.startswith("conc  starts")))
    # The mean speed is √(40 · 60) = 48.99, 40 lies 18.4 % below it and 60 22.5 % above. The two lie
    # ln 1.5 = 0.4055 apart: 12.706 · 0.4055 / 2 = 2.576, so 48.99 / 13.14 and 48.99 · 13.14.
    # Throughput likewise: √(9,000 · 11,000) = 9,950, ln 11/9 = 0.2007, a factor of e^1.2749.
    assert [line.split() for line in lines[at : at + 2]] == [
        ["conc", "starts", "tok/s/user", "95%", "range", "%", "tok/s/GPU", "95%", "range", "%"],
        ["16", "2", "of", "3", "49.0", "[3.73,", "644]", "-18.4", "+22.5", "9,950", "[2,781,",
         "35,603]", "-9.5", "+10.6"],
    ]  # fmt: skip
    assert max(map(len, lines)) <= 100


def test_one_start_has_no_interval_anywhere(tmp_path: Path) -> None:
    found = report(tmp_path / "r", ONCE, TWICE[0])
    text = found.text()
    assert text.splitlines()[0].split()[:2] == ["conc", "speed"]
    (at_75,) = (line for line in text.splitlines() if line.strip().startswith("75"))
    assert re.search(r" 6,667 .* 12 and 16; 1 start", at_75)
    assert "±" not in text
    said = " ".join(text.split())
    assert ONE in said
    assert COVERED not in said
    plain = found.plain()["curve"]
    assert [level["intervals"] for level in plain["levels"]] == [None, None]
    assert [value["interval"] for value in plain["at"]] == [None, None]
    page = found.write().read_text()
    assert ONE in page
    assert STARTS_HEADING not in page


def test_lanes_alone_are_told_on_demand(tmp_path: Path) -> None:
    # 16 lanes of which half send 20 % more: 0.2 / √16 · 1.96 is 9.8 %.
    found = report(tmp_path / "r", Level(9, 100.0, 5000.0), Level(16, 50.0, 9000.0, uneven=0.2))
    assert "lanes ±" not in found.text()
    lines = found.text(full=True).splitlines()
    at = next(number for number, line in enumerate(lines) if "other lanes of the same" in line)
    nine = next(n for n in range(at, len(lines)) if lines[n].startswith("  9:"))
    sixteen = float(lines[nine + 1].removeprefix("  16: lanes ±").removesuffix("%"))
    assert lines[nine] == "  9: -"
    assert sixteen == pytest.approx(9.8, abs=1.0)


def test_json_has_the_starts_of_each_level_and_target(tmp_path: Path) -> None:
    plain = report(tmp_path / "r", ONCE, Level(12, 100.0, 5000.0, start=2), *TWICE).plain()
    assert [(row["concurrency"], row["start"]) for row in plain["points"]] == [
        (12, 1), (12, 2), (16, 1), (16, 2),
    ]  # fmt: skip
    curve = plain["curve"]
    assert curve["intervals_cover"] == COVERED
    (_, level) = curve["levels"]
    assert level["throughput"] == pytest.approx(9949.9, abs=0.1)
    assert [each["start"] for each in level["starts"]] == [1, 2]
    assert level["intervals"]["throughput"]["low"] == pytest.approx(2781, abs=1)
    at_50, at_75 = curve["at"]
    # Start 2 is 60 tok/s/user fast at least.
    assert (at_50["at"]["throughput"], at_50["no_interval"]) == (None, "not reached")
    assert [each["throughput"] is None for each in at_50["starts"]] == [False, True]
    assert at_75["interval"] is not None


def test_the_page_shows_the_starts(tmp_path: Path) -> None:
    page = report(tmp_path / "r", ONCE, *TWICE).write().read_text()
    assert STARTS_HEADING in page
    assert page.count("<title>one start: ") == 2
    assert ">16-s2</label>" in page
    assert "16 lanes, start 2" in page
    assert "✓ 3 of 3 starts valid" in page


def test_what_intervals_cover_is_said_once_and_where_there_are_none(tmp_path: Path) -> None:
    once, twice = curve(tmp_path / "a", ONCE, TWICE[0]), curve(tmp_path / "b", *TWICE)
    said = {(COVERED in uncertainty(of), ONE in uncertainty(of)) for of in ([once], [once, once])}
    assert said == {(False, True)}
    assert (COVERED in uncertainty([twice]), ONE in uncertainty([twice])) == (True, False)
    assert (COVERED in uncertainty([once, twice]), ONE in uncertainty([once, twice])) == (
        True,
        True,
    )

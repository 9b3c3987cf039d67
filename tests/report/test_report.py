"""The report of a run as a whole: everything in text, plain values, and what is said of starts."""

from pathlib import Path
from typing import Any

import pytest
from made_runs import Level, make_run
from record_cases import SECOND, server_rows, write_rows

from agentx_replay.analysis.comparison import Contender, compare
from agentx_replay.analysis.curve import Curve, curve_of
from agentx_replay.analysis.run import read_run
from agentx_replay.replay.ports import Status
from agentx_replay.report.compare_sections import compare_sections
from agentx_replay.report.rebuild import Report
from agentx_replay.report.run_sections import lanes_section, starts_section, uncertainty
from agentx_replay.report.tables import sections_text
from agentx_replay.results.layout import Measurement, point_directory
from agentx_replay.results.schema import SERVER

UNLIKE = "levels-unlike"
LEVELS = (Level(12, 160.0, 1500.0), Level(16, 60.0, 6000.0))
ONCE = Level(12, 100.0, 5000.0)
TWICE = (Level(16, 40.0, 9000.0, start=1), Level(16, 60.0, 11_000.0, start=2))
FAILED = Level(16, 60.0, 11_000.0, status=Status.FAILED, start=3)
COVERED = "other starting points and sessions of this corpus, same running server"
ONE = "1 start: no interval"


def report(path: Path, *levels: Level) -> Report:
    return Report.of(make_run(path, levels), (50.0, 75.0))


def curve(path: Path, *levels: Level) -> Curve:
    return curve_of(read_run(make_run(path, levels)))


def codes(of: Report) -> list[str]:
    return [each["code"] for each in of.plain()["findings"]]


@pytest.mark.parametrize(
    ("settings", "targets"),
    [
        ({"at": [40.0, 80]}, [40.0, 80.0]),
        ({}, [30.0, 50.0, 150.0]),
        ({"at": ["fast"]}, [30.0, 50.0, 150.0]),
    ],
)
def test_targets_are_those_the_run_was_asked_for(
    tmp_path: Path, settings: dict[str, Any], targets: list[float]
) -> None:
    found = Report.of(make_run(tmp_path / "r", LEVELS, settings=settings), ())
    assert [value.target for value in found.curve.values] == targets


@pytest.mark.parametrize("width", [80, 100])
def test_every_line_fits_the_width(tmp_path: Path, width: int) -> None:
    urls = [f"http://127.0.0.1:{8000 + place}/v1" for place in range(16)]
    path = make_run(tmp_path / "r", LEVELS, target={"kind": "server", "url": urls, "model": "m"})
    found = Report.of(path, (30.0, 100.0))
    assert max(map(len, found.text(width).splitlines())) <= width
    assert max(len(text) for text, _ in found.brief(width)) <= width


def test_that_neighbouring_levels_did_other_work_is_said_once_wherever_the_run_is(
    tmp_path: Path,
) -> None:
    found = Report.of(make_run(tmp_path / "r", LEVELS), (100.0,))
    (said,) = [each["text"] for each in found.plain()["findings"] if each["code"] == UNLIKE]
    # 1,500 tok/s × 8 GPUs × 100 s / 12 lanes, less 101 of output; 6,000 over 16 lanes likewise.
    assert "99,899 tokens at 12, 299,899 tokens at 16" in said
    brief = "\n".join(text for text, _ in found.brief(80))
    for text in (found.text(), brief, found.write().read_text()):
        assert " ".join(text.split()).count(said) == 1


def test_levels_that_did_like_work_are_not_spoken_of(tmp_path: Path) -> None:
    like = (Level(12, 160.0, 1500.0), Level(16, 60.0, 2000.0))
    assert UNLIKE not in codes(Report.of(make_run(tmp_path / "r", like), (100.0,)))


def test_a_point_that_is_known_is_not_computed_again(tmp_path: Path) -> None:
    path = make_run(tmp_path / "r", LEVELS)
    low, high = Report.of(path, (100.0,)).run.points
    again = Report.of(path, (100.0,), [high]).run.points
    assert again[0] is not low
    assert again[1] is high


def test_csv_has_the_points(tmp_path: Path) -> None:
    head, *rows = Report.of(make_run(tmp_path / "r", LEVELS), ()).csv().splitlines()
    assert head.split(",")[:2] == ["concurrency", "start"]
    assert [row.split(",")[:2] for row in rows] == [["12", "1"], ["16", "1"]]


# --- a server that somebody else used ------------------------------------------------------------

# Both lanes of level 2 send 1,000 tok/s × 8 GPUs × 100 s / 2 lanes, less 101 of output.
SENT_TOKENS = 2 * (400_000 - 101)
SHARED = (Level(2, 60.0, 1000.0), Level(4, 40.0, 1500.0))
SAID = "2 agents: the server looked up 100% more prompt tokens"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A run at whose lower level the server looked up twice what the run sent."""
    path = make_run(tmp_path / "ours", SHARED)
    names = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total")
    scrapes = [
        ("http://127.0.0.1:8000/metrics", second * SECOND, [f"{names[0]} {queries}",
         f"{names[1]} {queries // 4}"])
        for second, queries in ((0, 0), (100, 2 * SENT_TOKENS))
    ]  # fmt: skip
    write_rows(point_directory(path, Measurement(2)), SERVER, server_rows(scrapes))
    return path


def test_a_warning_is_said_once_and_referred_to_where_its_level_is_read_off(shared: Path) -> None:
    found = Report.of(shared, (50.0,))
    said = " ".join(found.text().split())
    assert said.count(SAID) == 1
    assert "at 50 tok/s/user: " in said.partition("mind the warnings on 2, 4 agents")[0]
    assert found.write().read_text().count(SAID) == 1
    low, high = found.plain()["points"]
    assert ["server-shared" in [f["code"] for f in p["findings"]] for p in (low, high)] == [
        True, False,
    ]  # fmt: skip


def test_a_comparison_refers_to_the_warnings_of_the_run_that_has_them(
    shared: Path, tmp_path: Path
) -> None:
    alone = make_run(tmp_path / "theirs", [Level(32, 60.0, 1000.0), Level(48, 40.0, 1500.0)])
    runs = [Contender(path.name, Report.of(path, ()).run, None, None) for path in (alone, shared)]
    said = " ".join(sections_text(compare_sections(compare(runs, (50.0,)), None), 80).split())
    before, _ = said.split("mind the warnings on 2, 4 agents")
    assert before.rindex(" ours: ") > before.rindex(" theirs: ")


# --- starts --------------------------------------------------------------------------------------


def test_every_level_of_several_starts_is_a_row_with_its_interval(tmp_path: Path) -> None:
    found = report(tmp_path / "r", ONCE, *TWICE, FAILED)
    names = ["12", "16", "16 (start 2)", "16 (start 3)"]
    assert [point.name for point in found.run.points] == names
    # The mean speed is √(40 · 60) = 48.99, 40 lies 18.4 % below it and 60 22.5 % above. The two lie
    # ln 1.5 = 0.4055 apart: 12.706 · 0.4055 / 2 = 2.576, so 48.99 / 13.14 and 48.99 · 13.14.
    # Throughput likewise: √(9,000 · 11,000) = 9,950, ln 11/9 = 0.2007, a factor of e^1.2749.
    assert [list(row) for row in starts_section(found.curve, 3).rows] == [
        ["16", "2 of 3", "49.0", "[3.73, 644]", "-18.4 +22.5", "9,950", "[2,781, 35,603]",
         "-9.5 +10.6"],
    ]  # fmt: skip


def test_one_start_has_no_interval_anywhere(tmp_path: Path) -> None:
    found = report(tmp_path / "r", ONCE, TWICE[0])
    said = " ".join(found.text().split())
    assert "at 75 tok/s/user: 6,667 tok/s/GPU (window), between 12 and 16 agents (1 start)" in said
    assert ONE in said
    assert COVERED not in said
    plain = found.plain()["curve"]
    assert [level["intervals"] for level in plain["levels"]] == [None, None]
    assert [value["interval"] for value in plain["at"]] == [None, None]
    assert not starts_section(found.curve, 3).has_words
    assert ONE in found.write().read_text()


def test_lanes_alone_are_told_in_the_whole_report(tmp_path: Path) -> None:
    # 16 lanes of which half send 20 % more: 0.2 / √16 · 1.96 is 9.8 %.
    found = report(tmp_path / "r", Level(9, 100.0, 5000.0), Level(16, 50.0, 9000.0, uneven=0.2))
    nine, sixteen = lanes_section(found.run).rows
    assert nine == ["9", "-"]
    assert float(sixteen[1].strip("±%")) == pytest.approx(9.8, abs=1.0)


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
    assert at_50["no_interval"] == "1 of 2 starts reach it"
    assert [each["throughput"] is None for each in at_50["starts"]] == [False, True]
    assert at_75["interval"] is not None


def test_the_page_shows_the_starts(tmp_path: Path) -> None:
    page = report(tmp_path / "r", ONCE, *TWICE).write().read_text()
    assert page.count("<title>one start: ") == 2
    assert ">16 (start 2)</label>" in page
    assert "16 agents, start 2" in page
    assert "3 of 3 starts valid" in page


def test_what_intervals_cover_is_said_once_and_where_there_are_none(tmp_path: Path) -> None:
    once, twice = curve(tmp_path / "a", ONCE, TWICE[0]), curve(tmp_path / "b", *TWICE)
    cases = (([once], False, True), ([once, once], False, True), ([twice], True, False),
             ([once, twice], True, True))  # fmt: skip
    for curves, covered, one in cases:
        assert ((COVERED in uncertainty(curves)), (ONE in uncertainty(curves))) == (covered, one)

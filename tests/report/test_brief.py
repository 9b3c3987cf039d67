"""The first screen of a report, and of a comparison."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import pytest
from made_runs import Level, make_run, twice, write_instrument
from record_cases import SECOND

from agentx_replay.analysis.comparison import Contender, compare
from agentx_replay.analysis.run import read_run
from agentx_replay.replay.ports import Status
from agentx_replay.report.compare_brief import compare_brief
from agentx_replay.report.rebuild import Report
from agentx_replay.results.layout import Measurement, point_directory


def lines(
    path: Path, *levels: Level, width: int = 80, at: tuple[float, ...] = (50.0,)
) -> list[str]:
    """The first screen of a run."""
    return [text for text, _ in Report.of(make_run(path, levels), at).brief(width)]


FAST, SLOW = Level(12, 60.0, 6000.0), Level(16, 40.0, 9134.0)


def test_it_begins_with_what_was_measured(tmp_path: Path) -> None:
    first, second, *_ = lines(tmp_path / "r", FAST, SLOW)
    assert first == "agentx · m on 8 GPUs at http://127.0.0.1:8000/v1 · 1 session"
    assert second == "2 of 2 levels valid · not comparable: the window is 100 s, under 900 s"


def test_a_level_is_a_row_and_columns_of_nothing_are_left_out(tmp_path: Path) -> None:
    said = lines(tmp_path / "r", FAST, SLOW)
    at = said.index("") + 1
    assert said[at].split("  ")[0] == "agents"
    # Every response began 97.3 s after it was sent: 99 s less 100 tokens at 60 a second.
    assert said[at + 2].split()[:3] == ["12", "60.0", "6,000"]
    assert said[at + 3].split()[:3] == ["16", "40.0", "9,134"]
    assert "failed" not in said[at]


def test_a_level_that_is_not_valid_is_marked_and_says_why_once(tmp_path: Path) -> None:
    bad = Level(20, 40.0, 9134.0, status=Status.FAILED)
    said = lines(tmp_path / "r", FAST, SLOW, bad)
    (row,) = [line for line in said if line.startswith("20  ")]
    assert row.endswith("NOT VALID")
    assert len([line for line in said if line.startswith("20 agents: not valid: 20 of 20")]) == 1
    (head,) = [line for line in said if line.startswith("agents")]
    assert "failed" in head


def test_a_level_of_several_starts_is_one_row_and_says_which_start_is_not_valid(
    tmp_path: Path,
) -> None:
    starts = [Level(16, 40.0, 9000.0), Level(16, 60.0, 11_000.0, start=2)]
    failed = Level(16, 60.0, 11_000.0, status=Status.FAILED, start=3)
    said = lines(tmp_path / "r", FAST, *starts, failed)
    at = said.index("") + 1
    assert said[at].split()[-2:] == ["valid", "failed"]
    # √(40 · 60) and √(9,000 · 11,000), with the intervals of test_report.py.
    row = "16 49.0 [3.73, 644] 9,950 [2,781, 35,603] 97 s 2/3 16"
    assert [" ".join(line.split()) for line in said[at + 2 : at + 3]] == [row]
    assert said[at + 3].startswith("16 agents (start 3): not valid: 16 of 16 requests")


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (50.0, "at 50 tok/s/user: 7,567 tok/s/GPU, between 12 and 16 agents (1 start)"),
        # 16 · 40 / 30 is 21.3, so 24 of the ladder; 12 · 60 / 100 is 7.2, so 6.
        (30.0, "at 30 tok/s/user: every level is faster, slowest valid 40.0 → try 24 agents"),
        (100.0, "at 100 tok/s/user: every level is slower, fastest valid 60.0 → try 6 agents"),
    ],
)
def test_a_target_is_read_off_or_names_the_level_to_add(
    tmp_path: Path, at: float, said: str
) -> None:
    assert said in lines(tmp_path / "r", FAST, SLOW, at=(at,))


def test_a_value_read_off_across_a_level_that_is_not_valid_names_it(tmp_path: Path) -> None:
    bad = Level(14, 55.0, 7000.0, status=Status.FAILED)
    (at,) = [line for line in lines(tmp_path / "r", FAST, bad, SLOW, width=120) if "at 50" in line]
    assert at.endswith("between 12 and 16 agents (1 start); across 14 agents, not valid")


def test_targets_beyond_one_end_for_which_one_level_comes_next_are_told_together(
    tmp_path: Path,
) -> None:
    said = lines(tmp_path / "r", FAST, SLOW, at=(30.0, 28.0, 10.0, 40.0, 150.0, 100.0))
    # 16 · 40 / 30 is 21.3, / 28 is 22.9, both below 24; / 10 is 64; 12 · 60 / 100 is 7.2, so 6;
    # 12 · 60 / 150 is 4.8, so 4.
    assert [line.partition(" → ")[2] for line in said if "every level is" in line] == [
        "try 24 agents", "try 64 agents", "try 4 agents", "try 6 agents",
    ]  # fmt: skip


def test_one_agent_is_the_fewest_there_are(tmp_path: Path) -> None:
    (at,) = [
        line for line in lines(tmp_path / "r", Level(1, 40.0, 100.0)) if "every level is" in line
    ]
    assert "try" not in at


def test_a_narrow_terminal_does_without_the_least_telling_columns(tmp_path: Path) -> None:
    said = lines(tmp_path / "r", FAST, SLOW, width=50)
    (head,) = [line for line in said if line.startswith("agents")]
    assert ("output" in head, "tok/s/GPU" in head) == (False, True)
    assert max(map(len, said)) <= 50


def test_a_table_wider_than_the_narrowest_terminal_goes_on_below_itself(tmp_path: Path) -> None:
    said = lines(tmp_path / "r", FAST, SLOW, width=20)
    assert max(len(line) for line in said if "http" not in line) <= 20
    assert [line.split() for line in said if line.startswith("12 ")][-1] == ["12", "97", "s"]


def test_a_busy_client_alone_says_first_what_to_do(tmp_path: Path) -> None:
    path = make_run(tmp_path / "r", [FAST, SLOW], target={"kind": "built-in simulator"})
    busy = [(12, 0, s * SECOND, 100_000, s * SECOND) for s in range(100)]  # all of a core
    write_instrument(point_directory(path, Measurement(12)), busy)
    found = Report.of(path, (50.0,))
    (text, style), *rest = found.brief(80)
    assert text.startswith("This machine was too busy to measure 12 agents: ")  # 16 are valid
    assert not [line for line, _ in rest if "--workers" in line]  # the remedy is said once
    assert style == "warning"
    assert found.sound  # the simulator is there to be looked at
    server = make_run(tmp_path / "s", [FAST, SLOW])
    write_instrument(point_directory(server, Measurement(12)), busy)
    assert not Report.of(server, (50.0,)).sound


def test_no_more_than_a_few_kinds_of_warnings_are_told(tmp_path: Path) -> None:
    said = lines(tmp_path / "r", FAST, SLOW)
    assert len([line for line in said if line.startswith("! ")]) <= 4
    assert len([line for line in said if "P90 of" in line]) == 1  # of both levels


# --- a comparison --------------------------------------------------------------------------------


def compared(
    place: Path, a: list[Level], b: list[Level], prices: tuple[float | None, float | None]
) -> str:
    """The first screen of a comparison at 50 and 500 tok/s/user."""
    runs = [make_run(place / name, levels) for name, levels in (("a", a), ("b", b))]
    found = first_screen(runs, (50.0, 500.0), prices)
    return " ".join(" ".join(found).split())


def first_screen(
    runs: Sequence[Path], at: tuple[float, ...], prices: tuple[float | None, ...] = ()
) -> list[str]:
    """The lines of a comparison's first screen."""
    found = [read_run(path) for path in runs]
    return screen_of([
        Contender(run.path.name, run, price, None) for run, price in zip_longest(found, prices)
    ], at)  # fmt: skip


def screen_of(contenders: list[Contender], at: tuple[float, ...]) -> list[str]:
    found = [text for text, _ in compare_brief(compare(contenders, at), 80)]
    assert max(len(line) for line in found if not line.startswith("agentx-replay ")) <= 80
    return found


def test_it_begins_with_the_sentence_that_names_the_winner(tmp_path: Path) -> None:
    # b gives twice the tokens, exactly as often in each start; at twice the price as many per $.
    half = [replace(each, throughput=each.throughput / 2) for each in (FAST, SLOW)]
    said = compared(tmp_path, twice(half), twice([FAST, SLOW]), (1.0, 4.0))
    first = "b gives 2.00x [2.00, 2.00] the tokens per GPU and 0.50x [0.50, 0.50] per dollar of a"
    assert f"At 50 tok/s/user {first} (2 starts a side). Same work: yes." in said
    assert "a, b: at 500: every level is slower, fastest valid 60.0 → try 1 agent" in said


def test_what_prevents_a_comparison_stands_before_the_ratio_which_is_marked(
    tmp_path: Path,
) -> None:
    runs = [
        make_run(tmp_path / name, twice([FAST, SLOW]), corpus=corpus)
        for name, corpus in (("a", "c0ffee"), ("b", "0ther"))
    ]
    first, *lines = first_screen(runs, (50.0,))
    assert first.startswith("a and b did not do the same work (corpus c0ffee / 0ther): ")
    (row,) = [line.split() for line in lines if line.startswith("50    b")]
    assert row[-3] == "1.000*"
    assert "* not of the same work" in lines


def test_a_run_without_a_valid_level_says_why_and_which_command_comes_next(
    tmp_path: Path,
) -> None:
    busy = make_run(tmp_path / "busy", [FAST])
    late = [(12, 0, s * SECOND, 100_000, s * SECOND) for s in range(100)]  # all of a core
    write_instrument(point_directory(busy, Measurement(12)), late)
    first, *lines = first_screen([make_run(tmp_path / "a", [FAST, SLOW]), busy], (50.0,))
    assert first == "busy has no valid level, so there is no ratio to it."
    assert [line for line in lines if line.startswith("busy: 12 agents: not valid: client: ")]
    assert f"agentx-replay sweep --resume --out {busy} --again" in lines
    assert not [line for line in lines if "same work" in line]


@pytest.mark.parametrize("runs", [2, 3, 30])
def test_many_runs_at_three_targets_have_at_most_20_lines(tmp_path: Path, runs: int) -> None:
    of = read_run(make_run(tmp_path / "r", [FAST, SLOW, Level(20, 9.0, 9.0, status=Status.CUT)]))
    corpora = [{"corpus": {"fingerprint": f"corpus-{number}"}} for number in range(runs)]
    unlike = [replace(of, sweep={**of.sweep, **corpus}) for corpus in corpora]
    contenders = [Contender(f"r-{n}", run, 1.0, None) for n, run in enumerate(unlike)]
    lines = screen_of(contenders, (30.0, 50.0, 150.0))
    assert len(lines) <= 19  # and one that says how to see the rest
    assert len([line for line in lines if line.startswith("50 ")]) == min(runs, 5)


def test_without_an_interval_no_winner_is_named(tmp_path: Path) -> None:
    # (6,000 + 9,134) / 2 against (6,000 + 9,000) / 2.
    said = compared(tmp_path, [FAST, SLOW], [FAST, replace(SLOW, throughput=9000.0)], (None, None))
    assert "a gives 1.01x the tokens per GPU of b (1 start a side): 1 start, no winner" in said
    assert "Mtok" not in said


def test_a_run_compared_with_itself_says_so_first(tmp_path: Path) -> None:
    first, *_ = first_screen([make_run(tmp_path / n, twice([FAST, SLOW])) for n in "ab"], (50.0,))
    assert first.startswith("a and b have the same records: ")


def test_a_target_that_one_run_alone_reaches_has_no_ratio(tmp_path: Path) -> None:
    said = compared(tmp_path, [FAST, SLOW], [FAST], (None, None))
    assert "No target speed is reached by both a and b: no ratio." in said


def test_a_curve_that_turns_back_is_told_of_a_run_and_of_a_comparison(tmp_path: Path) -> None:
    # Between 1 and 2 agents 70 of 75 of the way from 1,000 to 17,000; the frontier goes on to 3.
    turning = [Level(1, 100.0, 1000.0), Level(2, 25.0, 17_000.0), Level(3, 29.0, 40_000.0)]
    of_run = lines(tmp_path / "r", *turning, at=(30.0,), width=160)
    (at,) = [line for line in of_run if line.startswith("at 30")]
    assert "15,933" in at
    assert "39,451, between 1 and 3 agents" in at
    assert any(line.startswith("! 2, 3 agents: the curve turns back") for line in of_run)
    found = first_screen([make_run(tmp_path / name, turning) for name in ("a", "b")], (30.0,))
    assert any(line.startswith("a, b: at 30") for line in found)

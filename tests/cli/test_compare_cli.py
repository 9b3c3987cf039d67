"""``compare`` and ``report`` as a person meets them: on sound runs and on what runs can become."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from command_line import finished, refusal, told
from golden_files import Goldens, text_of_page
from made_runs import Level, make_run, twice

from agentx_replay.replay.ports import Status
from agentx_replay.results.layout import Measurement
from agentx_replay.results.run_directory import PointStatus, RunDirectory, read_sweep
from agentx_replay.results.schema import REQUESTS

A = (Level(12, 60.0, 6000.0), Level(16, 40.0, 9134.0))
B = (Level(12, 60.0, 5000.0), Level(16, 40.0, 7166.0))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    where = tmp_path_factory.mktemp("runs")
    return make_run(where / "a", twice(A)), make_run(where / "b", twice(B))


def test_a_comparison_has_ratio_split_cost_and_work(
    runs: tuple[Path, Path], goldens: Goldens
) -> None:
    """At 50, halfway: 7,567 and 6,083 tok/s/GPU, a ratio of 1.244; the price of b is 1.507 times
    that of a, so a has 1.874 times the tokens per dollar, of whose logarithm 0.218 of 0.628 is
    throughput, and a token costs 46.6 % less.
    """
    prices = ("--price", "a=1.50,b=2.26", "--price-source", "the list")
    result = finished("compare", "--full", *runs, "--at", "50", *prices)
    assert result.returncode == 0, result.stderr
    for figure in (" 1.244 ", " 1.874 ", "-46.6%", " 1.507 ", " 35% ", " 65% "):
        assert figure in " ".join(result.stdout.split())
    assert max(map(len, result.stdout.splitlines())) <= 100
    goldens.check_text("words/compare", result.stdout)
    found = told("compare", *runs, "--at", "50", "--paired")
    assert (found["did_same_work"], found["paired"]) == (True, True)
    (ratio,) = found["targets"][0]["ratios"]
    assert ratio["throughput"] == pytest.approx(7567 / 6083, rel=1e-4)


def test_of_unlike_prices_shares_may_be_against_each_other(runs: tuple[Path, Path]) -> None:
    # 1.244 times the throughput at 2 / 2.2 times the price: ln 1.244 = 0.2183 and
    # ln (2 / 2.2) = −0.0953 of ln 1.1309 = 0.1230.
    said = finished("compare", "--full", *runs, "--at", "50", "--price", "a=2.2,b=2").stdout
    assert re.search(r" 177% [^%]* -77% ", " ".join(said.split()))


def test_a_price_that_is_missing_is_said(runs: tuple[Path, Path], goldens: Goldens) -> None:
    result = finished("compare", "--full", *runs, "--at", "50", "--price", "a=1.50")
    goldens.check_text("words/compare-unpriced", result.stdout)
    assert told("compare", *runs, "--price", "a=1.50")["unpriced"] == ["b"]


def test_of_one_start_no_winner_is_named_however_far_apart(
    tmp_path: Path, goldens: Goldens
) -> None:
    pair = (make_run(tmp_path / "a", A), make_run(tmp_path / "b", B))
    said = finished("compare", "--full", *pair, "--at", "50", "--price", "a=1,b=9").stdout
    assert " 1.244 " in " ".join(said.split())
    assert "±" not in said
    goldens.check_text("words/compare-one-start", said)


def test_an_advantage_is_split_only_where_a_winner_is_named(
    tmp_path: Path, goldens: Goldens
) -> None:
    # Starts at 1 and 1.1 times: 4 % more tells nobody apart.
    apart = [
        replace(each, throughput=each.throughput * (1.1 if each.start == 2 else 1.0))
        for each in twice(A)
    ]
    more = [replace(each, throughput=each.throughput * 1.04) for each in apart]
    pair = (make_run(tmp_path / "a", more), make_run(tmp_path / "b", apart))
    said = finished("compare", "--full", *pair, "--at", "50", "--price", "a=1,b=2").stdout.split(
        "\n\n"
    )[2]
    goldens.check_text("words/compare-not-told-apart", said + "\n")


def test_a_page_has_the_curves_in_one_picture_and_everything_else(
    runs: tuple[Path, Path], tmp_path: Path, goldens: Goldens
) -> None:
    page = tmp_path / "a-b.html"
    slow = make_run(tmp_path / "slow", twice(B), target={"kind": "server", "model": "n"})
    done = finished("compare", runs[0], slow, "--at", "50", "--price", "a=1,slow=2", "--html", page)
    assert done.returncode == 0
    html = page.read_text()
    figure = html.partition("<figure>")[2].partition("</figure>")[0]
    assert [name for name in ("a", "slow") if f"></i>{name}</li>" in figure] == ["a", "slow"]
    assert ">slow: 16</span>" in figure
    assert "http-equiv" in html  # the content security policy of the run's page
    goldens.check_text("words/page-compare", text_of_page(html))
    refused = refusal("compare", *runs, "--at", "50", "--json", "--html", page / "b.html")
    assert str(page / "b.html") in refused


def test_markdown_has_the_same_numbers(runs: tuple[Path, Path]) -> None:
    markdown = finished("compare", "--full", *runs, "--at", "50", "--markdown").stdout
    assert "| a | 7,567 \\[7,567, 7,567] | - |" in markdown


def test_without_a_ratio_or_without_the_same_work_the_exit_code_is_1(
    runs: tuple[Path, Path], tmp_path: Path, goldens: Goldens
) -> None:
    far = finished("compare", "--full", *runs, "--at", "500")
    assert far.returncode == 1
    goldens.check_text("words/compare-not-reached", far.stdout)
    found = told("compare", *runs, "--at", "500", exit_code=1)
    assert found["targets"][0]["ratios"][0]["throughput"] is None
    other = make_run(tmp_path / "o", twice(B), corpus="0ther")
    found = told("compare", runs[0], other, "--at", "50", exit_code=1)
    assert found["did_same_work"] is False
    assert found["same_work"][0] == {"name": "corpus", "same": False, "said": ["c0ffee", "0ther"]}


def test_starts_that_one_run_lacks_are_left_out_with_the_command_for_them(tmp_path: Path) -> None:
    one = (Level(2, 80.0, 1000.0, plan="first"), Level(4, 60.0, 1900.0, plan="first"))
    two = [*one, *(replace(level, start=2, plan="second") for level in one)]
    pair = (make_run(tmp_path / "a", one), make_run(tmp_path / "b", two))
    said = finished("compare", "--full", *pair, "--at", "70").stdout
    assert f"sweep --resume --out {pair[0]} --starts 2" in " ".join(said.split())
    found = told("compare", *pair, "--at", "70")
    assert [each["starts_left_out"] for each in found["runs"]] == [[], [2]]
    other = make_run(tmp_path / "other", [replace(each, plan="other") for each in one])
    assert "[starts-not-paired]" in refusal("compare", pair[0], other, "--paired")


def test_levels_that_one_run_has_alone_qualify_the_same_work_and_the_ratio(
    tmp_path: Path, goldens: Goldens
) -> None:
    fast = (Level(2, 80.0, 1000.0), Level(4, 60.0, 1900.0), Level(12, 20.0, 3000.0))
    slow = (*fast[:2], Level(6, 20.0, 2500.0))
    pair = (make_run(tmp_path / "a", fast), make_run(tmp_path / "b", slow))
    apart = finished("compare", "--full", *pair, "--at", "50")
    assert apart.returncode == 0
    goldens.check_text("words/compare-other-levels", apart.stdout)
    assert told("compare", *pair, "--at", "70")["at_levels_of_one"] == [False]
    found = told("compare", *pair, "--at", "50")
    assert found["at_levels_of_one"] == [True]
    (plans,) = found["plans"]
    assert (plans["same"], plans["first_alone"], plans["other_alone"]) == ([2, 4], [12], [6])
    assert plans["different"] == []


def test_the_definitions_are_left_out_at_a_target_that_no_run_reaches(
    runs: tuple[Path, Path],
) -> None:
    # Of 101 tokens in 100 s, with TTFT every run makes 1.01 tok/s/user: that row alone has values.
    blocks = finished("compare", "--full", *runs, "--at", "1.01,50").stdout.split("\n\n")
    (left_out, shown) = [block for block in blocks if block.startswith("Sensitivity")]
    assert len(left_out.splitlines()) == 2
    assert "ITL with TTFT" in shown
    (rows,) = (
        each["rows"] for each in told("compare", *runs, "--at", "1.01", exit_code=1)["sensitivity"]
    )
    (row,) = (each for each in rows if each["definition"].startswith("ITL with TTFT"))
    assert None not in row["values"]


def test_two_runs_called_the_same_are_named_by_their_paths(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    other = make_run(tmp_path / "a", B)
    result = finished("compare", "--full", runs[0], other, "--at", "50")
    assert f"At 50 tok/s/user {runs[0]} gives 1.24x " in " ".join(result.stdout.split())
    assert f" of {other} (" in " ".join(result.stdout.split())


def test_a_gpu_count_can_be_given_afterwards(runs: tuple[Path, Path], tmp_path: Path) -> None:
    bare = make_run(tmp_path / "bare", twice(B), gpus=None)
    found = told("compare", runs[0], bare, "--at", "50")
    assert (found["per_gpu"], found["without_gpu_count"]) == (False, ["bare"])
    value = found["targets"][0]["values"][0]
    assert value["throughput"] == pytest.approx(8 * 7567, rel=1e-4)
    assert "[gpu-count-missing]" in refusal("compare", runs[0], bare, "--price", "a=1")
    result = finished("compare", "--full", runs[0], bare, "--at", "50", "--gpus", "bare=8")
    assert " 1.244 [" in result.stdout
    again = ("compare", *runs, "--at", "50", "--gpus", f"{runs[0].name}=1")
    assert "[gpus-not-as-measured]" in refusal(*again)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (("--price", "c=1"), "named-number-of-no-run"),
        (("--price", "a=free"), "named-number-not-positive"),
        (("--price", "a=0"), "named-number-not-positive"),
        (("--price", "a=1e-300"), "named-number-not-positive"),
        (("--power", "1400"), "named-number-without-run"),
        (("--gpus", "a=1.5"), "gpus-not-whole"),
        (("--at", "fast"), "targets-unfit"),
        (("--at", "0"), "targets-unfit"),
        (("--json", "--markdown"), "two-formats"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    runs: tuple[Path, Path], more: tuple[str, ...], code: str
) -> None:
    assert f"[{code}]" in refusal("compare", *runs, *more)


def test_a_number_of_no_run_says_how_a_run_gets_its_name(runs: tuple[Path, Path]) -> None:
    refused = refusal("compare", *runs, "--price", "c=1")
    assert "The runs are called a, b; c=DIR in place of DIR names a run." in refused


def test_one_run_or_one_twice_is_no_comparison(runs: tuple[Path, Path]) -> None:
    assert "[one-run-to-compare]" in refusal("compare", runs[0])
    assert "[run-named-twice]" in refusal("compare", runs[0], runs[0])


# --- what a run directory can become -------------------------------------------------------------


def test_a_report_prints_the_curve_and_writes_page_and_points(runs: tuple[Path, Path]) -> None:
    found = told("report", runs[0], "--at", "50,500")["curve"]
    reached, far = found["at"]
    assert (reached["throughput"], far["throughput"]) == (pytest.approx(7567), None)
    assert reached["between"] == [12, 16]
    assert [each["start"] for each in reached["starts"]] == [1, 2]
    assert [level["concurrency"] for level in found["levels"]] == [12, 16]
    assert (runs[0] / "report.html").read_text().startswith("<!doctype html>")
    assert pq.read_table(runs[0] / "points.parquet")["concurrency"].to_pylist() == [12, 12, 16, 16]


def change_point(run: Path, level: int, **facts: Any) -> dict[str, Any]:
    """Return a point's document with other facts, without what ``write_point`` adds."""
    document = orjson.loads((run / f"c{level:04}" / "point.json").read_bytes())
    del document["concurrency"], document["status"]
    changed: dict[str, Any] = document | {"facts": document["facts"] | facts}
    return changed


def test_levels_that_were_cut_short_are_told_and_are_on_no_curve(
    tmp_path: Path, goldens: Goldens
) -> None:
    """Of six levels one is whole. The others were interrupted, killed, lost their point.json, lost
    their records, and were never begun.
    """
    levels = [Level(each, 60.0 - each, 6000.0 + 10 * each) for each in range(2, 8)]
    whole, run = make_run(tmp_path / "whole", levels), make_run(tmp_path / "r", levels)
    directory = RunDirectory(run)
    cut = change_point(run, 3, conduct={"interrupted": True})
    directory.write_point(Measurement(3), PointStatus.INTERRUPTED, cut)
    unfinished = {"facts": change_point(run, 4, window=None)["facts"]}
    directory.write_point(Measurement(4), PointStatus.RUNNING, unfinished)
    (run / "c0005" / "point.json").unlink()
    (records,) = REQUESTS.files(run / "c0006")
    records.unlink()
    shutil.rmtree(run / "c0007")
    directory.write_sweep({**read_sweep(run), "levels": [2, 3, 4, 5, 6, 7]})

    text = finished("report", run, "--at", "50").stdout
    goldens.check_text("words/report-cut-short", text.replace(str(tmp_path), "PLACE"))
    found = told("report", run, "--at", "50", exit_code=1)
    codes = {each["concurrency"]: {f["code"] for f in each["findings"]} for each in found["points"]}
    assert codes.keys() == {2, 3, 4, 6}
    assert "run-interrupted" in codes[3]
    assert "not-finished" in codes[4]
    assert "nothing-sent" in codes[6]
    assert [each["concurrency"] for each in found["not_measured"]] == [5, 7]
    assert found["curve"]["frontier"] == [2]
    (value,) = found["curve"]["at"]
    assert (value["throughput"], value["every_level_is"]) == (None, "faster")
    compared = told("compare", whole, run, "--at", "57", exit_code=1)
    assert compared["targets"][0]["ratios"][0]["throughput"] is None
    left_out = compared["runs"][1]["left_out"]
    assert [each["concurrency"] for each in left_out] == [3, 4, 5, 6, 7]


def test_levels_that_cannot_be_read_are_named_by_report_and_compare_alike(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    """Records of another version, records that are no Parquet, a point without its facts."""
    levels = [Level(each, 60.0, 6000.0) for each in (2, 3, 4, 5)]
    run = make_run(tmp_path / "r", levels)
    files = {each: next(iter(REQUESTS.files(run / f"c{each:04}"))) for each in (2, 3)}
    version = {b"agentx_replay.schema_version": b"99"}
    pq.write_table(pq.read_table(files[2]).replace_schema_metadata(version), files[2])
    files[3].write_bytes(b"PAR1 and no more")
    point = run / "c0004" / "point.json"
    document = orjson.loads(point.read_bytes())
    del document["facts"]["gpus"]
    point.write_bytes(orjson.dumps(document))
    commands = (("report", run), ("report", run, "--json"), ("compare", "--full", runs[0], run))
    for command in commands:
        result = finished(*command)
        assert result.returncode == 1
        for broken in ("c0002", "c0003", "c0004"):
            assert str(run / broken) in result.stdout
        assert str(run / "c0005") not in result.stdout
    assert [
        level["concurrency"] for level in told("report", run, exit_code=1)["curve"]["levels"]
    ] == [5]
    point.write_bytes(b'{"concurr')
    for command in commands:
        said = refusal(*command)
        assert "[json-unreadable]" in said
        assert str(run / "c0004") in said


def test_one_point_failed_points_and_no_success_have_clear_answers(tmp_path: Path) -> None:
    one = make_run(tmp_path / "one", A[:1])
    (value,) = told("report", one, "--at", "50")["curve"]["at"]
    nearest = value["nearest"]
    assert (nearest["concurrency"], nearest["throughput"]) == (12, pytest.approx(6000))
    none = make_run(tmp_path / "none", [Level(4, 50.0, 100.0, status=Status.FAILED)])
    assert told("report", none, exit_code=1)["curve"]["levels"] == []
    compared = told("compare", one, none, exit_code=1)
    assert compared["runs"][1]["curve"]["levels"] == []
    assert "4 agents: not valid: " in finished("compare", one, none).stdout


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    assert "[not-a-run]" in refusal("report", tmp_path)
    RunDirectory(tmp_path / "empty").path.mkdir()
    RunDirectory(tmp_path / "empty").write_sweep({})
    assert "[run-without-point]" in refusal("report", tmp_path / "empty")
    assert "[run-without-point]" in refusal("report", tmp_path / "empty", "--json")


def test_without_a_gpu_count_throughput_is_the_systems(tmp_path: Path) -> None:
    found = told("report", make_run(tmp_path / "bare", A, gpus=None), "--at", "50")
    assert found["curve"]["gpus"] is None
    assert found["points"][0]["total_tokens_per_s_per_gpu"] is None
    assert found["points"][0]["total_tokens_per_s"] == pytest.approx(48_000)  # 8 times 6,000

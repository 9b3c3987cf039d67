"""``compare`` and ``report`` as a person meets them: on sound runs and on what runs can become."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest
from command_line import finished
from golden_files import Goldens
from made_runs import Level, make_run

from agentx_replay.replay.ports import Status
from agentx_replay.results.run_directory import PointStatus, RunDirectory, read_sweep
from agentx_replay.results.schema import REQUESTS

A = (Level(12, 60.0, 6000.0), Level(16, 40.0, 9134.0))
B = (Level(12, 60.0, 5000.0), Level(16, 40.0, 7166.0))


def twice(levels: tuple[Level, ...]) -> list[Level]:
    """The levels from two starts that came out alike."""
    return [replace(level, start=start) for start in (1, 2) for level in levels]


def refusal(*arguments: object) -> str:
    """What is said to a wrong use: two sentences, exit code 2, nothing on standard output."""
    result = finished(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    where = tmp_path_factory.mktemp("runs")
    return make_run(where / "a", twice(A)), make_run(where / "b", twice(B))


def test_a_comparison_says_ratio_split_cost_work_and_sensitivity(runs: tuple[Path, Path]) -> None:
    result = finished(
        "compare",
        "--full",
        *runs,
        "--at",
        "50",
        "--price",
        "a=1.50,b=2.26",
        "--price-source",
        "the list",
    )
    assert result.returncode == 0, result.stderr
    for said in (
        "a / b: 1.244 in throughput (+24.4%) [1.244, 1.244]",
        "a / b: 1.874 in tokens per dollar (+87.4%) [1.874, 1.874]; cost per token -46.6%",
        "which is throughput 1.244 × price 1.507: of the advantage per dollar, 35 % comes from "
        "throughput and 65 % from price (shares of its logarithm)",
        "Prices from: the list.",
        "The runs replayed the same work by the same rules.",
        "The winner is the same under every definition that names one.",
    ):
        assert said in " ".join(result.stdout.split())
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_a_price_that_is_missing_is_said(runs: tuple[Path, Path], goldens: Goldens) -> None:
    result = finished("compare", "--full", *runs, "--at", "50", "--price", "a=1.50")
    goldens.check_text("words/compare-unpriced", result.stdout)
    found = json.loads(finished("compare", *runs, "--price", "a=1.50", "--json").stdout)
    assert found["unpriced"] == ["b"]


def test_shares_against_each_other_are_said_in_words(runs: tuple[Path, Path]) -> None:
    # 1.244 times the throughput at 2 / 2.2 times the price: ln 1.244 = 0.2183 and
    # ln (2 / 2.2) = −0.0953 of ln 1.1309 = 0.1230.
    result = finished("compare", "--full", *runs, "--at", "50", "--price", "a=2.2,b=2")
    said = " ".join(result.stdout.split())
    assert re.search(r" 177 % [^%]* −77 % ", said)


def test_of_one_start_no_winner_is_named_however_far_apart(
    tmp_path: Path, goldens: Goldens
) -> None:
    pair = (make_run(tmp_path / "a", A), make_run(tmp_path / "b", B))
    said = finished("compare", "--full", *pair, "--at", "50", "--price", "a=1,b=9").stdout
    assert "(+24.4%)" in said
    assert "±" not in said
    assert "comes from throughput" not in said
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
    )[0]
    assert ("not told apart" in said, "comes from throughput" in said) == (True, False)
    goldens.check_text("words/compare-not-told-apart", said + "\n")


def test_pairs_are_compared_on_demand(runs: tuple[Path, Path], tmp_path: Path) -> None:
    told = finished("compare", "--full", *runs, "--at", "50", "--paired")
    assert "(--paired)" in told.stdout
    assert json.loads(finished("compare", *runs, "--paired", "--json").stdout)["paired"] is True
    other = make_run(tmp_path / "other", [replace(each, plan="other") for each in twice(B)])
    assert "[starts-not-paired]" in refusal("compare", runs[0], other, "--paired")


def test_json_is_one_object_and_markdown_has_the_same_numbers(runs: tuple[Path, Path]) -> None:
    found = json.loads(finished("compare", *runs, "--at", "50", "--json").stdout)
    assert found["did_same_work"] is True
    (ratio,) = found["targets"][0]["ratios"]
    assert ratio["throughput"] == pytest.approx(7567 / 6083, rel=1e-4)
    markdown = finished("compare", *runs, "--at", "50", "--markdown").stdout
    assert "### At 50 tok/s/user" in markdown
    assert "| a | 7,567 \\[7,567, 7,567] | - | - |" in markdown


def test_without_a_ratio_or_without_the_same_work_the_exit_code_is_1(
    runs: tuple[Path, Path], tmp_path: Path, goldens: Goldens
) -> None:
    far = finished("compare", "--full", *runs, "--at", "500")
    assert far.returncode == 1
    goldens.check_text("words/compare-not-reached", far.stdout)
    told = json.loads(finished("compare", *runs, "--at", "500", "--json").stdout)
    assert told["targets"][0]["ratios"][0]["throughput"] is None
    other = finished(
        "compare",
        "--full",
        runs[0],
        make_run(tmp_path / "o", twice(B), corpus="0ther"),
        "--at",
        "50",
    )
    assert other.returncode == 1
    assert "NOT KNOWN" in other.stdout


def test_starts_that_one_run_lacks_are_left_out_with_the_command_for_them(tmp_path: Path) -> None:
    one = (Level(2, 80.0, 1000.0, plan="first"), Level(4, 60.0, 1900.0, plan="first"))
    two = [*one, *(replace(level, start=2, plan="second") for level in one)]
    pair = (make_run(tmp_path / "a", one), make_run(tmp_path / "b", two))
    found = finished("compare", "--full", *pair, "--at", "70")
    assert found.returncode == 0
    assert f"sweep --resume --out {pair[0]} --starts 2" in " ".join(found.stdout.split())
    told = json.loads(finished("compare", *pair, "--at", "70", "--json").stdout)
    assert [each["starts_left_out"] for each in told["runs"]] == [[], [2]]


def test_levels_that_one_run_has_alone_qualify_the_same_work_and_the_ratio(
    tmp_path: Path, goldens: Goldens
) -> None:
    fast = (Level(2, 80.0, 1000.0), Level(4, 60.0, 1900.0), Level(12, 20.0, 3000.0))
    slow = (*fast[:2], Level(6, 20.0, 2500.0))
    pair = (make_run(tmp_path / "a", fast), make_run(tmp_path / "b", slow))
    apart = finished("compare", "--full", *pair, "--at", "50")
    assert apart.returncode == 0
    goldens.check_text("words/compare-other-levels", apart.stdout)
    found = json.loads(finished("compare", *pair, "--at", "50", "--json").stdout)
    assert found["at_levels_of_one"] == [True]
    assert found["plans"] == [
        {
            "same": [2, 4],
            "different": [],
            "first_alone": [12],
            "other_alone": [6],
        }
    ]
    shared = json.loads(finished("compare", *pair, "--at", "70", "--json").stdout)
    assert shared["at_levels_of_one"] == [False]


def test_the_definitions_are_left_out_at_a_target_that_no_run_reaches(
    runs: tuple[Path, Path],
) -> None:
    # Of 101 tokens in 100 s, with TTFT every run makes 1.01 tok/s/user: that row alone has values.
    blocks = finished("compare", "--full", *runs, "--at", "1.01,50").stdout.split("\n\n")
    (left_out, shown) = [block for block in blocks if block.startswith("Sensitivity")]
    assert left_out.startswith("Sensitivity at 1.01 tok/s/user\n")
    assert len(left_out.splitlines()) == 2
    assert "ITL with TTFT" in shown
    found = json.loads(finished("compare", *runs, "--at", "1.01", "--json").stdout)
    rows = found["sensitivity"][0]["rows"]
    (row,) = (each for each in rows if each["definition"].startswith("ITL with TTFT"))
    assert None not in row["values"]


def test_two_runs_called_the_same_are_named_by_their_paths(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    other = make_run(tmp_path / "a", B)
    result = finished("compare", "--full", runs[0], other, "--at", "50")
    assert f"{runs[0]} / {other}: 1.244 in throughput" in " ".join(result.stdout.split())


def test_a_gpu_count_can_be_given_afterwards(runs: tuple[Path, Path], tmp_path: Path) -> None:
    bare = make_run(tmp_path / "bare", twice(B), gpus=None)
    systems = finished("compare", "--full", runs[0], bare, "--at", "50")
    assert "of bare (--gpus)." in systems.stdout
    assert "60,536 [60,536, 60,536]" in systems.stdout  # 8 · 7,567
    assert "[gpu-count-missing]" in refusal("compare", runs[0], bare, "--price", "a=1")
    result = finished("compare", "--full", runs[0], bare, "--at", "50", "--gpus", "bare=8")
    assert "a / bare: 1.244 " in result.stdout


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--price", "c=1"), "names 'c', which is none of the runs"),
        (("--price", "a=free"), "a=free is not a number above 0"),
        (("--price", "a=0"), "a=0 is not a number above 0"),
        (("--power", "1400"), "--power 1400 names no run"),
        (("--gpus", "a=1.5"), "is not a whole number"),
        (("--at", "fast"), "is not a list of speeds"),
        (("--at", "0"), "is not a list of speeds"),
        (("--json", "--markdown"), "[two-formats]"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    runs: tuple[Path, Path], more: tuple[str, ...], told: str
) -> None:
    assert told in refusal("compare", *runs, *more)


def test_one_run_or_one_twice_is_no_comparison(runs: tuple[Path, Path]) -> None:
    assert "at least two" in refusal("compare", runs[0])
    assert "named twice" in refusal("compare", runs[0], runs[0])


# --- what a run directory can become -------------------------------------------------------------


def test_a_report_prints_the_curve_and_writes_page_and_points(runs: tuple[Path, Path]) -> None:
    result = finished("report", runs[0], "--at", "50")
    assert "at 50 tok/s/user: 7,567 [7,567, 7,567] tok/s/GPU, " in result.stdout
    (value,) = json.loads(finished("report", runs[0], "--at", "50", "--json").stdout)["curve"]["at"]
    assert value["between"] == [12, 16]
    assert [each["start"] for each in value["starts"]] == [1, 2]
    assert (runs[0] / "report.html").read_text().startswith("<!doctype html>")
    assert pq.read_table(runs[0] / "points.parquet")["concurrency"].to_pylist() == [12, 12, 16, 16]


def test_a_report_as_json_holds_points_and_curve(runs: tuple[Path, Path]) -> None:
    found = json.loads(finished("report", runs[0], "--at", "50,500", "--json").stdout)
    assert [value["throughput"] is None for value in found["curve"]["at"]] == [False, True]
    assert [level["concurrency"] for level in found["curve"]["levels"]] == [12, 16]


def interrupted(run: Path) -> None:
    document = orjson.loads((run / "c0016" / "point.json").read_bytes())
    document["facts"]["conduct"]["interrupted"] = True
    del document["concurrency"], document["status"]
    RunDirectory(run).write_point(16, PointStatus.INTERRUPTED, document)


def killed(run: Path) -> None:
    document = orjson.loads((run / "c0016" / "point.json").read_bytes())
    facts = document["facts"] | {"window": None}
    RunDirectory(run).write_point(16, PointStatus.RUNNING, {"facts": facts})


def without_point(run: Path) -> None:
    (run / "c0016" / "point.json").unlink()


def without_records(run: Path) -> None:
    (file,) = REQUESTS.files(run / "c0016")
    file.unlink()


def never_begun(run: Path) -> None:
    shutil.rmtree(run / "c0016")
    RunDirectory(run).write_sweep({**read_sweep(run), "levels": [12, 16]})


CUT_SHORT = [
    (interrupted, "interrupted"),
    (killed, "not finished: still running, or killed"),
    (without_point, "c0016 has no point.json"),
    (without_records, "no request was sent in the window"),
    (never_begun, "not begun"),
]


@pytest.mark.parametrize(("becomes", "why"), CUT_SHORT)
def test_a_level_that_was_cut_short_is_told_and_is_on_no_curve(
    runs: tuple[Path, Path], tmp_path: Path, becomes: Callable[[Path], None], why: str
) -> None:
    run = make_run(tmp_path / "r", A)
    becomes(run)
    result = finished("report", run, "--at", "50")
    assert result.returncode == 1
    said = "ot measured: 16 agents" if becomes is never_begun else why
    assert said in result.stdout
    assert "at 50 tok/s/user: not reached, slowest valid level 60.0" in result.stdout
    assert said in (run / "report.html").read_text()
    plain = json.loads(finished("report", run, "--at", "50", "--json").stdout)
    assert plain["curve"]["at"][0]["throughput"] is None
    assert plain["curve"]["at"][0]["every_level_is"] == "faster"
    assert plain["curve"]["frontier"] == [12]
    against = finished("compare", "--full", runs[0], run, "--at", "50")
    assert against.returncode == 1
    assert f": {why}." in against.stdout
    told = json.loads(finished("compare", runs[0], run, "--at", "50", "--json").stdout)
    assert told["targets"][0]["ratios"][0]["throughput"] is None
    assert told["runs"][1]["left_out"] == [{"concurrency": 16, "start": 1, "why": why}]


def newer(run: Path) -> None:
    (file,) = REQUESTS.files(run / "c0016")
    version = {b"agentx_replay.schema_version": b"99"}
    pq.write_table(pq.read_table(file).replace_schema_metadata(version), file)


def no_parquet(run: Path) -> None:
    (file,) = REQUESTS.files(run / "c0016")
    file.write_bytes(b"PAR1 and no more")


def torn(run: Path) -> None:
    (run / "c0016" / "point.json").write_bytes(b'{"concurr')


def without_facts(run: Path) -> None:
    document = orjson.loads((run / "c0016" / "point.json").read_bytes())
    del document["facts"]["gpus"]
    (run / "c0016" / "point.json").write_bytes(orjson.dumps(document))


@pytest.mark.parametrize(
    ("becomes", "told"),
    [
        (newer, "has record schema 99, this version reads 3"),
        (no_parquet, "cannot be read"),
        (without_facts, "lacks the facts of the point"),
    ],
)
def test_a_level_that_cannot_be_read_is_named_by_report_and_compare_alike(
    runs: tuple[Path, Path], tmp_path: Path, becomes: Callable[[Path], None], told: str
) -> None:
    run = make_run(tmp_path / "r", A)
    becomes(run)
    for command in (
        ("report", run),
        ("report", run, "--json"),
        ("compare", runs[0], run, "--full"),
    ):
        result = finished(*command)
        assert result.returncode == 1
        assert told in " ".join(result.stdout.split())
        assert str(run / "c0016") in result.stdout


def test_a_torn_point_is_named_by_report_and_compare_alike(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    run = make_run(tmp_path / "r", A)
    torn(run)
    for command in (
        ("report", run),
        ("report", run, "--json"),
        ("compare", runs[0], run, "--full"),
    ):
        said = refusal(*command)
        assert "[json-unreadable]" in said
        assert str(run / "c0016") in said


def test_one_point_failed_points_and_no_success_have_clear_answers(tmp_path: Path) -> None:
    one = finished("report", make_run(tmp_path / "one", A[:1]), "--at", "50")
    said = " ".join(one.stdout.split())
    assert "slowest valid level 60.0 → add 16 agents" in said
    none = make_run(tmp_path / "none", [Level(4, 50.0, 100.0, status=Status.FAILED)])
    result = finished("report", none)
    assert result.returncode == 1
    assert json.loads(finished("report", none, "--json").stdout)["curve"]["levels"] == []
    assert "[run-without-valid-point]" in refusal("compare", tmp_path / "one", none)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    assert "[not-a-run]" in refusal("report", tmp_path)
    RunDirectory(tmp_path / "empty").path.mkdir()
    RunDirectory(tmp_path / "empty").write_sweep({})
    assert "[run-without-point]" in refusal("report", tmp_path / "empty")
    assert "[run-without-point]" in refusal("report", tmp_path / "empty", "--json")


def test_another_corpus_gets_its_ratio_and_the_word_that_it_is_another(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    other = make_run(tmp_path / "o", twice(B), corpus="0ther")
    told = json.loads(finished("compare", runs[0], other, "--at", "50", "--json").stdout)
    assert told["did_same_work"] is False
    assert told["same_work"][0] == {"name": "corpus", "same": False, "said": ["c0ffee", "0ther"]}


def test_without_a_gpu_count_throughput_is_the_systems_and_says_so(tmp_path: Path) -> None:
    bare = make_run(tmp_path / "bare", A, gpus=None)
    result = finished("report", bare, "--at", "50")
    assert "(--gpus)" in result.stdout
    plain = json.loads(finished("report", bare, "--at", "50", "--json").stdout)
    assert plain["curve"]["gpus"] is None
    assert plain["points"][0]["total_tokens_per_s_per_gpu"] is None
    assert plain["points"][0]["total_tokens_per_s"] == pytest.approx(48_000)  # 8 times 6,000

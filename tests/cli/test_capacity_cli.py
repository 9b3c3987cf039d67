"""``capacity`` and ``--slo`` as a person meets them, in virtual time."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from command_line import finished, refusal, told
from made_runs import Level, make_run

from agentx_replay.replay.ports import Status
from agentx_replay.results.run_directory import PointStatus, read_points

SLO = "itl:p90<=12ms"
SEARCH = ("capacity", "--virtual", "--scenario", "quick", "--window", "8s", "--gpus", "8",
          "--salt", "x")  # fmt: skip


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("capacity") / "run"
    found = told(*SEARCH, "--slo", SLO, "--starts", "2", "--fact", "power.watts_per_gpu=500",
                 "--fact", "price.usd_per_gpu_hour=2", "--out", out)  # fmt: skip
    return out, found


def test_a_search_ends_with_a_capacity(
    searched: tuple[Path, dict[str, Any]],
) -> None:
    capacity = searched[1]["objectives"][0]["capacity"]
    assert [start["start"] for start in capacity["starts"]] == [1, 2]
    assert all(s["good"] <= s["crossing"] <= s["bad"] for s in capacity["starts"])
    assert (capacity["interval"], capacity["no_interval"]) == (None, "2 starts")
    assert capacity["at_least"] < capacity["agents"] < capacity["below"]
    assert capacity["trouble"] is None


def test_its_directory_is_a_sweeps(searched: tuple[Path, dict[str, Any]]) -> None:
    out, found = searched
    again, other = told("report", out), shutil.copytree(out, out.parent / "other")
    assert again["objectives"] == found["objectives"]
    assert again["not_measured"] == []
    said = finished("report", out, "--full").stdout
    assert "per kW" in said
    assert "Goodput under itl:p90<=12ms" in said
    html = (out / "report.html").read_text()
    assert "The search" in html
    capacity = found["objectives"][0]["capacity"]
    said = (
        f"Capacity under itl:p90&lt;=12ms: {capacity['agents']:.1f} agents (2 starts: no interval)"
    )
    assert f'<p class="verdict title">{said}' in html
    assert html.index("; binding: itl:p90") < html.index("tok/s/user")
    assert json.loads((out / "sweep.json").read_text())["capacity"] == [capacity]
    rows = pq.read_table(out / "points.parquet").to_pylist()
    assert {(row["concurrency"], row["start"]): row["objective_margins"] for row in rows} == {
        tuple(each["measurement"].values()): [
            None if each["stopped_early"] else max(each["margins"])
        ]
        for each in capacity["outcomes"]
    }
    assert {bool(row["stopped_early"]) for row in rows} == {False, True}
    assert finished("compare", out, other, "--at", "83").returncode == 0


def test_any_objective_is_answered_from_the_points_on_disk(
    searched: tuple[Path, dict[str, Any]],
) -> None:
    found = told("report", searched[0], "--slo", "ttft:p95<=900s")["objectives"][0]
    assert found["capacity"]["agents"] is None
    first, second = (start["good"] for start in found["capacity"]["starts"])
    assert second == max(x.concurrency for x in read_points(searched[0]) if x.start == 2)
    assert found["capacity"]["at_least"] == min(first, second)
    assert {level["goodput"]["token_share"] for level in found["goodput"]} == {1.0}


KILLED_IN_ITS_THIRD_LEVEL = """
import os, signal
from agentx_replay.cli import main
from agentx_replay.results.run_directory import RunDirectory

start, begun = RunDirectory.start_point, []

def killed(*arguments, **named):
    begun.append(start(*arguments, **named))
    if len(begun) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return begun[-1]

RunDirectory.start_point = killed
main()
"""


def test_a_search_that_was_killed_goes_on_as_if_it_had_not_been(
    searched: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    search = (*SEARCH, "--slo", SLO, "--starts", "2", "--out", str(out))
    killed = subprocess.run([sys.executable, "-c", KILLED_IN_ITS_THIRD_LEVEL, *search], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len([point for point in read_points(out) if point.status is PointStatus.COMPLETE]) == 2
    found = told("capacity", "--resume", "--out", out)
    assert found["objectives"][0]["capacity"] == searched[1]["objectives"][0]["capacity"]


def test_objectives_share_levels(tmp_path: Path) -> None:
    two = ("--slo", "a=itl:p90<=12ms", "--slo", "b=itl:p90<=9ms", "--starts", "1")
    found = told(*SEARCH, *two, "--out", tmp_path / "run")
    assert all(each["capacity"]["agents"] for each in found["objectives"])
    assert [each["capacity"]["no_interval"] for each in found["objectives"]] == ["1 start"] * 2


def test_the_end_of_a_budget_leaves_what_is_known(tmp_path: Path) -> None:
    limited = (*SEARCH, "--slo", SLO, "--budget", "10s", "--out", tmp_path / "run")
    result = finished(*limited)
    assert result.returncode == 0
    assert "budget spent" in result.stderr
    assert len(read_points(tmp_path / "run")) == 1


def test_an_objective_at_run_gives_goodput(tmp_path: Path) -> None:
    run = ("run", "--virtual", "--window", "4s", "-c", "4", "--slo", "itl<=99s")
    found = told(*run, "--out", tmp_path / "run")["objectives"][0]
    (level,) = found["goodput"]
    assert level["goodput"]["requests"]["kept"] == level["goodput"]["requests"]["sent"]


def test_a_clause_that_a_level_has_too_few_responses_for_is_not_judged(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", [Level(12, 60.0, 6000.0)])
    said = finished("report", run, "--slo", "ttft:p99<=9s").stdout.split()
    assert "ttft:p99 cannot be measured: 12 responses, and it takes 1,000" in " ".join(said)


def test_a_made_run_is_read_off_at_its_crossing(tmp_path: Path) -> None:
    # ITL 1/60 and 1/40 s: 20 ms is at ln(20/16.7) / ln(25/16.7) = 0.45 of the way from 12 to 16.
    levels = (Level(12, 60.0, 6000.0), Level(16, 40.0, 9134.0))
    found = told("report", make_run(tmp_path / "a", levels), "--slo", "itl:p90<=20ms")
    judged = found["objectives"][0]
    assert judged["capacity"]["agents"] == pytest.approx(12 * (16 / 12) ** 0.44966, rel=1e-4)
    assert judged["there"]["throughput"] == pytest.approx(6000 + 0.44966 * 3134, rel=1e-3)
    assert [level["total"] for level in judged["goodput"]] == pytest.approx([6000.0, 0.0], rel=1e-3)


def test_a_level_that_cannot_be_judged_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", [Level(12, 60.0, 6000.0)])
    trouble = told("report", run, "--slo", "ttft:p99<=9s")["objectives"][0]["capacity"]["trouble"]
    assert trouble["measurement"] == {"concurrency": 12, "start": 1}
    assert not trouble["passes"]


def test_a_level_of_which_too_much_was_cut_breaks_it(tmp_path: Path) -> None:
    levels = (Level(12, 60.0, 6000.0), Level(16, 60.0, 9134.0, status=Status.CUT))
    run = make_run(tmp_path / "a", levels)
    said = finished("report", run, "--slo", "itl:p90<=20ms", "--full").stdout
    assert "16      breaks it (cut over 1%)" in said


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ((), "capacity-without-objective"),
        (("--slo", "itl<=33"), "objective-unit"),
        (("--slo", SLO, "--slo", SLO), "objective-name-twice"),
        (("--slo", SLO, "--range", "9,3"), "range-unfit"),
        (("--slo", SLO, "--range", "1"), "range-unfit"),
        (("--slo", SLO, "--from", "9", "--range", "10,20"), "first-level-outside-range"),
        (("--slo", SLO, "--budget", "3s"), "budget-shorter-than-level"),
        # 8 agents in 8 s, one response a second each: 64.
        (("--slo", "ttft:p99<=9s"), "percentile-of-too-few"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_measured(
    more: tuple[str, ...], code: str, tmp_path: Path
) -> None:
    assert code in refusal(*SEARCH, *more, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_before_a_search_its_time_is_told_for_all_of_its_starts(tmp_path: Path) -> None:
    search = finished(*SEARCH, "--slo", SLO, "--budget", "9s", "--out", tmp_path / "run")
    # 5 levels of the first start and 5 of two more, 8 s each.
    assert "about 10 windows of 8 s, 80 s in all" in search.stderr + search.stdout

"""``compare`` beyond ratios at targets: equal concurrency, targets, prices, capacities, CI."""

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import finished, refusal, told
from made_runs import Level, make_run, twice, write_rows_of_server
from record_cases import SECOND

A = (
    Level(12, 60.0, 6000.0),
    Level(16, 40.0, 9134.0),
    Level(32, 30.0, 10_050.0, hit=0.8),
    Level(48, 22.0, 11_000.0, hit=0.79),
    Level(70, 15.0, 15_468.0, hit=0.801),
)
B = (
    Level(12, 60.0, 5000.0),
    Level(16, 40.0, 7166.0),
    Level(32, 30.0, 10_000.0, hit=0.8),
    Level(48, 22.0, 11_080.0, hit=0.78),
    Level(70, 15.0, 12_000.0, hit=0.748),
)
"""The published comparison of October 2026: at 50 tok/s/user 7,567 and 6,083 tok/s/GPU, the means
of 12 and 16 agents; at 70 agents 28.9 % apart, at 32 and 48 under 1 %.
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    where = tmp_path_factory.mktemp("runs")
    return make_run(where / "a", twice(A)), make_run(where / "b", twice(B))


def test_finished_plays_are_compared_per_agent_and_per_gpu(tmp_path: Path) -> None:
    # 12 plays in 100 s: 432 an hour, 36 of each agent; 54 of each of 8 GPUs, 108 of each of 4.
    level = Level(12, 60.0, 6000.0, plays_end_s=50)
    eight, four = make_run(tmp_path / "a", [level]), make_run(tmp_path / "b", [level], gpus=4)
    (row,) = told("compare", eight, four, "--at", "50", exit_code=1)["levels"]
    assert [side["jobs_per_agent_hour"] for side in row["sides"]] == [36.0, 36.0]
    assert row["ratios"][0]["jobs"] == 0.5
    said = finished("compare", eight, four, "--at", "50", "--full").stdout
    jobs = said[said.index("Jobs at equal concurrency") :].splitlines()
    assert jobs[4].split() == ["12", "36.0", "54.0", "36.0", "108", "0.500"]


def test_the_published_numbers_are_all_printed(runs: tuple[Path, Path]) -> None:
    said = finished("compare", *runs, "--at", "50", "--price", "a=1.50,b=2.26", "--full").stdout
    for figure in ("+24.4%", "+87.4%", "1.289", "80.1", "74.8"):
        assert figure in said
    brief = finished("compare", *runs, "--at", "50").stdout
    assert "12: +20.0%, 16: +27.5%, 32: +0.5%, 48: -0.7%, 70: +28.9%" in " ".join(brief.split())


def test_equal_levels_have_ratios_with_intervals_and_the_rest_of_both_sides(
    runs: tuple[Path, Path],
) -> None:
    (*_, row) = told("compare", *runs, "--at", "50")["levels"]
    first, other = row["sides"]
    assert (row["concurrency"], first["interactivity"]) == (70, pytest.approx(15.0))
    assert (first["throughput"], other["throughput"]) == pytest.approx((15_468, 12_000), rel=1e-3)
    assert (first["cache_hit"], other["cache_hit"]) == pytest.approx((0.801, 0.748), abs=1e-3)
    # The first token comes 100 tokens before second 99.
    assert first["ttft_p90_s"] == pytest.approx(99 - 100 / 15, abs=1e-3)
    (ratio,) = row["ratios"]
    assert ratio["ratio"] == pytest.approx(1.289, rel=1e-3)
    assert ratio["interval"]["low"] == pytest.approx(1.289, rel=1e-3)


def test_equal_levels_of_other_plans_have_no_ratio(runs: tuple[Path, Path], tmp_path: Path) -> None:
    other = make_run(tmp_path / "o", twice(tuple(replace(x, plan="else") for x in B)))
    found = told("compare", runs[0], other, "--at", "50", exit_code=1)
    assert {row["ratios"][0]["ratio"] for row in found["levels"]} == {None}


def test_at_a_target_each_side_is_interpolated_as_its_throughput(
    runs: tuple[Path, Path],
) -> None:
    ((there, _),) = told("compare", *runs, "--at", "50")["there"]
    # Halfway between 60 and 40: first tokens at 99 - 100/60 and 99 - 100/40 s.
    assert there["ttft_p95_s"] == pytest.approx((97.333 + 96.5) / 2, abs=1e-3)
    assert there["cache_hit"] == pytest.approx(0.25, abs=1e-3)
    assert (there["kv_usage"], there["preemptions_per_min"]) == (None, None)


def test_the_servers_own_metrics_stand_beside(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", A[:2])
    for level in (12, 16):
        write_rows_of_server(run, level, [
            (0, ["vllm:kv_cache_usage_perc 0.5", "vllm:num_preemptions_total 0"]),
            (50 * SECOND, ["vllm:kv_cache_usage_perc 0.9", "vllm:num_preemptions_total 20"]),
        ])  # fmt: skip
    ((there, _),) = told("compare", run, make_run(tmp_path / "b", B[:2]), "--at", "50")["there"]
    # 20 in 100 s.
    assert (there["kv_usage"], there["preemptions_per_min"]) == pytest.approx((0.7, 12.0))


def test_the_price_that_makes_both_equal(runs: tuple[Path, Path]) -> None:
    # 7,567 / 6,083 = 1.244 times $2.26, and $1.50 over that.
    for price, name, dollars in (("b=2.26", "a", 2.811), ("a=1.5", "b", 1.206)):
        (found,) = told("compare", *runs, "--at", "50", "--price", price)["break_even"]
        assert (found["name"], found["price"]) == (name, pytest.approx(dollars, abs=1e-3))


def test_capacities_have_a_ratio_with_welchs_interval(tmp_path: Path) -> None:
    # 20 ms between 12 and 16 agents; the other has the same levels at twice the agents.
    a = make_run(tmp_path / "a", twice(tuple(replace(x, concurrency=2 * x.concurrency)
                                             for x in A[:2]), 1.05))  # fmt: skip
    b = make_run(tmp_path / "b", twice(A[:2], 1.05))
    found = told("compare", a, b, "--at", "50", "--slo", "itl:p90<=20ms", exit_code=1)
    (ratio,) = found["capacity"][0]["ratios"]
    assert ratio["ratio"] == pytest.approx(2.0)
    assert ratio["interval"]["low"] < 2.0 < ratio["interval"]["high"]


def test_a_capacity_that_is_not_bracketed_has_no_ratio(runs: tuple[Path, Path]) -> None:
    found = told("compare", *runs, "--at", "50", "--slo", "itl:p90<=1ms")["capacity"][0]
    assert (found["agents"], found["ratios"][0]["ratio"]) == ([None, None], None)


def test_a_ratio_below_a_limit_fails_in_ci(runs: tuple[Path, Path]) -> None:
    a, b = runs
    assert finished("compare", a, b, "--at", "50", "--fail-below", "1.2").returncode == 0
    failed = finished("compare", b, a, "--at", "50", "--fail-below", "0.95")
    assert (failed.returncode, "0.804" in failed.stderr) == (1, True)
    assert "--fail-below" in refusal("compare", a, b, "--fail-below", "0")


def test_several_runs_are_one_series_beside_its_best_run(runs: tuple[Path, Path]) -> None:
    a, b = runs
    found = told("compare", f"both={a}+{b}", a, "--at", "50", "--price", "both=2")
    ((both, alone),) = found["series"]
    assert (both["name"], alone["name"]) == ("both", "a")
    assert both["throughput"] == pytest.approx(7567, rel=1e-3)
    assert both["single"]["run"] == "both/a"
    assert [run["price_per_gpu_hour"] for run in found["runs"]] == [2, 2, None]
    assert "Series of several runs" in finished("compare", f"both={a}+{b}", a, "--at", "50").stdout


def test_a_series_of_one_run_is_the_run_by_another_name(runs: tuple[Path, Path]) -> None:
    a, b = runs
    plain = finished("compare", a, b, "--at", "50", "--full").stdout
    assert finished("compare", f"a={a}", f"b={b}", "--at", "50", "--full").stdout == plain
    refusal("compare", f"a={a}", f"a={b}")

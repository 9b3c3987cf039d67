"""The published comparison of 16 October 2026, as two made runs and two files of facts.

At 50 tok/s/user, halfway between 3 and 4 agents: 7,567 tok/s/GPU at $1.50 against 6,083 at $2.26.
Its ratios at 30 and 150, halfway between levels too, were 1.15 and 0.85: 11,500 against 10,000, and
1,700 against 2,000.
"""

from pathlib import Path
from typing import Any

import pytest
from command_line import finished, refusal, told
from golden_files import Goldens
from made_runs import Level, make_run, twice

MI355X = """
name = "8x MI355X"
hw = "mi355x"
gpus = 8
hbm_gb = 288
peak_pflops = 10.1
framework = "vllm"
engine_commit = "36768d1bf"
recipe = "https://recipes.example/mi355x"
precision = "fp4"
tp = 8
dcp_size = 8
kv_offloading = "cpu"
kv_offload_backend = {name = "SimpleCPU"}
offload_gb_per_gpu = 224.875
spec_decoding = "eagle"
draft_tokens = 3
measured_by = "the vendor"
snapshot = 2026-10-09
[price]
usd_per_gpu_hour = 1.50
kind = "cost: owned, large hyperscaler"
source = "a cost model"
date = 2026-10-09
[power]
watts_per_gpu = 2650
kind = "modelled, all-in"
[[level]]
concurrency = 4
dcp_size = 1
draft_tokens = 0
"""
B300 = """
hw = "b300"
gpus = 8
hbm_gb = 288
peak_pflops = 15
framework = "vllm"
tp = 8
dcp_size = 8
kv_offloading = "cpu"
kv_offload_backend = {name = "Mooncake"}
offload_gb_per_gpu = 281
spec_decoding = "eagle"
draft_tokens = 3
[price]
usd_per_gpu_hour = 2.26
kind = "cost: owned, large hyperscaler"
source = "a cost model"
date = 2026-10-09
"""
AT = ("--at", "30,50,150")


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    """The arguments that name both runs and both files."""
    where = tmp_path_factory.mktemp("published")
    levels = {
        "mi355x": ((1, 160, 1600), (2, 140, 1800), (3, 60, 6000), (4, 40, 9134), (5, 32, 11000),
                   (6, 28, 12000)),
        "b300": ((1, 160, 1900), (2, 140, 2100), (3, 60, 5000), (4, 40, 7166), (5, 32, 9600),
                 (6, 28, 10400)),
    }  # fmt: skip
    arguments: list[object] = []
    for (name, of), facts in zip(levels.items(), (MI355X, B300), strict=True):
        arguments.append(make_run(where / name, twice([Level(*level) for level in of])))
        (where / f"{name}.toml").write_text(facts)
        arguments += ["--system", f"{name}={where / f'{name}.toml'}"]
    return tuple(arguments)


def test_the_ratios_are_those_that_were_published(sides: tuple[object, ...]) -> None:
    found = told("compare", *sides, *AT)
    ratios = [at["ratios"][0] for at in found["targets"]]
    assert [round(each["throughput"], 2) for each in ratios] == [1.15, 1.24, 0.85]
    assert [round(each["cost"]["ratio"], 2) for each in ratios] == [1.73, 1.87, 1.28]
    # ln 1.244 / ln 1.874 = 0.348: a third of the advantage is throughput, two thirds are price.
    assert ratios[1]["cost"]["throughput_share"] == pytest.approx(0.348, abs=0.001)


def test_what_is_said_names_every_figure(sides: tuple[object, ...], goldens: Goldens) -> None:
    said = finished("compare", *sides, *AT, "--full").stdout
    words = " ".join(said.split())
    for figure in (
        "7,567", "6,083", "(+24.4%)", "(+87.4%)", "35% comes from throughput", "65% from price",
        "cost per token -46.6%",
        "mi355x costs as much per token as b300 if its GPU-hour costs $2.81",
        "mi355x: 5 of 5 answered", "b300: 3 of 5 answered", "offload gb per gpu: 224.875 / 281",
        "3 agents (dcp size 8, draft tokens 3), 4 agents (dcp size 1, draft tokens 0)",
    ):  # fmt: skip
        assert figure in words, figure
    goldens.check_text("words/compare-published", said)
    goldens.check_text("words/compare-published-brief", finished("compare", *sides, *AT).stdout)


def test_costs_are_of_each_kind_of_token_and_of_hours_that_are_used(
    sides: tuple[object, ...],
) -> None:
    def at_50(*more: str) -> list[dict[str, Any]]:
        return list(told("compare", *sides, "--at", "50", *more)["economies"])

    first, other = at_50()
    # $1.50 / (7,567 × 3,600) × 10^6 and $2.26 / (6,083 × 3,600) × 10^6.
    assert first["dollars_per_million"]["total"] == pytest.approx(0.05506, abs=1e-5)
    assert other["dollars_per_million"]["total"] == pytest.approx(0.10320, abs=1e-5)
    # 7,567 × 86,400; 7,567 / 10.1; 6,083 / 15.
    assert first["tokens_per_day"] == pytest.approx(653.8e6, rel=1e-3)
    peaks = [first["per_peak_pflops"], other["per_peak_pflops"]]
    assert peaks == pytest.approx([749.2, 405.5], rel=1e-3)
    # A quarter of the input is cached: 75 % of the input and all of the output are not.
    rates = first["tokens_per_s"]
    assert rates["input"] + rates["output"] == pytest.approx(rates["total"])
    assert rates["uncached"] == pytest.approx(0.75 * rates["input"] + rates["output"], rel=1e-3)
    half, _ = at_50("--utilisation", "mi355x=0.5")
    assert half["dollars_per_million"]["total"] == pytest.approx(2 * 0.05506, abs=2e-5)
    assert half["tokens_per_day"] == pytest.approx(653.8e6 / 2, rel=1e-3)


def test_with_roles_each_gpu_of_a_role_has_its_own_throughput(sides: tuple[object, ...]) -> None:
    roles = ("disagg=true", "prefill_gpus=2", "decode_gpus=6")
    facts = [part for fact in roles for part in ("--fact", f"b300:{fact}")]
    first, other = told("compare", *sides, "--at", "50", *facts)["economies"]
    assert (first["output_per_decode_gpu"], first["input_per_prefill_gpu"]) == (None, None)
    rates = other["tokens_per_s"]
    assert other["output_per_decode_gpu"] == pytest.approx(rates["output"] * 8 / 6)
    assert other["input_per_prefill_gpu"] == pytest.approx(rates["input"] * 4)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (("--utilisation", "b300=60"), "utilisation-over-one"),
        (("--utilisation", "h200=0.6"), "named-number-of-no-run"),
        (("--system", "mine.toml"), "fact-of-no-run"),
        (("--system", "b300="), "fact-of-no-run"),
        (("--fact", "tp=8"), "fact-of-no-run"),
        (("--fact", "h200:tp=8"), "fact-of-no-run"),
        (("--fact", "b300:tpp=8"), "fact-unknown"),
        (("--fact", "b300:tp"), "fact-without-value"),
    ],
)
def test_facts_of_no_run_and_wrong_ones_are_refused(
    sides: tuple[object, ...], more: tuple[str, str], code: str
) -> None:
    assert f"[{code}]" in refusal("compare", *sides, *more)


def test_prices_of_two_kinds_are_told(sides: tuple[object, ...]) -> None:
    said = finished("compare", *sides, "--full", "--fact", "b300:price.kind=rent, a year").stdout
    assert "prices are of different kinds: cost, rent" in " ".join(said.split())


def test_runs_without_facts_still_compare(tmp_path: Path) -> None:
    levels = [Level(12, 60.0, 6000.0), Level(16, 40.0, 9134.0)]
    pair = (make_run(tmp_path / "a", levels), make_run(tmp_path / "b", levels))
    found = told("compare", *pair, "--at", "50")
    assert (found["differences"], found["runs"][0]["system"]) == ([], {})

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_runs import Level, make_run, twice, write_instrument
from record_cases import SECOND
from refusals import refuses

from agentx_replay.analysis.comparison import (
    Comparison,
    Contender,
    Ratio,
    compare,
    sensitivity_row,
)
from agentx_replay.analysis.cost import advantage
from agentx_replay.analysis.curve import DEFINITIONS, DefinedValue
from agentx_replay.analysis.run import read_run
from agentx_replay.analysis.same_work import Fact, PlansAgainst
from agentx_replay.analysis.starts import Interval
from agentx_replay.experiment.settings import Settings, Target
from agentx_replay.experiment.sweep import Sweep
from agentx_replay.replay.ports import Status
from agentx_replay.report.progress import ProgressScreen
from agentx_replay.scenario import load_scenario
from agentx_replay.shipped import shipped_directory
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.inprocess import InProcessEndpoint

NO_MORE: Mapping[str, Any] = {}
(WITH_TTFT,) = (of.name for of in DEFINITIONS if of.speed == "with_ttft")

# The published comparison (16 October 2026): at 50 tok/s/user 7,567 against 6,083 tok/s/GPU, which
# is the mean of the two levels around it: (6,000 + 9,134) / 2 and (5,000 + 7,166) / 2. Those at 30
# and 150 are made to give the published 1.15 and 0.85: 11,500 / 10,000 and 1,700 / 2,000.
MI355X = (
    Level(12, 160.0, 1500.0),
    Level(16, 140.0, 1900.0),
    Level(24, 60.0, 6000.0),
    Level(32, 40.0, 9134.0),
    Level(48, 20.0, 13_866.0),
)
B300 = (
    Level(12, 160.0, 1800.0),
    Level(16, 140.0, 2200.0),
    Level(24, 60.0, 5000.0),
    Level(32, 40.0, 7166.0),
    Level(48, 20.0, 12_834.0),
)


def compared(
    path: Path,
    first: Sequence[Level],
    other: Sequence[Level],
    of_first: Mapping[str, Any] = NO_MORE,
    of_other: Mapping[str, Any] = NO_MORE,
    *,
    at: float = 50.0,
) -> Comparison:
    """Two runs, a and b, with what is said of either, at one target."""
    runs = [contender(path / "a", first, **of_first), contender(path / "b", other, **of_other)]
    return compare(runs, (at,))


def contender(
    path: Path,
    levels: Sequence[Level],
    price: float | None = None,
    power: float | None = None,
    **run: Any,
) -> Contender:
    return Contender(path.name, read_run(make_run(path, levels, **run)), price, power)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    where = tmp_path_factory.mktemp("published")
    return compare(
        [
            contender(where / "mi355x", twice(MI355X), 1.50),
            contender(where / "b300", twice(B300), 2.26),
        ],
        (30.0, 50.0, 150.0),
    )


@pytest.mark.parametrize(
    ("number", "per_gpu", "per_dollar"),
    [(0, "1.15", "1.73"), (1, "1.24", "1.87"), (2, "0.85", "1.28")],
)
def test_the_published_ratios_at_30_50_and_150_come_out(
    published: Comparison, number: int, per_gpu: str, per_dollar: str
) -> None:
    (ratio,) = published.targets[number].ratios
    assert ratio.over == "b300"
    assert f"{ratio.throughput:.2f}" == per_gpu
    assert ratio.cost is not None
    assert f"{ratio.cost.ratio:.2f}" == per_dollar


def test_the_published_split_at_50_comes_out(published: Comparison) -> None:
    (ratio,) = published.targets[1].ratios
    cost = ratio.cost
    assert cost is not None
    assert f"{cost.ratio:.3f}" == "1.874"
    assert f"{cost.throughput_ratio:.3f}" == "1.244"
    assert f"{cost.price_ratio:.3f}" == "1.507"
    assert f"{cost.cost_change:.1%}" == "-46.6%"
    # ln 1.244 / ln 1.874 = 0.2183 / 0.6283.
    assert cost.throughput_share == pytest.approx(0.3475, abs=5e-4)
    assert cost.price_share == pytest.approx(0.6525, abs=5e-4)


def test_a_ratio_has_an_interval_and_prices_are_exact(published: Comparison) -> None:
    (ratio,) = published.targets[1].ratios
    # The starts of a run came out alike.
    assert ratio.interval is not None
    assert ratio.interval.low == pytest.approx(7567 / 6083, rel=1e-4)
    assert ratio.cost_interval is not None
    assert ratio.cost_interval.high == pytest.approx(7567 / 6083 * 2.26 / 1.5, rel=1e-4)


def test_runs_of_one_plan_did_the_same_work(published: Comparison) -> None:
    assert published.did_same_work
    assert published.same_records == (False,)
    assert [(fact.name, fact.same) for fact in published.same_work] == [
        ("corpus", True), ("scenario", True), ("plan", True),
    ]  # fmt: skip


def test_the_winner_changes_where_another_definition_says_so(published: Comparison) -> None:
    at_150 = published.sensitivity[2]
    assert at_150.rows[0].winner == "b300"
    # Per dollar: 1700 / 1.50 against 2000 / 2.26.
    assert "per dollar: tokens/$" in at_150.changes
    (dollars,) = (row for row in at_150.rows if row.definition == "per dollar: tokens/$")
    assert dollars.values == pytest.approx((1700 * 3600 / 1.5, 2000 * 3600 / 2.26), rel=1e-4)
    assert dollars.winner == "mi355x"
    assert published.sensitivity[1].changes == ()


def test_without_reused_input_and_output_only_are_rows_of_their_own(published: Comparison) -> None:
    rows = {row.definition: row.values[0] for row in published.sensitivity[1].rows}
    # 24 lanes: prompts of 6000·800/24 − 101 = 199,899, of which 49,974 cached; 32 lanes: 228,249
    # and 57,062. New: 150,026·24/800 = 4500.78 and 171,288·32/800 = 6851.52.
    assert rows["without reused input"] == pytest.approx((4500.78 + 6851.52) / 2, rel=1e-6)
    # 101·24/800 = 3.03 and 101·32/800 = 4.04.
    assert rows["output tokens only"] == pytest.approx(3.535)
    assert rows["P99 instead of P90"] == pytest.approx(7567.0, rel=1e-4)
    # 100 s for 101 tokens is 1.01 tokens/s/user: nowhere near 50.
    assert rows[WITH_TTFT] is None
    why = {row.definition: row.why for row in published.sensitivity[1].rows}
    slower = "every valid level is slower"
    assert why[WITH_TTFT] == (slower, slower)


def test_the_mixes_of_what_was_completed_are_compared_at_common_levels(
    published: Comparison,
) -> None:
    assert published.mix_levels == (12, 16, 24, 32, 48)
    parts = {part.name: part for part in published.mix}
    assert parts["output_tokens"].gaps == (0.0,)
    # Up to 213,799 tokens lie all 132 prompts of b300 and 12 + 16 + 24 of mi355x.
    assert parts["input_tokens"].gaps == pytest.approx((80 / 132,))
    summary = parts["output_tokens"].summaries[0]
    assert summary is not None
    assert (summary.mean, summary.p10, summary.p90) == (101, 101, 101)


def test_per_watt_is_a_row_where_power_is_known(tmp_path: Path) -> None:
    (sensitivity,) = compared(
        tmp_path, twice(MI355X[2:4]), twice(B300[2:4]), {"power": 1400.0}, {"power": 1100.0}
    ).sensitivity
    (watts,) = (row for row in sensitivity.rows if row.definition == "per watt: tokens/s/W")
    assert watts.values == pytest.approx((7567 / 1400, 6083 / 1100), rel=1e-4)
    # 5.405 against 5.53.
    assert watts.winner == "b"


def test_a_row_per_dollar_with_a_price_missing_says_whose(tmp_path: Path) -> None:
    comparison = compared(tmp_path, MI355X[2:4], B300[2:4], {"price": 1.5})
    assert comparison.unpriced == ("b",)
    (dollars,) = (r for r in comparison.sensitivity[0].rows if r.definition.startswith("per doll"))
    assert dollars.values[1] is None
    assert dollars.why == (None, "no price given")
    assert dollars.winner is None


def test_a_target_that_one_run_does_not_reach_has_no_ratio(tmp_path: Path) -> None:
    (at,) = compared(tmp_path, MI355X[3:], B300[3:4], at=30.0).targets
    assert at.values[0].throughput == pytest.approx(11_500.0, rel=1e-4)
    assert at.values[1].throughput is None
    assert (at.ratios[0].throughput, at.ratios[0].no_interval) == (None, "not reached")


def test_another_corpus_is_not_the_same_work(tmp_path: Path) -> None:
    other = [replace(level, plan="other") for level in B300[2:4]]
    comparison = compared(tmp_path, MI355X[2:4], other, {}, {"corpus": "0ddba11"})
    assert not comparison.did_same_work
    assert [(fact.name, fact.same) for fact in comparison.same_work] == [
        ("corpus", False), ("scenario", True), ("plan", False),
    ]  # fmt: skip


FAST = (Level(2, 80.0, 1000.0), Level(4, 60.0, 1900.0), Level(12, 20.0, 3000.0))
SLOW = (Level(2, 80.0, 1000.0), Level(4, 60.0, 1900.0), Level(6, 20.0, 2500.0))


@pytest.mark.parametrize(
    ("target", "of_one"),
    [
        (70.0, False),  # both between 2 and 4
        (50.0, True),  # 4 and 12 of the one, 4 and 6 of the other
        (90.0, True),  # neither reaches it: every level counts
    ],
)
def test_plans_are_the_same_at_the_levels_that_both_ran_and_those_of_one_are_named(
    tmp_path: Path, target: float, of_one: bool
) -> None:
    comparison = compared(tmp_path, FAST, SLOW, at=target)
    (plans,) = comparison.plans
    assert plans == PlansAgainst(
        same=frozenset({2, 4}),
        different=frozenset(),
        first_alone=frozenset({12}),
        other_alone=frozenset({6}),
    )
    assert comparison.at_levels_of_one == (of_one,)


def test_the_levels_whose_plans_differ_are_told_from_those_that_do_not(tmp_path: Path) -> None:
    other = (SLOW[0], replace(SLOW[1], plan="another"), FAST[2])
    comparison = compared(tmp_path, FAST, other, at=70.0)
    fact = Fact("plan", False, ("same at 2, 12; different at 4",))
    assert comparison.same_work[2] == fact


@pytest.mark.parametrize(
    ("asked", "fact"),
    [
        ("tool_messages", Fact("tool messages", False, ("sent", "not sent", "not sent"))),
        ("live_history", Fact("answers", False, ("fed back", "not fed back", "not fed back"))),
    ],
)
def test_runs_asked_for_other_messages_did_other_work(
    tmp_path: Path, asked: str, fact: Fact
) -> None:
    runs = [
        contender(tmp_path / "a", MI355X[2:4], **{asked: True}),
        contender(tmp_path / "b", B300[2:4]),
        contender(tmp_path / "c", B300[2:4], **{asked: False}),
    ]
    comparison = compare(runs, (50.0,))
    assert not comparison.did_same_work
    assert comparison.same_work[3] == fact
    assert compare([runs[0], runs[0]], (50.0,)).did_same_work
    assert len(compare(runs[1:], (50.0,)).same_work) == 3


def test_runs_without_a_common_level_are_not_known_to_have_played_one_plan(tmp_path: Path) -> None:
    comparison = compared(tmp_path, MI355X[:2], B300[3:4])
    assert comparison.same_work[2].same is None
    assert comparison.mix_levels == ()
    assert comparison.mix[0].summaries[0] is not None


@pytest.mark.parametrize(("gpus", "per_system"), [(8, ("b",)), (None, ("a", "b"))])
def test_runs_of_which_one_has_no_gpu_count_are_compared_as_systems(
    tmp_path: Path, gpus: int | None, per_system: tuple[str, ...]
) -> None:
    comparison = compared(tmp_path, MI355X[2:4], B300[2:4], {"gpus": gpus}, {"gpus": None})
    assert (comparison.per_gpu, comparison.per_system) == (False, per_system)
    found = [value.throughput for value in comparison.targets[0].values]
    assert found == pytest.approx([7567 * 8, 6083 * 8], rel=1e-4)
    values = comparison.sensitivity[0].rows[0].values
    assert values == pytest.approx((7567 * 8, 6083 * 8), rel=1e-4)


def test_a_price_per_gpu_needs_a_gpu_count(tmp_path: Path) -> None:
    runs = [contender(tmp_path / n, MI355X[2:3], 1.5, gpus=None) for n in ("a", "b")]
    with refuses("gpu-count-missing", "a has "):
        compare(runs, (50.0,))


def test_token_itl_names_no_winner_where_a_client_was_too_slow_for_it(tmp_path: Path) -> None:
    runs = []
    for name, throughput, lag in (("a", 6000.0, 0), ("b", 5000.0, 5_000_000)):
        levels = [Level(12, 60.0, throughput), Level(16, 20.0, throughput)]
        path = make_run(tmp_path / name, twice(levels))
        # 5 ms of lag are over 10 % of an ITL of 16.7 ms.
        write_instrument(
            path / "c0012", [(12, 0, s * SECOND, lag, s * SECOND // 10) for s in range(100)]
        )
        runs.append(Contender(name, read_run(path), None, None))
    rows = {row.definition: row for row in compare(runs, (25.0,)).sensitivity[0].rows}
    # One gap holds 50.5 tokens: 1.98 times the response's ITL, so 30.3 and 10.1 tokens/s/user.
    assert rows["token ITL"].values == pytest.approx((6000.0, 5000.0), rel=1e-4)
    assert rows["token ITL"].untrusted == ("b",)
    assert rows["token ITL"].winner is None
    assert (rows["P99 instead of P90"].untrusted, rows["P99 instead of P90"].winner) == ((), "a")


@pytest.mark.parametrize("first_fails", [False, True])
def test_a_run_without_a_valid_level_has_no_ratio_and_leaves_others_theirs(
    tmp_path: Path, first_fails: bool
) -> None:
    failed = [Level(12, 50.0, 100.0, status=Status.FAILED)]
    runs = [contender(tmp_path / "a", twice(MI355X[2:4])), contender(tmp_path / "b", failed)]
    if not first_fails:
        runs.append(contender(tmp_path / "c", twice(B300[2:4])))
    found = compare(runs[::-1] if first_fails else runs, (50.0,))
    assert [each.name for each in found.without_level] == ["b"]
    assert not found.did_same_work
    ratios = [ratio.throughput for ratio in found.targets[0].ratios]
    assert ratios == [None] if first_fails else [None, pytest.approx(7567 / 6083)]


def test_the_run_that_did_other_work_is_the_only_one_so_called(tmp_path: Path) -> None:
    runs = [contender(tmp_path / name, MI355X[2:4]) for name in "ab"]
    runs.append(contender(tmp_path / "c", MI355X[2:4], corpus="other"))
    found = compare(runs, (50.0,))
    assert [[fact.name for fact in facts] for facts in found.unlike] == [[], ["corpus"]]
    assert not found.did_same_work


TEN_PER_CENT = Interval(0.9, 1.1)
ONE = "1 start: no winner named"


@pytest.mark.parametrize(
    ("values", "spread", "winner", "undecided"),
    [
        # 120 · 0.9 = 108 is above 100; 111 · 0.9 = 99.9 is not.
        ((120.0, 100.0), TEN_PER_CENT, "a", None),
        ((111.0, 100.0), TEN_PER_CENT, None, "not told apart"),
        ((100.0, 120.0), TEN_PER_CENT, "b", None),
        ((100.0, 100.3), TEN_PER_CENT, None, "not told apart"),
        ((100.0, 100.0), Interval(1.0, 1.0), None, "not told apart"),
        ((300.0, 100.0), ONE, None, ONE),
        ((300.0, None), TEN_PER_CENT, None, "fewer than two runs have a value"),
        # The best of three must be told apart from both others.
        ((120.0, 100.0, 50.0), TEN_PER_CENT, "a", None),
        ((120.0, 50.0, 115.0), TEN_PER_CENT, None, "not told apart"),
        ((None, 50.0, 115.0), TEN_PER_CENT, "c", None),
    ],
)
def test_a_run_wins_where_the_interval_of_its_ratio_excludes_1(
    values: tuple[float | None, ...],
    spread: Interval | str,
    winner: str | None,
    undecided: str | None,
) -> None:
    found = [DefinedValue(value) for value in values]
    row = sensitivity_row("d", "abc", found, lambda best, other: spread)
    assert (row.winner, row.undecided) == (winner, undecided)


def test_every_row_takes_the_interval_of_the_headline(tmp_path: Path) -> None:
    # Starts at 7,567 and 7,567 · 1.1 against the same: a ratio of 1 that may lie far from it.
    levels = twice(MI355X[2:4])
    levels[2:] = [replace(each, throughput=each.throughput * 1.1) for each in levels[2:]]
    runs = [contender(tmp_path / name, levels) for name in "ab"]
    comparison = compare(runs, (50.0,))
    (ratio,) = comparison.targets[0].ratios
    assert ratio.throughput == pytest.approx(1.0)
    assert not ratio.told_apart
    (sensitivity,) = comparison.sensitivity
    named = {row.definition: (row.winner, row.undecided) for row in sensitivity.rows}
    assert named[DEFINITIONS[0].name] == (None, "not told apart")
    assert named["P99 instead of P90"] == (None, "not told apart")
    assert sensitivity.changes == ()


def test_prices_are_exact_in_the_interval_per_dollar() -> None:
    cost = advantage((2.0, 1.0), (1.0, 3.0))
    ratio = Ratio("b", 2.0, Interval(1.5, 2.5), None, cost)
    assert ratio.cost_interval == Interval(4.5, 7.5)
    assert Ratio("b", 2.0, None, "why", cost).cost_interval is None


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two levels, measured without a GPU count."""
    out = tmp_path_factory.mktemp("measured") / "run"
    settings = Settings(
        traces=shipped_directory("traces"),
        scenario=load_scenario("quick"),
        concurrency=(4, 12),
        out=out,
        salt="pepper",
        command=(),
    )
    target = Target(
        open=lambda clock: InProcessEndpoint(clock, EngineModel(step_base_ms=20.0)),
        facts={"kind": "test"},
        virtual=True,
    )
    for _ in Sweep(settings, target).run(ProgressScreen(None)):
        pass
    return out


def test_a_run_against_its_own_records_is_named_and_exactly_1_at_every_target(
    measured: Path, tmp_path: Path
) -> None:
    shutil.copytree(measured, tmp_path / "copy")
    runs = [
        Contender(name, read_run(path), None, None)
        for name, path in (("run", measured), ("copy", tmp_path / "copy"))
    ]
    speeds = [point.on_curve[0] for point in runs[0].run.points if point.on_curve]
    targets = [min(speeds) + share * (max(speeds) - min(speeds)) for share in (0.1, 0.5, 0.9)]
    found = compare(runs, targets)
    assert found.same_records == (True,)
    for at in found.targets:
        (ratio,) = at.ratios
        assert (ratio.throughput, ratio.interval) == (1.0, Interval(1.0, 1.0))
        assert not ratio.told_apart


def test_a_run_against_its_own_records_with_half_the_gpus_is_exactly_a_half(
    measured: Path, tmp_path: Path
) -> None:
    shutil.copytree(measured, tmp_path / "copy")
    runs = [
        Contender("run", read_run(measured, gpus=6), None, None),
        Contender("copy", read_run(tmp_path / "copy", gpus=3), None, None),
    ]
    (speed, _), *_ = filter(None, (point.on_curve for point in runs[0].run.points))
    (ratio,) = compare(runs, (speed,)).targets[0].ratios
    assert (ratio.throughput, ratio.interval) == (0.5, Interval(0.5, 0.5))

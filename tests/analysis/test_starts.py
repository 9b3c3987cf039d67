"""Starts of a level: one point for all, and an interval that takes in how far runs differ."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from made_runs import Level, make_run

from agentx_replay.analysis.bootstrap import (
    Interval,
    LevelSample,
    Replicates,
    between_runs,
    draw,
    interval,
    mean_replicates,
    replicate_levels,
    run_weights,
)
from agentx_replay.analysis.comparison import Contender, compare
from agentx_replay.analysis.curve import Curve, curve_of
from agentx_replay.analysis.run import Run, read_run
from agentx_replay.analysis.starts import measured_once, run_to_run, scatter
from agentx_replay.replay.ports import Status

# Lanes of a made level are all alike: which are drawn changes nothing.
AGREE = tuple(Level(16, 50.0, 10_000.0, start=n) for n in (1, 2, 3))
DIFFER = tuple(
    Level(16, 50.0, throughput, start=n)
    for n, throughput in enumerate((9_900.0, 10_000.0, 10_100.0), 1)
)
FASTER = Level(12, 100.0, 5_000.0)


def replicates(speeds: Sequence[float], throughputs: Sequence[float]) -> Replicates:
    return Replicates(8, 12, np.array(speeds), np.array(throughputs))


def run_of(path: Path, *levels: Level) -> Run:
    return read_run(make_run(path, levels))


def curve(path: Path, *levels: Level, target: float = 50.0) -> Curve:
    return curve_of(run_of(path, *levels), (target,))


def test_every_replicate_of_a_level_is_the_mean_of_its_starts() -> None:
    found = mean_replicates(
        [replicates([40.0, 50.0], [100.0, 90.0]), replicates([60.0, 50.0], [120.0, 110.0])]
    )
    assert found.interactivity.tolist() == pytest.approx([48.0, 50.0])  # of the mean P90 ITL
    assert found.throughput.tolist() == [110.0, 100.0]


def test_a_replicate_without_a_value_in_one_start_has_none() -> None:
    found = mean_replicates([replicates([np.nan], [np.nan]), replicates([60.0], [120.0])])
    assert np.isnan(found.interactivity).all()
    assert np.isnan(found.throughput).all()


def test_a_replicate_moves_by_the_weighted_deviations_of_the_starts() -> None:
    # Starts of 40 and 90 tok/s/user lie at 2/3 and 3/2 of 60, their geometric mean; those of 50
    # and 200 tok/s at 1/2 and 2 of 100.
    within = replicates([10.0] * 4, [1000.0] * 4)
    measured = [replicates([40.0], [50.0]), replicates([90.0], [200.0])]
    weights = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 1.0]])
    found = between_runs(within, measured, weights)
    assert found.interactivity.tolist() == pytest.approx([10.0, 15.0, 20 / 3, 22.5])
    assert found.throughput.tolist() == pytest.approx([1000.0, 2000.0, 500.0, 4000.0])


def test_starts_that_agree_move_nothing() -> None:
    within = replicates([10.0, 11.0], [1000.0, 1100.0])
    found = between_runs(within, [replicates([40.0], [50.0])] * 3, np.array([[9.0, -5.0, 2.0]] * 2))
    assert found.interactivity.tolist() == pytest.approx([10.0, 11.0])
    assert found.throughput.tolist() == pytest.approx([1000.0, 1100.0])


@pytest.mark.parametrize(("starts", "t"), [(2, 12.706), (3, 4.303), (4, 3.182), (6, 2.571)])
def test_the_mean_of_starts_is_as_uncertain_as_students_t_says(starts: int, t: float) -> None:
    # Student's table, 97.5 %, of starts - 1 degrees of freedom. Values of one apart from all
    # others at 0: a mean of 1/n, deviations -1/n and 1 - 1/n, a standard error of the mean of 1/n.
    values = np.eye(starts)[0]
    moved = run_weights(range(1, starts + 1), 400_000, seed=1) @ (values - values.mean())
    assert np.quantile(moved * starts, 0.975) == pytest.approx(t, rel=0.02)
    assert np.quantile(moved * starts, 0.025) == pytest.approx(-t, rel=0.02)


@pytest.mark.parametrize("starts", [2, 3, 5])
def test_an_interval_of_few_starts_holds_the_truth_in_95_of_100(starts: int) -> None:
    # A thousand servers whose runs differ by 3 % (one standard deviation) around 100 tok/s.
    logs = np.log(100.0) + 0.03 * np.random.default_rng(5).standard_normal((1000, starts))
    weights = run_weights(range(1, starts + 1), 2000, seed=2)
    middle = np.exp(logs.mean(axis=1))
    moved = middle * np.exp(weights @ (logs - logs.mean(axis=1, keepdims=True)).T)
    low, high = np.quantile(moved, (0.025, 0.975), axis=0)
    assert np.mean((low < 100.0) & (high > 100.0)) == pytest.approx(0.95, abs=0.02)


# Lanes whose sessions' tokens and ITLs are log-normal, of responses whose ITLs are, on servers
# whose runs differ by 5 %: the P90 ITL of all is 20 ms · exp(1.2816 · √(0.3² + 0.2²)) = 31.75 ms.
LANES, RESPONSES = 32, 20
TRUE_SPEED = 1 / 0.03175
TRUE_THROUGHPUT = LANES * 10_000 * np.exp(0.5**2 / 2) / 100.0


def samples_of_a_server(starts: int, seed: int) -> list[LevelSample]:
    """One level's starts: the same sessions, each run slower or faster than usual as a whole."""
    rng = np.random.default_rng([starts, seed])
    tokens = 10_000 * np.exp(0.5 * rng.standard_normal(LANES))
    pace_ns = 20e6 * np.exp(0.3 * rng.standard_normal(LANES))
    clusters = np.repeat(np.arange(LANES), RESPONSES)
    found = []
    for start in range(1, starts + 1):
        slower = np.exp(0.05 * rng.standard_normal())
        itl_ns = slower * pace_ns[clusters] * np.exp(0.2 * rng.standard_normal(len(clusters)))
        rising = np.argsort(itl_ns)
        found.append(
            LevelSample(
                concurrency=LANES,
                clusters=tuple(map(str, range(LANES))),
                lanes=np.ones(LANES),
                tokens=tokens / slower,
                first_send_ns=np.zeros(LANES),
                last_end_ns=np.full(LANES, 100e9),
                itl_ns=itl_ns[rising],
                itl_cluster=clusters[rising],
                start=start,
            )
        )
    return found


def share_held(starts: int, sweeps: int = 100) -> tuple[float, float]:
    """In how many sweeps intervals of speed and throughput hold the truth."""
    held = np.zeros(2)
    for seed in range(sweeps):
        samples = samples_of_a_server(starts, seed)
        draws = draw([sample.clusters for sample in samples], 1000, seed)
        (level,) = replicate_levels(samples, draws, seed)
        for place, (values, truth) in enumerate(
            ((level.whole.interactivity, TRUE_SPEED), (level.whole.throughput, TRUE_THROUGHPUT))
        ):
            found = interval(values, LANES)
            held[place] += (found.low or 0.0) <= truth <= (found.high or np.inf)
    speed, throughput = held / sweeps
    return float(speed), float(throughput)


def test_with_starts_an_interval_holds_what_one_run_misses_where_runs_differ() -> None:
    # Sessions and runs together; one run's interval knows of the sessions alone.
    once, thrice = share_held(1), share_held(3)
    assert min(thrice) >= 0.92
    assert min(once) < 0.92


def test_a_start_moves_all_levels_together_and_no_other_runs() -> None:
    assert np.array_equal(run_weights([1, 2], 9, seed=1)[:, 0], run_weights([1, 3], 9, 1)[:, 0])
    assert not np.isin(run_weights([1, 2], 9, seed=1), run_weights([1, 2], 9, seed=2)).any()


def test_scatter_is_told_relative_to_the_mean() -> None:
    found = scatter(200.0, [190.0, 212.0, 198.0], Interval(180.0, 230.0))
    assert (found.lowest, found.highest) == pytest.approx((-0.05, 0.06))
    assert (found.sessions.low, found.sessions.high) == pytest.approx((-0.1, 0.15))


@pytest.mark.parametrize(
    ("starts", "sessions", "exceeds"),
    [
        ([90.0, 110.0], Interval(91.0, 109.0), True),  # 20 apart, 18 wide
        ([90.0, 110.0], Interval(89.0, 111.0), False),
        ([95.0, 105.0], Interval(100.0, 108.0), True),
        ([90.0, 110.0], Interval(None, 101.0), False),  # no telling
        ([90.0, 110.0], Interval(None, None), False),
    ],
)
def test_starts_exceed_an_interval_that_is_narrower_than_they_lie_apart(
    starts: list[float], sessions: Interval, exceeds: bool
) -> None:
    assert scatter(100.0, starts, sessions).exceeds == exceeds


# --- runs on disk --------------------------------------------------------------------------------


def test_a_level_of_several_starts_is_one_point_of_the_curve(tmp_path: Path) -> None:
    found = curve(tmp_path / "r", FASTER, *DIFFER, target=75.0)
    assert [point.concurrency for point in found.points] == [12, 16]
    assert found.points[1].throughput == pytest.approx(10_000.0)
    assert found.values[0].at.throughput == pytest.approx(7500.0, rel=1e-5)
    assert [len(found.starts[level]) for level in (12, 16)] == [1, 3]
    assert measured_once(found) == [12]


def test_an_interval_takes_in_how_far_runs_differ(tmp_path: Path) -> None:
    found = curve(tmp_path / "r", *DIFFER)
    # The standard error of three starts 1 % apart is 0.01 / √3 = 0.577 %. Student's t of 2 degrees
    # is 4.303 at 2.5 % and 5.88 at the 1.39 % that are beyond each end of 16 clusters.
    throughput, value = found.intervals[16].throughput, found.values[0].interval
    assert throughput.low is not None
    assert throughput.high is not None
    assert 4.3 * 0.00577 < np.log(throughput.high / 10_000.0) < 7.5 * 0.00577
    assert 4.3 * 0.00577 < -np.log(throughput.low / 10_000.0) < 7.5 * 0.00577
    assert value == throughput
    within = found.within[16].throughput
    assert (within.low, within.high) == pytest.approx((10_000.0, 10_000.0))


def test_starts_that_agree_leave_the_interval_of_one_run(tmp_path: Path) -> None:
    uneven = [Level(16, 50.0, 10_000.0, uneven=0.2, start=n) for n in (1, 2, 3)]
    once, thrice = (
        curve(tmp_path / str(len(levels)), *levels).intervals[16].throughput
        for levels in (uneven[:1], uneven)
    )
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high), rel=0.01)


def test_a_start_that_is_not_valid_is_not_in_the_mean(tmp_path: Path) -> None:
    failed = Level(16, 50.0, 10_100.0, status=Status.FAILED, start=3)
    run = run_of(tmp_path / "r", *DIFFER[:2], failed)
    assert run.curve[0].throughput == pytest.approx(9_950.0)
    (level,) = run_to_run(curve_of(run, (50.0,)))
    assert (level.concurrency, level.starts) == (16, 2)
    apart = (level.throughput.lowest, level.throughput.highest)
    assert apart == pytest.approx((-50 / 9950, 50 / 9950))


def test_a_level_with_one_valid_start_tells_nothing_of_runs(tmp_path: Path) -> None:
    failed = Level(16, 50.0, 10_100.0, status=Status.FAILED, start=2)
    found = curve(tmp_path / "r", DIFFER[0], failed)
    assert run_to_run(found) == []
    assert measured_once(found) == [16]


def test_a_ratio_takes_in_how_far_runs_differ(tmp_path: Path) -> None:
    other = run_of(tmp_path / "b", Level(16, 50.0, 8_065.0))
    ratios = []
    for name, levels in (("agree", AGREE), ("differ", DIFFER), ("far", (DIFFER[0], FAR))):
        first = run_of(tmp_path / name, *levels)
        contenders = [Contender(name, first, None, None), Contender("b", other, None, None)]
        found = compare(contenders, (50.0,))
        assert found.paired == (True,)
        ratios.append(found.targets[0].ratios[0])
    agree, differ, far = ratios
    assert agree.throughput == pytest.approx(1.24, abs=1e-3)
    assert agree.interval is not None
    assert agree.interval.low == pytest.approx(1.24, abs=1e-3)
    assert differ.interval is not None
    assert differ.interval.low is not None
    assert 1.24 * np.exp(-7.5 * 0.00577) < differ.interval.low < 1.24 * np.exp(-4.3 * 0.00577)
    assert (agree.told_apart, differ.told_apart) == (True, True)
    assert not far.told_apart  # two runs 19 % apart say little


FAR = Level(16, 50.0, 12_000.0, start=2)


def test_a_level_whose_starts_played_different_plans_is_no_equal(tmp_path: Path) -> None:
    mixed = (AGREE[0], Level(16, 50.0, 10_000.0, start=2, plan="another"))
    runs = [run_of(tmp_path / "mixed", *mixed), run_of(tmp_path / "agree", *AGREE)]
    found = compare([Contender(run.path.name, run, None, None) for run in runs], (50.0,))
    assert (found.paired, found.did_same_work) == ((False,), False)


def test_runs_that_are_compared_differ_independently(tmp_path: Path) -> None:
    runs = [Contender(name, run_of(tmp_path / name, *DIFFER), None, None) for name in "ab"]
    (ratio,) = compare(runs, (50.0,)).targets[0].ratios
    assert ratio.throughput == pytest.approx(1.0)
    assert ratio.interval is not None
    assert ratio.interval.low is not None
    assert ratio.interval.low < np.exp(-4.3 * 0.00577)

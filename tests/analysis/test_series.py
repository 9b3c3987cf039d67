"""Several runs as one series: the envelope, its mixed spans, and the best run alone."""

from pathlib import Path

import pytest
from made_runs import Level, make_run

from agentx_replay.analysis.run import Run, read_run
from agentx_replay.analysis.series import SeriesEnd, series_ratios, series_value
from agentx_replay.results.system_facts import system_of

# Fast and slow: the first run is better at 12 agents (60 tok/s/user), the second at 48 (40).
FIRST = (Level(12, 60.0, 3000.0), Level(16, 36.0, 4000.0))
SECOND = (Level(12, 52.0, 2800.0), Level(48, 40.0, 6000.0))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    where = tmp_path_factory.mktemp("runs")
    facts = {"A": {"dcp_size": 1, "draft_tokens": 3}, "B": {"dcp_size": 8, "draft_tokens": 0}}
    made = {"A": make_run(where / "A", FIRST), "B": make_run(where / "B", SECOND)}
    return {name: read_run(path, system=system_of(facts[name], "")) for name, path in made.items()}


def test_a_series_is_read_off_the_envelope_of_its_runs(runs: dict[str, Run]) -> None:
    # Halfway from 40 to 60: (6,000 + 3,000) / 2. Alone the first gives 3,000 + 10/24 · 1,000 and
    # the second 2,800 + 2/12 · 3,200.
    found = series_value("s", runs, 50.0)
    assert found.throughput == pytest.approx(4500.0, rel=1e-3)
    assert found.ends == (
        SeriesEnd("B", 48, {"dcp_size": 8, "draft_tokens": 0}),
        SeriesEnd("A", 12, {"dcp_size": 1, "draft_tokens": 3}),
    )  # fmt: skip
    assert found.mixed
    assert found.single is not None
    assert found.single.run == "A"
    assert found.single.throughput == pytest.approx(3416.7, rel=1e-3)


def test_nothing_is_extrapolated(runs: dict[str, Run]) -> None:
    assert series_value("s", runs, 70.0).throughput is None
    at_an_end = series_value("s", runs, 59.99)
    assert at_an_end.throughput == pytest.approx(3000.0, rel=1e-3)


def test_a_series_of_one_run_is_its_curve(runs: dict[str, Run]) -> None:
    found = series_value("s", {"A": runs["A"]}, 48.0)
    assert found.throughput == pytest.approx(3500.0, rel=1e-3)
    assert not found.mixed
    assert found.single is not None
    assert found.throughput == pytest.approx(found.single.throughput)


def test_series_have_a_ratio_and_an_interval_of_two_starts_or_more(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    (one,) = series_ratios({"s": runs, "b": {"b": runs["B"]}}, [50.0])
    assert one.ratio == pytest.approx(4500 / 3333.3, rel=1e-3)
    assert one.interval is None
    both = [
        Level(each.concurrency, each.interactivity, each.throughput * start, start=start)
        for start in (1, 2)
        for each in SECOND
    ]
    two = read_run(make_run(tmp_path / "two", both))
    (ratio,) = series_ratios({"s": {"x": two}, "b": {"y": two}}, [45.0])
    assert ratio.ratio == pytest.approx(1.0)
    assert ratio.interval is not None

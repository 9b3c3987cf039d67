"""A run directory that was meddled with: what cannot be read is named, and the rest is reported."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from made_runs import Level, make_run
from refusals import refuses

from agentx_replay.analysis.point import stored_point
from agentx_replay.analysis.run import read_run
from agentx_replay.report.rebuild import Report
from agentx_replay.results.run_directory import read_points

LEVELS = [Level(12, 160.0, 1500.0), Level(16, 60.0, 6000.0)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", LEVELS)


def set_in(file: Path, name: str, value: Any) -> None:
    """Set one value in a JSON file; ``name`` is its path with dots."""
    document = inner = orjson.loads(file.read_bytes())
    *path, last = name.split(".")
    for key in path:
        inner = inner[key]
    inner[last] = value
    file.write_bytes(orjson.dumps(document))


def replace_by_a_copy(run: Path) -> None:
    shutil.rmtree(run / "c0016")
    shutil.copytree(run / "c0012", run / "c0016")


def copy_a_file(run: Path) -> None:
    directory = run / "c0016" / "requests.parquet"
    shutil.copy(directory / "requests.parquet", directory / "again.parquet")


def take_the_other_levels_records(run: Path) -> None:
    shutil.rmtree(run / "c0016" / "requests.parquet")
    shutil.copytree(run / "c0012" / "requests.parquet", run / "c0016" / "requests.parquet")


def fact(name: str, value: Any) -> Callable[[Path], None]:
    return lambda run: set_in(run / "c0016" / "point.json", name, value)


MEDDLED = [
    (replace_by_a_copy, "c0016/point.json is of concurrency 12; move its directory away"),
    (copy_a_file, "c0016/requests.parquet holds 16 responses more than once"),
    (take_the_other_levels_records, "has another mark than this level"),
    (
        fact("facts.gpus", "x"),
        "(facts.gpus: expected `int | null`, got `str`); move its",
    ),
    (fact("facts.gpus", 0), "c0016/point.json is damaged: facts.gpus is no number of GPUs"),
    (fact("facts.concurrency", 3), "facts.concurrency is another level's"),
    (fact("facts.rules.window_s", "<b>"), "(facts.rules.window_s: expected `float`, got `str`)"),
    (fact("facts.rules.window_s", -1), "facts.rules.window_s is not above 0"),
    (fact("facts.rules", []), "(facts.rules: expected `object`, got `array`)"),
    (fact("facts.window.close_ns", 0), "facts.window does not open before it closes"),
    (fact("facts.window.close_ns", 10**18 * 10), "facts.window does not open before it closes"),
    (fact("facts.conduct", None), "(facts.conduct: expected `object`, got `null`)"),
    (fact("fidelity", {"requests": 1}), "c0016/point.json is damaged: fidelity: object missing"),
]


@pytest.mark.parametrize(("meddle", "said"), MEDDLED)
def test_a_level_that_cannot_be_read_is_named_and_the_other_is_reported(
    run: Path, meddle: Callable[[Path], None], said: str
) -> None:
    meddle(run)
    report = Report.of(run, (100.0,))
    assert [point.concurrency for point in report.run.points] == [12]
    ((level, why),) = report.run.refused.items()
    assert level == (16, 1)
    assert said in why
    assert not report.sound
    assert "16 agents: cannot be measured:" in report.text()
    assert report.plain()["not_measured"] == [{"concurrency": 16, "start": 1, "why": why}]


def test_a_run_without_a_level_that_can_be_read_is_refused(run: Path) -> None:
    for level in ("c0012", "c0016"):
        set_in(run / level / "point.json", "facts.gpus", "x")
    with refuses("facts-missing", "c0012/point.json"):
        read_run(run)


def test_a_level_that_is_kept_by_a_resumed_sweep_is_checked_too(run: Path) -> None:
    copy_a_file(run)
    _, meddled = read_points(run)
    with refuses("responses-twice", "16"):
        stored_point(meddled)


@pytest.mark.parametrize("concurrency", [-1, 0, "2", 2.0, True, None])
def test_a_concurrency_that_is_none_is_refused(run: Path, concurrency: object) -> None:
    set_in(run / "c0016" / "point.json", "concurrency", concurrency)
    with refuses("point-damaged", "c0016/point.json"):
        read_run(run)

"""``sweep.json`` is held to its kinds, field by field, whatever version wrote it."""

from pathlib import Path

import pytest
from refusals import refuses

from agentx_replay.errors import UsageError
from agentx_replay.results.run_directory import RunDirectory, read_points, read_sweep


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"levels": 3}, "sweep.levels is not a list"),
        ({"levels": [[12]]}, "sweep.levels[0] is not a whole number"),
        ({"levels": [0]}, "sweep.levels or starts is not from 1 to 10,000"),
        ({"starts": 10**12}, "sweep.levels or starts is not from 1 to 10,000"),
        ({"target": []}, "sweep.target is not an object"),
        ({"target": {"url": ["http://a", 1]}}, "sweep.target.url is no address"),
        ({"scenario": {"seed": "x"}}, "sweep.scenario.seed is not a whole number"),
        ({"scenario": {"start_fraction": [0.5]}}, "sweep.scenario.start_fraction has not 2 values"),
        ({"scenario": {"reading": "none"}}, "sweep.scenario.reading is none of official, faithful"),
        ({"corpus": {"played": 5}}, "sweep.corpus.played is not a list"),
        ({"started_unix_s": "yesterday"}, "sweep.started_unix_s is not a number"),
        ({"started_unix_s": 1e300}, "sweep.started_unix_s is no time"),
        ({"gpus": -8}, "sweep.gpus is not above 0"),
        ({"plans": {"12": 1}}, "sweep.plans.12 is not a text"),
    ],
)
def test_a_field_that_cannot_be_what_it_is_is_refused_by_its_name(
    tmp_path: Path, change: dict[str, object], told: str
) -> None:
    RunDirectory(tmp_path).write_sweep({"levels": [12], "salt": "s", **change})
    with refuses("sweep-damaged") as refused:
        read_sweep(tmp_path)
    assert refused.value.what == f"{tmp_path}/sweep.json is damaged: {told}"


def test_fields_that_another_version_lacks_or_adds_pass(tmp_path: Path) -> None:
    document = {"corpus": {"name": "c", "more": 1}, "more": [], "scenario": {"new_rule": {}}}
    RunDirectory(tmp_path).write_sweep(document)
    assert read_sweep(tmp_path) == document


@pytest.mark.parametrize("name", ["run_id", "plan_fingerprint"])
def test_a_point_says_its_run_and_plan_in_text_or_not_at_all(tmp_path: Path, name: str) -> None:
    RunDirectory.create(tmp_path).start_point(8, {name: 5})
    with pytest.raises(UsageError, match=f"c0008/point.json is damaged: point.{name} is not a te"):
        read_points(tmp_path)

"""JSON documents come back as what they were written from, or the field that is wrong is named."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson
import pytest
from refusals import refuses

from agentx_replay.results.documents import known, typed
from agentx_replay.results.layout import Measurement
from agentx_replay.results.run_directory import RunDirectory, read_points, read_sweep


@dataclass(frozen=True, slots=True)
class Inner:
    seconds: float
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outer:
    count: int
    fine: bool
    inner: Inner | None
    word: str | None = None
    side: Literal["left", "right"] = "left"
    at: Path | None = None
    span: tuple[float, float] = (0.0, 1.0)
    counts: dict[str, int] = field(default_factory=dict)
    inners: tuple[Inner, ...] = ()


WHOLE: dict[str, Any] = {"count": 3, "fine": True, "inner": {"seconds": 0.5, "names": ["a", "b"]}}


def test_what_was_written_is_read_back() -> None:
    for outer in (Outer(3, True, Inner(0.5, ("a", "b")), "w"), Outer(0, False, None)):
        assert typed(Outer, orjson.loads(orjson.dumps(asdict(outer))), "it") == outer
    more = {"side": "right", "at": "/x", "span": [1, 2.5], "counts": {"a": 1}}
    assert typed(Outer, {**WHOLE, **more}, "it") == Outer(
        3, True, Inner(0.5, ("a", "b")), None, "right", Path("/x"), (1, 2.5), {"a": 1}
    )


def test_a_field_with_a_default_may_be_missing_and_a_whole_number_is_a_number() -> None:
    assert typed(Outer, WHOLE, "it").word is None
    assert typed(Inner, {"seconds": 20}, "it") == Inner(20.0)
    assert known(Inner, {"seconds": 20, "more": 1}, "it") == Inner(20.0)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"count": "3"}, "it.count"),
        ({"count": 3.5}, "it.count"),
        ({"count": 2.0**64}, "it.count"),  # what orjson makes of 18446744073709551616
        ({"count": True}, "it.count"),
        ({"count": None}, "it.count"),
        ({"fine": 1}, "it.fine"),
        ({"word": 5}, "it.word"),
        ({"inner": []}, "it.inner"),
        ({"inner": {}}, "it.inner"),
        ({"inner": {"seconds": "<b>"}}, "it.inner.seconds"),
        ({"inner": {"seconds": 1, "names": "ab"}}, "it.inner.names"),
        ({"inner": {"seconds": 1, "names": ["a", 2]}}, "it.inner.names[1]"),
        ({"side": "up"}, "it.side"),
        ({"side": []}, "it.side"),
        ({"at": 5}, "it.at"),
        ({"span": [0.5]}, "it.span"),
        ({"span": [0.5, "x"]}, "it.span[1]"),
        ({"counts": []}, "it.counts"),
        ({"counts": {"a": 1.5}}, "it.counts[...]"),
        ({"more": 1}, "it.more"),
        ({"inner": {"seconds": 1, "more": 1}}, "it.inner.more"),
        ({"inners": [{"seconds": 1}, {"seconds": 1, "more": 1}]}, "it.inners[1].more"),
    ],
)
def test_a_field_of_another_type_or_name_is_named(change: dict[str, Any], where: str) -> None:
    with pytest.raises(ValueError, match=r".*: .+") as raised:
        typed(Outer, {**WHOLE, **change}, "it")
    assert str(raised.value).split(": ")[0] == where


def test_json_has_no_number_that_is_none() -> None:
    for text in ("NaN", "1e999"):
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(text)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"levels": 3}, "sweep.levels: expected `array`, got `int`"),
        ({"levels": [[12]]}, "sweep.levels[0]: expected `int`, got `array`"),
        ({"levels": [0]}, "sweep.levels or starts not from 1 to 10,000"),
        ({"starts": 10**12}, "sweep.levels or starts not from 1 to 10,000"),
        ({"target": []}, "sweep.target: expected `object`, got `array`"),
        ({"target": {"url": ["http://a", 1]}}, "sweep.target.url[1]: expected `str`, got `int`"),
        ({"scenario": {"seed": "x"}}, "sweep.scenario.seed: expected `int`, got `str`"),
        ({"started_unix_s": 1e300}, "sweep.started_unix_s not a time"),
        ({"gpus": -8}, "sweep.gpus not above 0"),
        ({"plans": {"12": 1}}, "sweep.plans[...]: expected `str`, got `int`"),
    ],
)
def test_a_field_of_sweep_json_that_cannot_be_is_refused_by_its_name(
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


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": 5},
        {"plan_fingerprint": 5},
        {"status": "odd"},
        {"status": None},
        {"concurrency": 0},
        *({"start": start} for start in (0, -1, 1.0, True, None, "2")),
    ],
)
def test_a_point_that_does_not_say_what_it_is_is_refused(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    RunDirectory.create(tmp_path).start_point(Measurement(8), change)
    with refuses("point-damaged", "c0008/point.json"):
        read_points(tmp_path)

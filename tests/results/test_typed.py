"""JSON values come back as what they were written from, or the field that is wrong is named."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson
import pytest

from agentx_replay.results.typed import check_known, typed


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


WHOLE: dict[str, Any] = {"count": 3, "fine": True, "inner": {"seconds": 0.5, "names": ["a", "b"]}}


def test_what_was_written_is_read_back() -> None:
    for outer in (Outer(3, True, Inner(0.5, ("a", "b")), "w"), Outer(0, False, None)):
        assert typed(Outer, orjson.loads(orjson.dumps(asdict(outer))), "it") == outer
    more = {"side": "right", "at": "/x", "span": [1, 2.5], "counts": {"a": 1}}
    assert typed(Outer, {**WHOLE, **more}, "it") == Outer(
        3, True, Inner(0.5, ("a", "b")), None, "right", Path("/x"), (1, 2.5), {"a": 1}
    )


def test_of_another_versions_object_only_the_fields_that_are_known_are_checked() -> None:
    check_known(Outer, {"fine": True, "more": 1, "inner": {"less": 2}}, "it")
    with pytest.raises(ValueError, match=r"^it\.inner\.seconds is not a number$"):
        check_known(Outer, {"more": 1, "inner": {"seconds": "x"}}, "it")


def test_a_field_with_a_default_may_be_missing_and_a_whole_number_is_a_number() -> None:
    assert typed(Outer, WHOLE, "it").word is None
    assert typed(Inner, {"seconds": 20}, "it") == Inner(20.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"count": "3"}, "it.count is not a whole number"),
        ({"count": 3.5}, "it.count is not a whole number"),
        ({"count": True}, "it.count is not a whole number"),
        ({"count": None}, "it.count is not a whole number"),
        ({"fine": 1}, "it.fine is not a yes or no"),
        ({"word": 5}, "it.word is not a text"),
        ({"inner": []}, "it.inner is not an object"),
        ({"inner": {}}, "it.inner.seconds is missing"),
        ({"inner": {"seconds": "<b>"}}, "it.inner.seconds is not a number"),
        ({"inner": {"seconds": float("nan")}}, "it.inner.seconds is not a number"),
        ({"inner": {"seconds": 1, "names": "ab"}}, "it.inner.names is not a list"),
        ({"inner": {"seconds": 1, "names": ["a", 2]}}, "it.inner.names[1] is not a text"),
        ({"side": "up"}, "it.side is none of left, right"),
        ({"side": []}, "it.side is none of left, right"),
        ({"at": 5}, "it.at is not a text"),
        ({"span": [0.5]}, "it.span has not 2 values"),
        ({"span": [0.5, "x"]}, "it.span[1] is not a number"),
        ({"counts": []}, "it.counts is not an object"),
        ({"counts": {"a": 1.5}}, "it.counts.a is not a whole number"),
        ({"more": 1}, "it.more is not known to this version"),
    ],
)
def test_a_field_of_another_type_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="^" + said.replace("[", r"\[") + "$"):
        typed(Outer, {**WHOLE, **change}, "it")


def test_what_is_no_object_is_told_so() -> None:
    with pytest.raises(ValueError, match="it is not an object"):
        typed(Outer, None, "it")

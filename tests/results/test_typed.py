"""JSON values come back as what they were written from, or the field that is wrong is named."""

from dataclasses import asdict, dataclass
from typing import Any

import orjson
import pytest

from agentx_replay.results.typed import typed


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


WHOLE: dict[str, Any] = {"count": 3, "fine": True, "inner": {"seconds": 0.5, "names": ["a", "b"]}}


def test_what_was_written_is_read_back() -> None:
    for outer in (Outer(3, True, Inner(0.5, ("a", "b")), "w"), Outer(0, False, None)):
        assert typed(Outer, orjson.loads(orjson.dumps(asdict(outer))), "it") == outer


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
        ({"more": 1}, "it.more is not known to this version"),
    ],
)
def test_a_field_of_another_type_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="^" + said.replace("[", r"\[") + "$"):
        typed(Outer, {**WHOLE, **change}, "it")


def test_what_is_no_object_is_told_so() -> None:
    with pytest.raises(ValueError, match="it is not an object"):
        typed(Outer, None, "it")

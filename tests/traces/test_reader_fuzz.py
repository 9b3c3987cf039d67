"""Whatever the bytes, reading gives a session or a ``UsageError``; and it finds all sharing."""

import contextlib
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from agentx_replay.errors import UsageError
from agentx_replay.traces.weka import read_session

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=12)
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["t", "in", "hash_ids", "requests", "x"]), inner)
    ),
    max_leaves=12,
)


def object_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={k: v | anything for k, v in fields.items()})


ids = st.lists(st.integers(0, 5), max_size=6)
request = object_of(
    t=st.floats(0, 100),
    **{"in": st.integers(1, 500)},
    out=st.integers(0, 50),
    hash_ids=ids,
    api_time=st.floats(0, 9),
    model=st.just("m"),
)
marker = object_of(
    type=st.just("subagent"),
    t=st.floats(0, 100),
    duration_ms=st.integers(0, 9000),
    requests=st.lists(request, max_size=3),
)
session = object_of(
    id=st.just("s"), block_size=st.just(64), requests=st.lists(request | marker, max_size=5)
)


def read(raw: bytes) -> None:
    with contextlib.suppress(UsageError):
        read_session(raw, "t.json")


@given(st.binary(max_size=200))
def test_any_bytes(raw: bytes) -> None:
    read(raw)


@given(session | anything)
def test_any_json(value: Any) -> None:
    read(orjson.dumps(value))


@given(session, st.data())
def test_any_cut_or_changed_byte(value: Any, data: st.DataObject) -> None:
    raw = bytearray(orjson.dumps(value))
    place = data.draw(st.integers(0, len(raw)))
    read(bytes(raw[:place]))
    raw[place : place + 1] = data.draw(st.binary(max_size=1))
    read(bytes(raw))


@given(st.lists(st.lists(st.integers(0, 12), max_size=8), min_size=1, max_size=14))
def test_known_blocks_are_the_longest_prefix_that_any_earlier_prompt_begins_with(
    prompts: list[list[int]],
) -> None:
    requests = [
        {"t": t, "in": 64 * max(1, len(p)), "out": 1, "hash_ids": p} for t, p in enumerate(prompts)
    ]
    value = {"id": "s", "block_size": 64, "requests": requests}
    found = read_session(orjson.dumps(value), "t.json")
    before: set[tuple[int, ...]] = set()
    paths: dict[tuple[int, ...], list[int]] = {}
    for prompt, recorded in zip(prompts, found.requests(), strict=True):
        prefixes = [tuple(prompt[:n]) for n in range(1, len(prompt) + 1)]
        assert recorded.known_blocks == sum(prefix in before for prefix in prefixes)
        before.update(prefixes)
        path = found.blocks.path(recorded.tip_block).tolist()
        assert paths.setdefault(tuple(prompt), path) == path
    assert len(found.blocks) == len(before)

"""Logs with one value of another kind in any place: an import reads on, or says why it does not."""

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import orjson
import pytest
from claude_logs import SESSION, answer, boundary, tool_result, tool_use, usage
from codex_logs import PARENT, item, meta
from hypothesis import given
from hypothesis import strategies as st
from trace_rows import ROW_LOGS

from agentx_replay.errors import UsageError
from agentx_replay.traces.importing.importing import Import, Wanted
from agentx_replay.traces.importing.record import Ledger
from agentx_replay.traces.weka import read_session

LOGS: dict[str, list[dict[str, Any]]] = {
    "claude-code": [
        *SESSION,
        answer(50, "x", usage(0, 9), tool_use("c", "Task", subagent_type="Plan", prompt="p")),
        tool_result(60, "c", agentId="a", usage=usage(9, 9)),
        boundary(61),
        answer(70, "y", usage(0, 9)),
    ],
    "codex": [meta(0, "a"), *PARENT, item(90, "function_call", name="wait", call_id="w")],
    **ROW_LOGS,
}

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from([[], {}, [1], {"a": 1}, [[]], ["a"], "9" * 5_000, "2026-13-01"]),
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key) of a value."""
    if isinstance(value, dict | list):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield value, key
            yield from places(value[key])


@given(st.data())
def test_a_log_with_a_value_of_another_kind_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(LOGS)))
    log = orjson.loads(orjson.dumps(copy.deepcopy(LOGS[name])))
    container, key = data.draw(st.sampled_from(list(places(log))))
    container[key] = data.draw(VALUES)
    file = tmp_path_factory.mktemp("log") / "log.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, log)))
    imported = Import({name: [file]}, Wanted(), Ledger(), b"salt")
    with suppress(UsageError):  # no session is left
        for line in imported.lines():
            read_session(line, "line")

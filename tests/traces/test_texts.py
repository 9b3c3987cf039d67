"""What counts as text in a trace: any string but the short names and kinds of the format."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from agentx_replay.traces.texts import texts_in

REQUEST = {"t": 0, "type": "s", "model": "m", "in": 64, "out": 1, "hash_ids": [1], "stop": "end"}


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({}, {}),
        ({"input_types": ["text", "tool_result"]}, {}),
        ({"model": "my own model"}, {"requests.model": 1}),
        ({"stop": "x" * 81}, {"requests.stop": 1}),
        ({"messages": [{"content": "hi"}, {"content": "ho"}]}, {"requests.messages.content": 2}),
        ({"extra": {"model": "m"}}, {"requests.extra.model": 1}),
    ],
)
def test_texts_are_counted_by_field(
    tmp_path: Path, more: dict[str, Any], found: dict[str, int]
) -> None:
    session = {"id": "a", "block_size": 64, "requests": [REQUEST | more]}
    (tmp_path / "a.json").write_bytes(orjson.dumps(session))
    assert texts_in(tmp_path) == found

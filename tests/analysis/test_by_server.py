"""Which servers a run had, as ``sweep.json`` has them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_runs import Level, make_run

from agentx_replay.analysis.run import read_run, urls_of


@pytest.mark.parametrize(
    ("target", "urls"),
    [
        ({"url": ["http://a:1", "http://b:2"]}, ["http://a:1", "http://b:2"]),
        ({"url": ["http://a:1"]}, []),
        ({"url": "http://a:1"}, []),
        ({"virtual": True}, []),
        (None, []),
    ],
)
def test_servers_are_told_apart_where_a_run_has_several(
    tmp_path: Path, target: dict[str, Any] | None, urls: list[str]
) -> None:
    run = read_run(make_run(tmp_path / "r", [Level(4, 50.0, 100.0)]))
    assert urls_of(replace(run, sweep={**run.sweep, "target": target})) == urls

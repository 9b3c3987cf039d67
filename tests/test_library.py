"""The library as its page shows it."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import agentx_replay
from agentx_replay import Settings, UsageError, compare, read_run, sweep

PAGE = Path(__file__).resolve().parents[1] / "docs" / "library.md"


def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(example, {})
    two, four, ratios = told.getvalue().splitlines()
    assert (two.split()[0], four.split()[0]) == ("2", "4")
    assert re.fullmatch(r"140\.0 \[\d\.\d+\]", ratios)
    assert [point.concurrency for point in read_run(tmp_path / "results" / "a").points] == [2, 4]


def test_what_a_person_can_cause_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(UsageError) as refused:
        sweep(virtual=True, out=tmp_path)
    assert refused.value.code == "out-not-empty"
    with pytest.raises(UsageError) as refused:
        Settings(virtual=True, url=("http://a",))
    assert refused.value.code == "virtual-with-url"


def test_nothing_else_is_offered() -> None:
    assert callable(compare)
    with pytest.raises(AttributeError):
        agentx_replay.nothing  # noqa: B018

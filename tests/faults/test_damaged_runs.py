"""Any field of a run's JSON files may be damaged: each command answers, or says what is wrong.

A damaged field is one of another kind, of an impossible value, missing, or nested wrong.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from command_line import finished
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_corpus import corpus, request, session

from agentx_replay.analysis.comparison import Contender, compare
from agentx_replay.analysis.point import stored_point
from agentx_replay.analysis.run import read_run
from agentx_replay.errors import UsageError
from agentx_replay.experiment.late_fidelity import with_late_fidelity
from agentx_replay.experiment.resumption import earlier_run, resumed
from agentx_replay.report.compare_sections import compare_sections
from agentx_replay.report.rebuild import Report
from agentx_replay.results.run_directory import read_sweep

FILES = ("sweep.json", "c0001/point.json", "calibration.json")
MISSING = "missing"
DAMAGE: tuple[Any, ...] = (
    MISSING, None, True, "x", "", 0, -1, 1.5, 10**15, 2.0**70, [], ["x"], [None], [[1]], {},
    {"a": []},
)  # fmt: skip
PLACES = st.integers(0, 10_000)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one level of virtual time; beside it a copy, and one as if it had been killed."""
    place = tmp_path_factory.mktemp("damaged")
    turns = [request(n, range(4 + n)) for n in range(10)]
    corpus(place / "traces", *(session(f"s{n}", *turns) for n in range(3)))
    out = place / "out"
    run = ("sweep", "--virtual", "--concurrency", "1", "--override", "window_s=5", "--gpus", "8")
    finished(*run, "--traces", place / "traces", "--out", out)
    killed = shutil.copytree(out, out.with_name("killed"))
    point = killed / "c0001" / "point.json"
    point.write_bytes(orjson.dumps(orjson.loads(point.read_bytes()) | {"status": "running"}))
    return shutil.copytree(out, out.with_name("untouched"))


def places(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each value of a JSON document stands; of a list the first alone."""
    if place:
        yield place
    inner = document.items() if isinstance(document, dict) else ()
    first = enumerate(document[:1]) if isinstance(document, list) else ()
    for key, value in (*inner, *first):
        yield from places(value, (*place, key))


def damaged(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    *outer, last = place
    inner = document
    for key in outer:
        inner = inner[key]
    if value == MISSING:
        del inner[last]
    else:
        inner[last] = value
    return document


def reported(run: Path, _: Path) -> None:
    report = Report.of(run, (50.0,))
    with_late_fidelity(report.run)
    report.text()
    orjson.dumps(report.plain())
    report.write()


def compared(run: Path, other: Path) -> None:
    runs = [Contender(name, read_run(path), 1.0, None) for name, path in (("a", run), ("b", other))]
    compare_sections(compare(runs, (50.0,)), None)


def gone_on_with(run: Path, other: Path) -> None:
    earlier = earlier_run(run)
    asked = earlier.settings
    assert all(1 <= level <= 10_000 for level in (*asked.concurrency, asked.starts))
    assert orjson.dumps(resumed(earlier, read_sweep(other), accept=True))
    for stored in earlier.complete:
        stored_point(stored)


@pytest.mark.parametrize("command", [reported, compared, gone_on_with])
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=settings().max_examples // 2)
@given(
    state=st.sampled_from(["out", "killed"]),
    file=st.sampled_from(FILES),
    number=PLACES,
    value=st.sampled_from(DAMAGE),
)
def test_a_damaged_field_gives_an_answer_or_a_sentence(
    whole: Path,
    command: Callable[[Path, Path], None],
    state: str,
    file: str,
    number: int,
    value: Any,
) -> None:
    run = whole.with_name(state)
    before = (run / file).read_bytes()
    found = list(places(orjson.loads(before)))
    change = damaged(orjson.loads(before), found[number % len(found)], value)
    (run / file).write_bytes(orjson.dumps(change))
    try:
        with suppress(UsageError):
            command(run, whole)
    finally:
        (run / file).write_bytes(before)

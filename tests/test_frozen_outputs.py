"""Every number of four kept runs, wherever it is shown, and whole outputs, word for word.

Other tests hold codes and values. A sentence that changes shows here, and nowhere else; a number
moves only where a change says so: see ``golden_files``.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from command_line import finished
from golden_files import Goldens, numbers_of_page, text_of_page
from kept_runs import RUNS

from agentx_replay.experiment.late_fidelity import with_late_fidelity
from agentx_replay.report.rebuild import Report
from agentx_replay.results.layout import report_file
from agentx_replay.results.run_directory import read_points
from agentx_replay.results.schema import POINTS

TARGETS = (30.0, 50.0, 100.0)
WITH_RARE_OPTIONS = {("run",), ("sweep",), ("capacity",), ("plan",), ("check",), ("system",)}
ANOTHER_EACH_TIME = {"mark", "out", "page"}

COMMANDS = (
    (), ("run",), ("sweep",), ("capacity",), ("plan",), ("check",), ("system",),
    ("report",), ("compare",), ("docs",),
    ("traces",), ("traces", "stats"), ("traces", "check"), ("traces", "pack"),
    ("traces", "generate"), ("traces", "import"), ("simulate",),
)  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_the_numbers_of_a_kept_run_are_frozen(
    name: str, kept_run: Callable[[str], Path], goldens: Goldens
) -> None:
    out = kept_run(name)
    points = [_lasting(dict(point.document)) for point in read_points(out)]
    goldens.check_values(f"numbers/{name}-point", points)

    found = Report.of(out, TARGETS)
    run, _ = with_late_fidelity(found.run)
    found = replace(found, run=run)
    goldens.check_values(f"numbers/{name}-report", _lasting(found.plain()))

    page = found.write().read_text()
    goldens.check_values(f"numbers/{name}-page", numbers_of_page(page))
    rows = pq.read_table(POINTS.whole(out)).to_pylist()
    goldens.check_values(f"numbers/{name}-points", rows)


def _lasting(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in ANOTHER_EACH_TIME}


def said(*arguments: object, place: Path | None = None) -> str:
    """Everything a command says, with its exit code; ``place`` is another each time."""
    done = finished(*arguments, COLUMNS="80")
    text = f"exit code {done.returncode}\n{done.stderr}{done.stdout}"
    return text if place is None else text.replace(str(place), "PLACE")


@pytest.mark.parametrize("name", RUNS)
def test_what_a_report_and_its_page_say(
    name: str, kept_run: Callable[[str], Path], goldens: Goldens
) -> None:
    run = kept_run(name)
    goldens.check_text(f"outputs/report-{name}", said("report", run, place=run.parent))
    page = text_of_page(report_file(run).read_text()).replace(str(run.parent), "PLACE")
    goldens.check_text(f"outputs/page-{name}", page)


def test_what_a_whole_report_says(kept_run: Callable[[str], Path], goldens: Goldens) -> None:
    run = kept_run("starts")
    goldens.check_text("outputs/report-full", said("report", run, "--full", place=run.parent))


@pytest.mark.parametrize(
    "more", [(), ("--full",), ("--markdown",)], ids=["text", "full", "markdown"]
)
def test_what_a_comparison_says(
    more: tuple[str, ...], kept_run: Callable[[str], Path], goldens: Goldens
) -> None:
    plain, starts = kept_run("plain"), kept_run("starts")
    prices = ("--price", "plain=1.50,starts=2.26", "--price-source", "the list")
    text = said("compare", plain, starts, "--at", "50,80", *prices, *more, place=plain.parent)
    goldens.check_text(f"outputs/compare{''.join(more).replace('--', '-')}", text)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("plan", ("plan", "--concurrency", "2,8")),
        ("plan-simulated", ("plan", "--simulate", "--concurrency", "2")),
        ("traces-stats", ("traces", "stats")),
    ],
)
def test_what_is_said_before_anything_runs(
    name: str, arguments: tuple[str, ...], goldens: Goldens
) -> None:
    goldens.check_text(f"outputs/{name}", said(*arguments))


def test_what_a_sweep_says_on_its_way(tmp_path: Path, goldens: Goldens) -> None:
    sweep = ("sweep", "--virtual", "--concurrency", "1,2", "--override", "window_s=4")
    text = said(*sweep, "--salt", "s", "--out", tmp_path / "out", place=tmp_path)
    goldens.check_text("outputs/sweep", text)


def test_the_page_of_help_is_what_help_says(goldens: Goldens) -> None:
    said_by = "What `--help-all` says of each command, of those without rare options `--help`."
    parts = [f"# Commands and options\n\n{said_by}\n"]
    for command in COMMANDS:
        name = " ".join(("agentx-replay", *command))
        asked = "--help-all" if command in WITH_RARE_OPTIONS else "--help"
        text = finished(*command, asked, COLUMNS="80").stdout
        parts.append(f"## {name}\n\n```text\n{text}```\n")
    goldens.check_page("help", "\n".join(parts))

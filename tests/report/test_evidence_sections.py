from dataclasses import replace
from pathlib import Path

import pytest
from fidelity_cases import KEPT, OF
from golden_files import Goldens
from made_runs import Level, make_run

from agentx_replay.analysis.fidelity import (
    Fidelity,
    LengthErrors,
    without_prefixes,
)
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.run import Run, read_run
from agentx_replay.report.evidence_sections import (
    counted_line,
    fidelity_section,
    replay_exact,
    servers_section,
)
from agentx_replay.report.tables import Section

LESS = replace(KEPT, reuse_sent=0.809, reuse_recorded=0.815)
CASES = {
    "all kept": KEPT,
    "less reuse, and nothing sent was lost": LESS,
    "another prefix": replace(LESS, conformity=replace(OF, prefixes=1)),
    "a join and a reset broken": replace(KEPT, conformity=replace(OF, joins=3, resets_sent=11)),
    "dropped, clamped and repeated": replace(
        KEPT,
        plays=23,
        raised_outputs=4,
        conformity=replace(
            OF, dropped_requests=7, missing_durations=105, empty_subagents=2,
            unawaited_conversations=1
        ),
    ),
    "idle time skipped": replace(KEPT, system_skipped_s=1234.56, session_skipped_s=0.0),
    "prompt lengths off": replace(
        KEPT, prompt_lengths=LengthErrors(790, 0.25, -2, 0.0, 4.0, 5, 0.0012)
    ),
    "live history": replace(without_prefixes(KEPT), answers_fed_back=38, answers_due=40),
    "little told": replace(
        KEPT, prompt_lengths=None, output_lengths=None, reuse_sent=None,
        conformity=replace(OF, gaps=None),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read_run(make_run(tmp_path_factory.mktemp("run") / "run", [Level(8, 100.0, 1000.0)]))


def level_of(run: Run, fidelity: Fidelity) -> Point:
    (level,) = run.points
    return replace(level, fidelity=fidelity)


def section_of(run: Run, fidelity: Fidelity) -> Section:
    """The section of a run whose level kept so much."""
    return fidelity_section(replace(run, points=(level_of(run, fidelity),)))


def test_what_was_kept_is_told_level_by_level(run: Run, goldens: Goldens) -> None:
    lines = []
    for name, of in CASES.items():
        section = section_of(run, of)
        lines += [f"{name}: {' | '.join(section.rows[0])}", *section.lead]
        lines += [f"{level}: {said}" for level, said in section.facts]
        lines.append(f"counted: {counted_line(level_of(run, of))}")
    goldens.check_text("words/fidelity", "\n".join([*section_of(run, KEPT).heads, *lines]) + "\n")


def test_a_replay_of_other_lengths_is_not_called_exact() -> None:
    assert [name for name, of in CASES.items() if not replay_exact(of)] == ["prompt lengths off"]


def test_each_server_has_a_row_a_level(tmp_path: Path) -> None:
    """100 tok/s on 8 GPUs over 100 s are 80,000 tokens, all of the server that answered."""
    urls = ["http://127.0.0.1:8000/v1", "http://127.0.0.1:8001/v1"]
    target = {"kind": "server", "url": urls, "model": "m"}
    found = read_run(make_run(tmp_path / "r", [Level(4, 50.0, 100.0)], target=target))
    assert [list(row) for row in servers_section(found).rows] == [
        ["4", urls[0], "4", "80,000"], ["4", urls[1], "0", "0.00"],
    ]  # fmt: skip


def test_a_run_on_one_server_says_nothing_of_servers(run: Run) -> None:
    assert not servers_section(run).has_words

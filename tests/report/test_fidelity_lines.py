from dataclasses import replace
from pathlib import Path

from fidelity_cases import KEPT, OF
from golden_files import Goldens, text_of_page
from made_runs import Level, make_run

from agentx_replay.analysis.fidelity import (
    LengthErrors,
    without_prefixes,
)
from agentx_replay.analysis.run import read_run
from agentx_replay.report.fidelity_lines import counted_line, kept_line
from agentx_replay.report.page_text import fidelity_section

LESS = replace(KEPT, reuse_sent=0.809, reuse_recorded=0.815)
LINES = {
    "all kept": KEPT,
    "less reuse, and nothing sent was lost": LESS,
    "another prefix": replace(LESS, conformity=replace(OF, prefixes=1)),
    "a join and a reset broken": replace(KEPT, conformity=replace(OF, joins=3, resets_sent=11)),
    "dropped, clamped and repeated": replace(
        KEPT,
        plays=23,
        raised_outputs=4,
        conformity=replace(
            OF, dropped_requests=7, missing_durations=105, empty_subagents=2, unawaited_streams=1
        ),
    ),
    "idle time skipped": replace(KEPT, system_skipped_s=1234.56, tree_skipped_s=0.0),
    "prompt lengths off": replace(
        KEPT, prompt_lengths=LengthErrors(790, 0.25, -2, 0.0, 4.0, 5, 0.0012)
    ),
    "live history": replace(without_prefixes(KEPT), answers_fed_back=38, answers_due=40),
    "little told": replace(
        KEPT, prompt_lengths=None, output_lengths=None, reuse_sent=None,
        conformity=replace(OF, gaps=None),
    ),
}  # fmt: skip


def test_a_replay_is_told_in_two_lines(goldens: Goldens) -> None:
    lines = [f"{name}\n  {kept_line(of)}\n  {counted_line(of)}" for name, of in LINES.items()]
    goldens.check_text("words/fidelity", "\n".join(lines) + "\n")


def test_the_page_claims_no_prefix_that_its_play_had_not_sent(
    tmp_path: Path, goldens: Goldens
) -> None:
    run = read_run(make_run(tmp_path / "run", [Level(8, 100.0, 1000.0)]))
    (level,) = run.levels
    section = fidelity_section(
        replace(run, levels=(replace(level, point=replace(level.point, fidelity=KEPT)),))
    )
    goldens.check_text("words/page-fidelity", text_of_page(section))

"""The five questions of a run, and the facts in which systems differ."""

from pathlib import Path
from typing import Any

import pytest
from made_runs import Level, make_run

from agentx_replay.analysis.run import read_run
from agentx_replay.analysis.system import (
    Difference,
    answered,
    differences,
    directional_only,
    five_questions,
)
from agentx_replay.results.system_facts import System

WHOLE = {
    "hw": "b300", "image": "vllm:0.32.0", "recipe": "https://r", "precision": "fp4",
    "measured_by": "me",
}  # fmt: skip


@pytest.mark.parametrize(
    ("system", "gpus", "missing", "directional"),
    [
        (WHOLE, 8, {}, False),
        ({}, 8, {"unit": ("hw",), "origin": ("measured_by",),
                 "repeatability": ("image or engine_commit", "launch or recipe", "precision")},
         True),
        ({"measured_by": "me"}, 8, {
            "unit": ("hw",),
            "repeatability": ("image or engine_commit", "launch or recipe", "precision")}, False),
        ({**WHOLE, "image": ""}, 8, {"repeatability": ("image or engine_commit",)}, False),
        (WHOLE, None, {"unit": ("gpus",)}, False),
        ({**WHOLE, "gpus": 8}, None, {}, False),
    ],
)  # fmt: skip
def test_each_question_names_the_facts_it_lacks(
    tmp_path: Path,
    system: dict[str, Any],
    gpus: int | None,
    missing: dict[str, tuple[str, ...]],
    directional: bool,
) -> None:
    run = read_run(make_run(tmp_path / "r", [Level(4, 50.0, 100.0)], gpus=gpus, system=system))
    found = five_questions(run)
    assert {each.name: each.missing for each in found if not each.answered} == missing
    assert (answered(found), directional_only(found)) == (5 - len(missing), directional)


def test_a_run_that_measured_nothing_answers_neither_latency_nor_reuse(tmp_path: Path) -> None:
    failed = [Level(4, 50.0, 100.0, failure="warm-up failed")]
    found = five_questions(read_run(make_run(tmp_path / "r", failed, system=WHOLE)))
    assert [each.name for each in found if not each.answered] == ["latency", "reuse"]


def test_systems_differ_in_facts_as_wholes_and_at_levels() -> None:
    first = System({"name": "a", "hw": "mi355x", "tp": 8}, (((12, 16), {"draft_tokens": 3}),))
    other = System({"name": "b", "hw": "b300", "tp": 8, "other.rack": "B12"})
    assert differences([first, other], (12, 24)) == [
        Difference("hw", ("mi355x", "b300")),
        Difference("other.rack", (None, "B12")),
        Difference("draft_tokens", (3, None), (12,)),
    ]
    assert differences([first, first], (12, 24)) == []

"""The first prompt lengths that a server reports are held against the plan while a level runs."""

import pytest
from record_cases import Nowhere, dispatch, prompt, response

from agentx_replay.replay.ports import Phase
from agentx_replay.results.recent import Recent, snapshot_of


def recent_of(*counted: int | None) -> Recent:
    recent = Recent(Nowhere(), lambda _: (), lambda: 0)
    for tokens in counted:
        sent = dispatch(prompt=prompt(100), phase=Phase.PRIMER)
        recent.record(sent, response(prompt_tokens=tokens))
    return recent


@pytest.mark.parametrize(
    ("counted", "errors"),
    [
        ((100, 101, 98), (0, 1, -2)),
        ((None, 100), (0,)),
        ((*[100] * 20, 117), (0,) * 20),  # the first twenty are enough
    ],
)
def test_an_error_is_what_was_counted_less_what_was_planned(
    counted: tuple[int | None, ...], errors: tuple[int, ...]
) -> None:
    assert recent_of(*counted).glimpse().length_errors == errors


def test_all_workers_errors_come_together() -> None:
    glimpses = [recent_of(100).glimpse(), recent_of(103).glimpse()]
    assert snapshot_of(glimpses).length_errors == (0, 3)

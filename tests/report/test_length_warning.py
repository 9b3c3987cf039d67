"""A prompt length that does not hold is said once a level, while it runs."""

import io
import re

import pytest

from agentx_replay.replay.driver import Progress, Stage
from agentx_replay.replay.instrument import ClientLoad
from agentx_replay.report.progress import ProgressScreen, length_warning
from agentx_replay.results.recent import Snapshot


@pytest.mark.parametrize("errors", [(), (0,), (0,) * 20])
def test_lengths_that_hold_are_not_mentioned(errors: tuple[int, ...]) -> None:
    assert length_warning(errors) is None


def test_those_that_do_not_are_told_by_number_and_size() -> None:
    told = length_warning((0, 1, -3, 0))
    assert told is not None
    assert re.findall(r"-?\d+", told) == ["2", "4", "-3"]


def test_each_level_says_so_once() -> None:
    stream = io.StringIO()
    screen = ProgressScreen(None, stream)
    off = Snapshot(0.0, None, None, 0, (), length_errors=(2,))
    for concurrency in (1, 2):
        screen.level_begins(concurrency)
        for _ in range(3):
            screen.show(Progress(Stage.WARMUP, None, 1, 1, 0), off, ClientLoad(0.0, 0))
    told = [line for line in stream.getvalue().splitlines() if "prompt lengths" in line]
    assert len(told) == 2

"""A level whose streams would need more open files than a process may have is refused first."""

import pytest
from refusals import refuses

from agentx_replay.experiment import open_files
from agentx_replay.experiment.open_files import refuse_too_few


@pytest.mark.parametrize(("concurrency", "workers"), [(192, 1), (384, 2), (383, 2)])
def test_a_file_for_each_lane_of_a_process_and_64_more_are_enough(
    concurrency: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "raise_open_files", lambda: 256)
    refuse_too_few(concurrency, workers)


@pytest.mark.parametrize(("concurrency", "workers", "needed"), [(193, 1, 257), (600, 2, 364)])
def test_fewer_are_refused_with_the_number_needed(
    concurrency: int, workers: int, needed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "raise_open_files", lambda: 256)
    with refuses("too-few-open-files", str(concurrency), f"ulimit -n {needed}", "256"):
        refuse_too_few(concurrency, workers)

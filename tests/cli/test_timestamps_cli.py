"""Who says when bytes arrive: chosen by a person or by a test, and on record."""

import json
from pathlib import Path

import pytest
from command_line import SHORT, finished

from agentx_replay.endpoint import kernel_stamps
from agentx_replay.endpoint.kernel_stamps import timestamps_here
from agentx_replay.results.run_directory import read_points


@pytest.mark.parametrize(
    ("asked", "word"), [((), timestamps_here()), (("--timestamps", "process"), "process")]
)
def test_a_point_says_who_stamped_its_arrivals(
    tmp_path: Path, asked: tuple[str, ...], word: str
) -> None:
    out = tmp_path / "out"
    ended = finished(
        "run", "--concurrency", "1", "--override", "window_s=1", "--override", "grace_s=30",
        *SHORT, *asked, "--out", out,
    )  # fmt: skip
    assert ended.returncode in (0, 1), ended.stderr
    (point,) = read_points(out)
    assert json.loads((point.directory / "point.json").read_text())["facts"]["timestamps"] == word
    host = json.loads((out / "sweep.json").read_text())["host"]
    assert host["receive_buffer_bytes"] >= 65_536


def test_what_the_kernel_does_not_say_cannot_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_stamps, "timestamps_here", lambda: "process")
    ended = finished("run", "--timestamps", "kernel", "--out", tmp_path / "out")
    assert ended.returncode == 2
    assert "[timestamps-without-kernel]" in ended.stderr
    assert not (tmp_path / "out").exists()

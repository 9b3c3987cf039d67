"""A disk that is full, read-only or gone: a clear end, and what was written stays."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import ROOT, SHORT, finished_alone, refusal, started

from agentx_replay.results.run_directory import read_points


@pytest.fixture
def long_run(small_traces: Path) -> tuple[str, ...]:
    rules = ("--workers", "1", "--override", "window_s=600", *SHORT)
    return ("run", "--concurrency", "8", "--traces", str(small_traces), *rules)


def mounted(where: Path, options: str) -> None:
    where.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(where)]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no file system can be mounted here: {tried.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 KB."""
    where = tmp_path / "disk"
    mounted(where, "size=300k")
    yield where
    subprocess.run(["umount", "--lazy", str(where)], check=True)


@pytest.fixture
def read_only_disk(tmp_path: Path) -> Iterator[Path]:
    where = tmp_path / "read-only"
    mounted(where, "size=1m,ro")
    yield where
    subprocess.run(["umount", "--lazy", str(where)], check=True)


def fill(disk: Path) -> None:
    """Write until the disk is full. The run may take the last free blocks itself."""
    with (disk / "somebody else's").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


def test_a_disk_that_fills_ends_the_run_and_keeps_what_was_written(
    small_disk: Path, tmp_path: Path, long_run: tuple[str, ...]
) -> None:
    out = small_disk / "out"
    with started(tmp_path, *long_run, "--out", str(out)) as command:
        command.wait_until(lambda: any(out.glob("c0008/requests.parquet/part-*")))
        fill(small_disk)
        assert command.ended() == 2
        assert "Traceback" not in command.said
        assert "[disk-full]" in command.said
    (point,) = read_points(out)
    assert str(point.status) == "running"
    assert len(point.requests(("request_id",))) > 0


def test_a_full_or_read_only_disk_is_told_before_anything_is_measured(
    small_disk: Path, read_only_disk: Path, small_traces: Path
) -> None:
    fill(small_disk)
    run = ("run", "--virtual", "--traces", small_traces, "--out")
    full = finished_alone(
        *run, small_disk / "out"
    )  # an end of its own, so that it can be unmounted
    assert full.returncode == 2
    assert "[disk-full]" in full.stderr
    assert "[disk-read-only]" in refusal(*run, read_only_disk / "out")


def test_a_file_size_limit_is_told(tmp_path: Path, small_traces: Path) -> None:
    """``ulimit -f 8``: 8 blocks of 1,024 bytes a file, which a point's records exceed."""
    script = 'ulimit -f 8; exec "$0" -m agentx_replay run --virtual --traces "$1" --out "$2"'
    result = subprocess.run(
        ["bash", "-c", script, sys.executable, str(small_traces), str(tmp_path / "out")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "[file-size-limit]" in result.stderr


def test_a_directory_that_vanishes_ends_the_run_and_says_so(
    tmp_path: Path, long_run: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    with started(tmp_path, *long_run, "--out", str(out)) as command:
        command.wait_until_it_says("c=8 window")
        shutil.rmtree(out)
        assert command.ended() == 2
        assert "Traceback" not in command.said
        assert "[directory-vanished]" in command.said

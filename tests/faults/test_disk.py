"""A disk that is full, read-only or gone: a clear end, and what was written stays."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import ROOT, SHORT, finished_alone, started

from agentx_replay.results.run_directory import read_points

LONG_RUN = ("run", "--concurrency", "8", "--workers", "1", "--override", "window_s=600", *SHORT)


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
    subprocess.run(["umount", str(where)], check=True)


@pytest.fixture
def read_only_disk(tmp_path: Path) -> Iterator[Path]:
    where = tmp_path / "disk"
    mounted(where, "size=1m,ro")
    yield where
    subprocess.run(["umount", str(where)], check=True)


def fill(disk: Path) -> None:
    """Write until the disk is full. The run may take the last free blocks itself."""
    with (disk / "somebody else's").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


def told(result: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.strip().splitlines()[-2:])


def test_a_disk_that_fills_ends_the_run_and_keeps_what_was_written(
    small_disk: Path, tmp_path: Path
) -> None:
    out = small_disk / "out"
    with started(tmp_path, *LONG_RUN, "--out", str(out)) as command:
        command.wait_until(lambda: any(out.glob("c0008/requests.parquet/part-*")))
        fill(small_disk)
        assert command.ended() == 2
        assert "Traceback" not in command.said
        assert "[disk-full]" in command.said
    (point,) = read_points(out)
    assert str(point.status) == "running"
    assert len(point.requests(("request_id",))) > 0


def test_a_disk_that_is_full_before_the_start_is_told_at_once(small_disk: Path) -> None:
    fill(small_disk)
    result = finished_alone("run", "--virtual", "--out", str(small_disk / "out"))
    assert result.returncode == 2
    assert "[disk-full]" in told(result)


def test_a_read_only_disk_is_told_before_anything_is_measured(read_only_disk: Path) -> None:
    result = finished_alone("run", "--virtual", "--out", str(read_only_disk / "out"))
    assert result.returncode == 2
    assert "[disk-read-only]" in told(result)


def test_a_file_size_limit_is_told(tmp_path: Path) -> None:
    """``ulimit -f 8``: 8 blocks of 1,024 bytes a file, which a point's records exceed."""
    out = tmp_path / "out"
    script = 'ulimit -f 8; exec "$0" -m agentx_replay run --virtual --out "$1"'
    result = subprocess.run(
        ["bash", "-c", script, sys.executable, str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "[file-size-limit]" in told(result)


def test_a_directory_that_vanishes_ends_the_run_and_says_so(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with started(tmp_path, *LONG_RUN, "--out", str(out)) as command:
        command.wait_until_it_says("c=8 window")
        shutil.rmtree(out)
        assert command.ended() == 2
        assert "Traceback" not in command.said
        assert "[directory-vanished]" in command.said

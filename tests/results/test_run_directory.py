import errno
import shutil
from pathlib import Path

import orjson
import pytest
from made_runs import write_instrument
from record_cases import LEVEL, dispatch, play, record, response
from refusals import refuses

from agentx_replay.errors import UsageError
from agentx_replay.results.durable import explain, write_bytes_durably, write_durably
from agentx_replay.results.layout import Measurement, measurement_of
from agentx_replay.results.run_directory import (
    PointStatus,
    RunDirectory,
    read_points,
    read_sweep,
)
from agentx_replay.results.schema import REQUESTS


def test_a_directory_that_holds_anything_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with refuses("out-not-empty", "--out"):
        RunDirectory.create(tmp_path)


def test_of_one_that_holds_a_run_it_is_told_how_to_go_on(tmp_path: Path) -> None:
    RunDirectory(tmp_path).write_sweep({"command": ["sweep", "--gpus", "8"]})
    go_on = f"its run:\n  agentx-replay sweep --resume --out {tmp_path}\nor choose"
    with pytest.raises(UsageError, match=go_on):
        RunDirectory.create(tmp_path)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("held", ["", "mine"])
def test_a_file_in_its_place_is_refused(tmp_path: Path, held: str, resume: bool) -> None:
    (tmp_path / "out").write_text(held)
    with refuses("out-not-a-directory", str(tmp_path / "out")):
        RunDirectory.create(tmp_path / "out", resume=resume)


def test_so_are_a_device_a_link_to_nothing_and_a_place_without_directories(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "nothing")
    with refuses("out-not-a-directory", "/dev/null"):
        RunDirectory.create(Path("/dev/null"))
    with refuses("out-a-dead-link"):
        RunDirectory.create(tmp_path / "out")
    with refuses("out-cannot-be-made", "/proc/x"):
        RunDirectory.create(Path("/proc/x"))


def test_an_empty_directory_and_a_new_one_are_taken(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path)
    assert RunDirectory.create(tmp_path / "a" / "b").path.is_dir()


def test_resume_takes_a_run_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with refuses("out-not-a-run"):
        RunDirectory.create(tmp_path, resume=True)
    RunDirectory(tmp_path).write_sweep({"seed": 42})
    assert RunDirectory.create(tmp_path, resume=True).path == tmp_path


def test_a_point_is_marked_from_running_to_complete(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path)
    directory = run.start_point(Measurement(8), {"attempt": 0})
    assert directory.name == "c0008"
    (begun,) = read_points(tmp_path)
    assert begun.status is PointStatus.RUNNING
    run.write_point(Measurement(8), PointStatus.COMPLETE, {"valid": True})
    (point,) = read_points(tmp_path)
    mark = begun.document["mark"]
    assert len(mark) == 16
    assert point.document == {
        "concurrency": 8, "start": 1, "status": "complete", "mark": mark, "valid": True,
    }  # fmt: skip


def test_starting_a_level_again_sets_the_attempt_before_aside(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path)
    record(run.start_point(LEVEL, {}), (dispatch(), response()))
    assert len(read_points(tmp_path)[0].requests()) == 1
    run.start_point(LEVEL, {})
    (point,) = read_points(tmp_path)
    assert len(point.requests()) == 0
    (aside,) = (tmp_path / "unfinished").iterdir()
    assert aside.name == "c0002.attempt-0"
    assert len(REQUESTS.read(aside)) == 1


def test_what_is_set_aside_takes_no_place_that_is_taken(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path)
    for _ in range(3):
        run.start_point(LEVEL, {})
    shutil.rmtree(tmp_path / "unfinished" / "c0002.attempt-0")
    for _ in range(2):
        run.start_point(LEVEL, {})
    names = sorted(path.name for path in (tmp_path / "unfinished").iterdir())
    assert names == ["c0002.attempt-0", "c0002.attempt-1", "c0002.attempt-2"]


def test_starts_of_a_level_have_directories_of_their_own_and_are_set_aside_alone(
    tmp_path: Path,
) -> None:
    run = RunDirectory.create(tmp_path)
    for concurrency, start in ((16, 1), (8, 10), (8, 1), (8, 2)):
        run.start_point(Measurement(concurrency, start), {})
    run.start_point(Measurement(8, 2), {})
    points = read_points(tmp_path)
    assert [(point.directory.name, point.concurrency, point.start) for point in points] == [
        ("c0008", 8, 1), ("c0008-s2", 8, 2), ("c0008-s10", 8, 10), ("c0016", 16, 1),
    ]  # fmt: skip
    assert [str(point.measurement) for point in points] == ["8", "8-s2", "8-s10", "16"]
    assert [path.name for path in (tmp_path / "unfinished").iterdir()] == ["c0008-s2.attempt-0"]


@pytest.mark.parametrize(
    ("name", "measurement"),
    [
        ("c0008", (8, 1)),
        ("c0008-s2", (8, 2)),
        ("c20000-s10", (20_000, 10)),
        ("c0008.attempt-0", None),
        ("c0008-s", None),
        ("c8", None),
        ("c00008", None),
        ("c0008-s1", None),
        ("c0008-s02", None),
        ("calibration", None),
    ],
)
def test_a_directory_is_named_after_its_level_and_start(
    name: str, measurement: tuple[int, int] | None
) -> None:
    assert measurement_of(Path(name)) == measurement


def test_a_directory_of_another_name_is_no_point_whatever_it_holds(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path)
    directory = run.start_point(Measurement(12, 3), {})
    for stray in ("c0012-s03", "c0012-copy", "c12"):
        shutil.copytree(directory, tmp_path / stray)
    (tmp_path / "c12" / "point.json").write_text("{")
    assert [point.directory.name for point in read_points(tmp_path)] == ["c0012-s3"]


def test_points_are_read_by_rising_concurrency(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path)
    for concurrency in (32, 2, 20_000):
        run.start_point(Measurement(concurrency), {})
    assert [point.concurrency for point in read_points(tmp_path)] == [2, 32, 20_000]


def test_a_secret_reaches_no_file_wherever_it_stands(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, secrets=["sk-123", ""])
    run.write_sweep({"argv": ["--header", "Authorization: Bearer sk-123"], "sk-123": {"a": 1}})
    run.start_point(Measurement(1), {"error": "refused sk-123"})
    assert read_sweep(tmp_path) == {
        "argv": ["--header", "Authorization: Bearer (not kept)"],
        "(not kept)": {"a": 1},
    }
    assert all(b"sk-123" not in f.read_bytes() for f in tmp_path.rglob("*") if f.is_file())


def test_samples_of_the_client_are_kept_or_there_are_none(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path).start_point(Measurement(1), {})
    assert len(read_points(tmp_path)[0].instrument()) == 0
    write_instrument(directory, [(1, 0, 10_000_000, 5, 900), (1, 0, 20_000_000, 7, 950)])
    table = read_points(tmp_path)[0].instrument()
    assert table["loop_lag_ns"].to_pylist() == [5, 7]


def test_plays_are_read_as_far_as_they_were_written(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path).start_point(LEVEL, {})
    assert len(read_points(tmp_path)[0].plays()) == 0
    record(directory, plays=[play(t_star_s=1.5)])
    assert read_points(tmp_path)[0].plays()["t_star_s"].to_pylist() == [1.5]


def test_a_directory_that_vanished_during_a_run_is_told(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    with refuses("directory-vanished"):
        run.write_sweep({})


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "json-unreadable"),
        (b"[]", "json-not-object"),
        (b'{"status": "complete", "start": 1}', "point-damaged"),
    ],
)
def test_a_broken_point_is_named(tmp_path: Path, body: bytes, code: str) -> None:
    (tmp_path / "c0002").mkdir()
    (tmp_path / "c0002" / "point.json").write_bytes(body)
    with refuses(code, "c0002/point.json"):
        read_points(tmp_path)


def test_a_directory_without_a_run_is_told_apart(tmp_path: Path) -> None:
    with refuses("not-a-run"):
        read_sweep(tmp_path)


def test_a_document_is_replaced_whole_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_bytes_durably(path, b"1")
    write_bytes_durably(path, orjson.dumps({"a": 2}))
    assert path.read_bytes() == b'{"a":2}'
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_bytes_durably(path, b"1")

    def fail(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_durably(path, fail)
    assert path.read_bytes() == b"1"
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EACCES, "permission was denied"),
        (errno.ENOENT, "the directory has vanished"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_fault_of_the_disk_is_told_in_plain_words(number: int, words: str) -> None:
    error = explain(OSError(number, "Input/output error"), Path("/results"))
    assert error.what == f"cannot write /results: {words}"
    assert error.exit_code == 2

"""A level's records are its own, each there once; what is not is named with its file."""

import shutil
from pathlib import Path

import pytest
from record_cases import LEVEL, dispatch, play, response, server_rows
from refusals import refuses

from agentx_replay.results.layout import Measurement
from agentx_replay.results.recorder import Recorder
from agentx_replay.results.run_directory import (
    RunDirectory,
    StoredPoint,
    check_records,
    read_points,
)
from agentx_replay.results.schema import INSTRUMENT, LEVEL_TABLES, PLAYS, SERVER

SCRAPE = ("http://h/metrics", 1, ["vllm:num_requests_running 3"])


def measured(
    path: Path, level: int, *, wrote: int | None = None, killed: bool = False
) -> StoredPoint:
    """A level with rows in each of its tables, all equal to another's but for its mark.

    ``wrote`` is the level that its rows say.
    """
    directory = RunDirectory.create(path).start_point(Measurement(level), {})
    recorder = Recorder(directory, Measurement(wrote or level), origin_ns=0)
    for turn in range(2):
        recorder.record(dispatch(request_id=f"salt-c{level}-l0-p0-s0-t{turn}"), response())
    recorder.record_play(play(concurrency=level))
    recorder.append(INSTRUMENT, (0, 1, 0, 0))
    (sample,) = server_rows([SCRAPE])
    recorder.append(SERVER, sample)
    recorder.close()
    if not killed:
        for table in LEVEL_TABLES:
            table.compact(directory)
    (point,) = read_points(path)
    return point


def test_records_as_they_were_written_are_fine_also_before_the_first_part(tmp_path: Path) -> None:
    check_records(measured(tmp_path / "a", 2))
    check_records(measured(tmp_path / "b", 2, killed=True))
    RunDirectory.create(tmp_path / "c").start_point(LEVEL, {})
    (begun,) = read_points(tmp_path / "c")
    check_records(begun)


def test_a_second_copy_under_another_name_is_refused(tmp_path: Path) -> None:
    own = measured(tmp_path, 2)
    directory = own.directory / "requests.parquet"
    shutil.copy(directory / "requests.parquet", directory / "copy.parquet")
    with refuses("responses-twice", "requests.parquet", "2") as caught:
        check_records(own)
    assert caught.value.what_to_do == "set it aside"


@pytest.mark.parametrize(
    "name",
    ["requests.parquet/requests.parquet", "plays.parquet", "instrument.parquet", "server.parquet"],
)
def test_a_file_of_another_run_with_all_the_same_names_is_refused(
    tmp_path: Path, name: str
) -> None:
    own, other = (measured(tmp_path / path, 2) for path in ("own", "other"))
    shutil.copy(other.directory / name, own.directory / name)
    with refuses("record-of-other-level") as caught:
        check_records(own)
    assert caught.value.what.startswith(f"{own.directory / name} ")


def test_so_is_a_part_of_a_run_that_was_killed(tmp_path: Path) -> None:
    own, other = (measured(tmp_path / path, 2, killed=True) for path in ("own", "other"))
    (part,), (others,) = PLAYS.files(own.directory), PLAYS.files(other.directory)
    shutil.copy(others, part)
    with refuses("record-of-other-level", part.name):
        check_records(own)


def test_rows_of_another_level_are_refused(tmp_path: Path) -> None:
    with refuses("rows-of-other-level", "requests.parquet", "4", "2"):
        check_records(measured(tmp_path, 2, wrote=4))

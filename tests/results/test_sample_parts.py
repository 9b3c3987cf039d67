"""Samples in parts: readable while they are written, one file at the end, nothing lost or doubled
whatever a crash leaves."""

from pathlib import Path

import pyarrow as pa
from refusals import refuses

from agentx_replay.results.layout import instrument_file, instrument_parts
from agentx_replay.results.parquet import read_parquet
from agentx_replay.results.rows import table_of
from agentx_replay.results.sample_parts import SampleParts, compact_samples, sample_files
from agentx_replay.results.schema import INSTRUMENT, arrow_schema


def samples(worker: int, *at_ns: int) -> pa.Table:
    return table_of(arrow_schema(INSTRUMENT), [(4, 1, worker, at, 0, 0) for at in at_ns])


def kept(point: Path) -> list[tuple[int, int]]:
    table = read_parquet(sample_files(instrument_file(point), instrument_parts(point)), INSTRUMENT)
    return [(row["worker"], row["at_ns"]) for row in table.to_pylist()]


def compact(point: Path) -> None:
    compact_samples(instrument_file(point), instrument_parts(point), INSTRUMENT)


def written(point: Path) -> None:
    for worker in (0, 1):
        parts = SampleParts(instrument_parts(point), INSTRUMENT, worker)
        parts.write(samples(worker, 1, 2))
        parts.write(samples(worker))
        parts.write(samples(worker, 3))


EVERY_ONE = [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]


def test_parts_are_read_as_they_come_and_one_without_a_sample_is_none(tmp_path: Path) -> None:
    written(tmp_path)
    assert kept(tmp_path) == EVERY_ONE
    assert len(list(instrument_parts(tmp_path).iterdir())) == 4


def test_in_the_end_there_is_one_file_and_ending_twice_changes_nothing(tmp_path: Path) -> None:
    written(tmp_path)
    compact(tmp_path)
    compact(tmp_path)
    assert kept(tmp_path) == EVERY_ONE
    assert list(tmp_path.iterdir()) == [instrument_file(tmp_path)]


def test_a_crash_between_the_file_and_the_end_of_the_parts_doubles_nothing(tmp_path: Path) -> None:
    written(tmp_path)
    compact(tmp_path)
    written(tmp_path)  # as if the parts had not been removed yet
    assert kept(tmp_path) == EVERY_ONE


def test_without_a_sample_there_is_no_file(tmp_path: Path) -> None:
    SampleParts(instrument_parts(tmp_path), INSTRUMENT)
    compact(tmp_path)
    assert kept(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_vanished_is_told(tmp_path: Path) -> None:
    parts = SampleParts(instrument_parts(tmp_path), INSTRUMENT)
    instrument_parts(tmp_path).rmdir()
    with refuses("directory-vanished"):
        parts.write(samples(0, 1))

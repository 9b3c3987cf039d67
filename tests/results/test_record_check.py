"""A level's records are its own, each there once, and whole; what is not is named with its file."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from record_cases import SECOND, dispatch, response
from refusals import refuses

from agentx_replay.errors import UsageError
from agentx_replay.replay.ports import ErrorCategory, PlayRecord, Status
from agentx_replay.results.compaction import compact
from agentx_replay.results.layout import (
    instrument_file,
    instrument_parts,
    server_file,
    server_parts,
)
from agentx_replay.results.mark import new_mark
from agentx_replay.results.record_check import check_records
from agentx_replay.results.recorder import ParquetRecorder
from agentx_replay.results.rows import table_of
from agentx_replay.results.run_directory import RunDirectory, StoredPoint, read_points
from agentx_replay.results.sample_parts import SampleParts, compact_samples
from agentx_replay.results.schema import INSTRUMENT, SERVER, arrow_schema
from agentx_replay.results.server_metrics import Series, ServerSamples
from agentx_replay.results.server_names import Metric

FILE = Path("c0002", "requests.parquet", "requests.parquet")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with level 2: four responses, one of them failed, two without tokens told."""
    directory = RunDirectory.create(tmp_path).start_point(2, {"run_id": "salt"})
    recorder = ParquetRecorder(directory, origin_ns=0)
    failed = {"status": Status.FAILED, "error_category": ErrorCategory.RESET, "prompt_tokens": None}
    tokens: list[dict[str, Any]] = [{"arrival_tokens": [1, 2]}, {}, {"arrival_tokens": [3, 4]}]
    for turn, more in enumerate([*({"arrival_ns": [5, 9], **each} for each in tokens), failed]):
        sent = dispatch(request_id=f"salt-c2-l{turn % 2}-p0-s0-t{turn}", lane=turn % 2, turn=turn)
        recorder.record(sent, response(**more))
    recorder.close()
    compact(directory)
    return tmp_path


def measured(path: Path, level: int, *, marked: bool = True, killed: bool = False) -> Path:
    """A run of one level with a row in each of its tables; equal to another but for its mark."""
    known = {"run_id": "salt"} | ({"mark": new_mark()} if marked else {})
    directory = RunDirectory.create(path).start_point(level, known)
    recorder = ParquetRecorder(directory, origin_ns=0)
    sent = dispatch(concurrency=level, request_id=f"salt-c{level}-l0-p0-s0-t0")
    recorder.record(sent, response())
    recorder.record_play(
        PlayRecord(
            concurrency=level, play_id="p", session_id="s", lane=0, ordinal=0, t_star_s=None,
            start_ns=0, end_ns=1, requests_sent=1, requests_skipped=0, system_skipped_s=0.0,
            tree_skipped_s=0.0,
        )
    )  # fmt: skip
    recorder.close()
    load = table_of(arrow_schema(INSTRUMENT), [(level, 1, 0, 1, 0, 0)])
    told = ServerSamples()
    told.add("http://h/metrics", 1, Series(Metric.RUNNING, "vllm:num_requests_running", ""), 3.0)
    SampleParts(instrument_parts(directory), INSTRUMENT).write(load)
    SampleParts(server_parts(directory), SERVER).write(told.take(level))
    if not killed:
        compact(directory)
        compact_samples(instrument_file(directory), instrument_parts(directory), INSTRUMENT)
        compact_samples(server_file(directory), server_parts(directory), SERVER)
    return path


def stored(run: Path) -> StoredPoint:
    (point,) = read_points(run)
    return point


def change(run: Path, name: str, value: Callable[[int], Any] | None) -> None:
    """Replace a column by what ``value`` says of each row, or leave it out."""
    table = pq.read_table(run / FILE)
    at, kind = table.schema.get_field_index(name), table.schema.field(name).type
    if value is None:
        changed = table.remove_column(at)
    else:
        column = pa.array([value(row) for row in range(len(table))], kind)
        changed = table.set_column(at, pa.field(name, kind), column)
    pq.write_table(changed, run / FILE)


def test_records_as_they_were_written_are_fine(run: Path) -> None:
    check_records(stored(run))


def test_so_are_those_of_a_run_that_was_killed_before_its_first_part(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path).start_point(2, {"run_id": "salt"})
    check_records(stored(tmp_path))


def test_a_second_copy_under_another_name_is_refused(run: Path) -> None:
    shutil.copy(run / FILE, run / FILE.parent / "copy.parquet")
    with refuses("responses-twice", "requests.parquet", "4"):
        check_records(stored(run))


def test_records_of_another_run_are_refused(run: Path) -> None:
    RunDirectory(run).write_point(2, stored(run).status, {"run_id": "pepper"})
    with refuses("record-damaged", "pepper") as caught:
        check_records(stored(run))
    assert str(FILE) in caught.value.what
    assert caught.value.what_to_do == "set it aside"


@pytest.mark.parametrize(
    "name",
    ["requests.parquet/requests.parquet", "plays.parquet", "instrument.parquet", "server.parquet"],
)
def test_a_file_of_another_run_with_all_the_same_names_is_refused(
    tmp_path: Path, name: str
) -> None:
    own, other = (measured(tmp_path / path, 2) for path in ("own", "other"))
    check_records(stored(own))
    shutil.copy(other / "c0002" / name, own / "c0002" / name)
    with refuses("record-of-other-level") as caught:
        check_records(stored(own))
    assert caught.value.what.startswith(f"{own}/c0002/{name} ")


def test_so_is_a_part_of_a_run_that_was_killed(tmp_path: Path) -> None:
    own, other = (measured(tmp_path / path, 2, killed=True) for path in ("own", "other"))
    check_records(stored(own))
    part = Path("c0002", ".plays-parts", "part-000-000000.parquet")
    shutil.copy(other / part, own / part)
    with refuses("record-of-other-level", "part-000-000000.parquet"):
        check_records(stored(own))


@pytest.mark.parametrize("name", ["plays.parquet", "instrument.parquet", "server.parquet"])
def test_rows_of_another_level_are_refused_where_there_is_no_mark_to_tell(
    tmp_path: Path, name: str
) -> None:
    own, other = (
        measured(tmp_path / "a", 2, marked=False),
        measured(tmp_path / "b", 4, marked=False),
    )
    check_records(stored(own))
    shutil.copy(other / "c0004" / name, own / "c0002" / name)
    with pytest.raises(UsageError, match=rf"{name} holds rows of concurrency 4, not 2; set it as"):
        check_records(stored(own))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("concurrency", lambda _: 9, "holds responses of concurrency 9, not 2"),
        ("request_id", lambda row: f"salt-c22-l0-{row}", "of another run than salt"),
        ("lane", lambda row: row, "of a lane that concurrency 2 does not have"),
        ("lane", lambda row: row % 2 - 1, "of a lane that concurrency 2 does not have"),
        ("status", lambda _: "wat", "has a status that is not known: 'wat'"),
        ("phase", lambda _: "wat", "has a phase that is not known: 'wat'"),
        ("send_ns", lambda _: None, "has no send_ns for 4 of 4 responses"),
        ("arrival_deltas_us", None, "has no arrival_deltas_us for 4 of 4 responses"),
        ("end_ns", lambda _: 0, "whose end_ns lies before what must precede it"),
        ("send_ns", lambda _: 7, "whose first_token_ns lies before what must precede it"),
        ("last_token_ns", lambda _: 4, "whose last_token_ns lies before what must precede it"),
        ("end_ns", lambda row: SECOND if row else 8, "whose end_ns lies before"),
        ("first_token_ns", lambda _: None, "token events that do not fit their first_token_ns"),
        ("event_tokens", lambda _: [1], "token events that do not fit their first_token_ns"),
        ("cached_tokens", lambda _: -1, "has negative cached_tokens"),
        ("prompt_tokens", lambda _: -5, "has negative prompt_tokens"),
    ],
)
def test_a_column_that_cannot_be_is_named(
    run: Path, name: str, value: Callable[[int], Any] | None, said: str
) -> None:
    change(run, name, value)
    with pytest.raises(UsageError, match=said):
        check_records(stored(run))


def test_an_older_record_without_newer_columns_is_read(run: Path) -> None:
    for name in ("replica", "retries", "event_tokens", "declared_tokens"):
        change(run, name, None)
    check_records(stored(run))

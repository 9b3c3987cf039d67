from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from record_cases import dispatch, record, response, write_rows
from refusals import refuses

from agentx_replay.results.layout import Measurement
from agentx_replay.results.records import Table
from agentx_replay.results.rows import request_row
from agentx_replay.results.schema import LEVEL_TABLES, POINTS, REQUESTS, markdown_table

DOCS = Path(__file__).resolve().parents[2] / "docs" / "records.md"
VERSION = b"agentx_replay.schema_version"


@pytest.mark.parametrize("table", [*LEVEL_TABLES, POINTS], ids=lambda table: table.name)
def test_the_documented_columns_are_those_of_the_schema(table: Table) -> None:
    assert markdown_table(table) in DOCS.read_text()
    for column in table.columns:
        nullable = table.schema().field(column.name).nullable
        assert nullable == (column.null_means is not None)


def test_files_carry_their_schema_version() -> None:
    assert REQUESTS.schema().metadata == {VERSION: b"3"}


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({VERSION: b"2"}, "record-of-other-schema"),
        ({VERSION: b"4"}, "record-of-other-schema"),
        ({VERSION: b"3"}, "record-of-other-schema"),  # but it lacks columns
        ({}, "record-of-other-program"),
    ],
)
def test_a_file_of_another_version_or_program_is_refused(
    tmp_path: Path, metadata: dict[bytes, bytes], code: str
) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"lane": [1]}, metadata=metadata), path)
    with refuses(code, "x.parquet"):
        list(REQUESTS.groups([path]))


def test_a_torn_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    with refuses("record-unreadable", "torn.parquet"):
        list(REQUESTS.groups([tmp_path / "torn.parquet"]))


def test_only_the_columns_asked_for_are_read(tmp_path: Path) -> None:
    assert REQUESTS.read(tmp_path, ("lane",)).to_pydict() == {"lane": []}
    write_rows(tmp_path, REQUESTS, [request_row(dispatch(lane=4), response())])
    assert REQUESTS.read(tmp_path, ("lane",)).to_pydict() == {"lane": [4]}


def test_duckdb_reads_the_records_of_every_level_with_one_glob(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    for concurrency in (1, 4):
        level = Measurement(concurrency)
        pair = dispatch(), response(arrival_ns=[0, 2000], arrival_tokens=[1, 1])
        record(tmp_path / f"c{concurrency:04d}", *[pair] * concurrency, of=level)
    found = duckdb.sql(
        "select concurrency, count(*), sum(prompt_tokens + completion_tokens),"
        " sum(list_sum(arrival_deltas_us)), sum(list_sum(event_tokens))"
        f" from read_parquet('{tmp_path}/**/requests*/*.parquet', union_by_name=true)"
        " group by 1 order by 1"
    )
    assert found.fetchall() == [(1, 1, 110, 2, 2), (4, 4, 440, 8, 8)]


def test_the_delta_column_is_delta_packed(tmp_path: Path) -> None:
    record(tmp_path, (dispatch(), response(arrival_ns=[0, 2000])))
    (file,) = REQUESTS.files(tmp_path)
    group = pq.ParquetFile(file).metadata.row_group(0)
    paths = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in paths["arrival_deltas_us.list.element"].encodings
    assert "RLE_DICTIONARY" in paths["event_tokens.list.element"].encodings

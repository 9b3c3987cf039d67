from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from record_cases import dispatch, response
from refusals import refuses

from agentx_replay.errors import UsageError
from agentx_replay.results.layout import requests_directory
from agentx_replay.results.parquet import read_parquet
from agentx_replay.results.recorder import ParquetRecorder
from agentx_replay.results.schema import (
    FILES,
    REQUESTS,
    arrow_schema,
    conform,
    markdown_table,
)

DOCS = Path(__file__).resolve().parents[2] / "docs" / "records.md"
VERSION = b"agentx_replay.schema_version"


@pytest.mark.parametrize("name", FILES)
def test_the_documented_columns_are_those_of_the_schema(name: str) -> None:
    assert markdown_table(FILES[name]) in DOCS.read_text()


@pytest.mark.parametrize("name", FILES)
def test_a_column_is_nullable_exactly_where_null_means_something(name: str) -> None:
    for column in FILES[name]:
        field = arrow_schema(FILES[name]).field(column.name)
        assert field.nullable == (column.null_means is not None)


def test_files_carry_their_schema_version() -> None:
    assert arrow_schema(REQUESTS).metadata == {VERSION: b"3"}


@pytest.mark.parametrize("version", [2, 4])
def test_a_file_of_another_version_is_refused_in_plain_words(version: int) -> None:
    other = pa.table({"lane": [1]}, metadata={VERSION: str(version).encode()})
    said = rf"x\.parquet has record schema {version}, this version reads 3"
    with pytest.raises(UsageError, match=said):
        conform(other, REQUESTS, "x.parquet")


def test_a_file_of_another_program_is_refused() -> None:
    with refuses("record-of-other-program", "agentx-replay"):
        conform(pa.table({"lane": [1]}), REQUESTS, "x.parquet")


def test_a_torn_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    with refuses("record-unreadable", "torn.parquet"):
        read_parquet([tmp_path / "torn.parquet"], REQUESTS)


def test_only_the_columns_asked_for_are_read(tmp_path: Path) -> None:
    recorder = ParquetRecorder(tmp_path, origin_ns=0)
    recorder.record(dispatch(lane=4), response())
    recorder.close()
    files = list(requests_directory(tmp_path).glob("*.parquet"))
    assert read_parquet(files, REQUESTS, ("lane",)).to_pydict() == {"lane": [4]}
    assert read_parquet([], REQUESTS, ("lane",)).to_pydict() == {"lane": []}


def test_duckdb_reads_the_records_of_every_level_with_one_glob(tmp_path: Path) -> None:
    for concurrency in (1, 4):
        recorder = ParquetRecorder(tmp_path / f"c{concurrency:04d}", origin_ns=0)
        for _ in range(concurrency):
            recorder.record(
                dispatch(concurrency=concurrency),
                response(arrival_ns=[0, 2000], arrival_tokens=[1, 1]),
            )
        recorder.close()
    found = duckdb.sql(
        "select concurrency, count(*), sum(prompt_tokens + completion_tokens),"
        " sum(list_sum(arrival_deltas_us)), sum(list_sum(event_tokens))"
        f" from read_parquet('{tmp_path}/**/requests*/*.parquet', union_by_name=true)"
        " group by 1 order by 1"
    )
    assert found is not None
    assert found.fetchall() == [(1, 1, 110, 2, 2), (4, 4, 440, 8, 8)]


def test_the_delta_column_is_delta_packed(tmp_path: Path) -> None:
    recorder = ParquetRecorder(tmp_path, origin_ns=0)
    recorder.record(dispatch(), response(arrival_ns=[0, 2000]))
    recorder.close()
    (file,) = requests_directory(tmp_path).glob("*.parquet")
    group = pq.ParquetFile(file).metadata.row_group(0)
    paths = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in paths["arrival_deltas_us.list.element"].encodings
    assert "RLE_DICTIONARY" in paths["event_tokens.list.element"].encodings

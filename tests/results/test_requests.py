import os
from pathlib import Path

from record_cases import SECOND, dispatch, record, response
from refusals import refuses

from agentx_replay.results.records import StoredRows
from agentx_replay.results.schema import PLAYS, REQUESTS

NAMES = ("lane", "arrival_deltas_us")


def record_lanes(directory: Path, worker: int, lanes: range) -> None:
    """Each lane's second event comes as many µs after its first."""
    answers = [response(arrival_ns=[SECOND, SECOND + 1000 * lane]) for lane in lanes]
    sent = [dispatch(lane=lane) for lane in lanes]
    record(directory, *zip(sent, answers, strict=True), worker=worker)


def rows(stored: StoredRows) -> list[tuple[int, list[int]]]:
    return [
        (row["lane"], row["arrival_deltas_us"])
        for table in stored.groups(NAMES)
        for row in table.to_pylist()
    ]


def test_groups_are_the_rows_of_all_parts_in_order(tmp_path: Path) -> None:
    record_lanes(tmp_path, 0, range(3))
    record_lanes(tmp_path, 1, range(3, 5))
    stored = REQUESTS.at(tmp_path)
    assert [len(table) for table in stored.groups(NAMES)] == [3, 2]
    assert rows(stored) == [(0, [0]), (1, [1]), (2, [2]), (3, [3]), (4, [4])]
    assert stored.read(NAMES)["lane"].to_pylist() == [0, 1, 2, 3, 4]


def test_reading_again_gives_the_same_rows_though_more_were_written(tmp_path: Path) -> None:
    record_lanes(tmp_path, 0, range(2))
    stored = REQUESTS.at(tmp_path)
    record_lanes(tmp_path, 1, range(2, 4))
    assert [lane for lane, _ in rows(stored)] == [0, 1]
    assert [lane for lane, _ in rows(REQUESTS.at(tmp_path))] == [0, 1, 2, 3]


def test_parts_that_became_one_file_meanwhile_are_told_so(tmp_path: Path) -> None:
    record_lanes(tmp_path, 0, range(2))
    stored = REQUESTS.at(tmp_path)
    REQUESTS.compact(tmp_path)
    with refuses("record-gone") as caught:
        rows(stored)
    assert caught.value.what_to_do == "do it again"
    assert len(rows(REQUESTS.at(tmp_path))) == 2


def test_a_pipe_in_place_of_records_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "plays.parquet")
    with refuses("record-not-a-file", "plays.parquet"):
        PLAYS.read(tmp_path)

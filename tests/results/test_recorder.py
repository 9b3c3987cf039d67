import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from record_cases import LEVEL, SECOND, dispatch, play, prompt, record, response
from refusals import refuses

from agentx_replay.replay.ports import ErrorCategory, Phase, Status
from agentx_replay.results import recorder as recorder_module
from agentx_replay.results.layout import Measurement
from agentx_replay.results.recorder import Recorder
from agentx_replay.results.records import prepared_requests, replaced_requests
from agentx_replay.results.schema import INSTRUMENT, PLAYS, REQUESTS

NEVER_S = 3600.0  # an interval that no test lives to see


def record_parts(point: Path, parts: int, worker: int = 0) -> None:
    """Record one request a part: request ids ``w<worker>-0`` and so on."""
    recorder = Recorder(point, LEVEL, origin_ns=0, worker=worker, interval_s=NEVER_S)
    for number in range(parts):
        recorder.record(dispatch(request_id=f"w{worker}-{number}"), response(arrival_ns=[5]))
        wanted = REQUESTS.parts(point) / f"part-{worker:03d}-{number:06d}.parquet"
        recorder.flush()
        while not wanted.exists():
            os.sched_yield()
    recorder.close()


def ids(point: Path) -> list[str]:
    found: list[str] = REQUESTS.read(point)["request_id"].to_pylist()
    return found


def test_every_column_of_a_response_is_on_record(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, Measurement(8, 3), origin_ns=1000, interval_s=NEVER_S)
    recorder.record(
        dispatch(
            request_id="r1",
            play_id="p1",
            conversation_id="s1",
            concurrency=8,
            lane=3,
            play_number=2,
            session_id="x1",
            conversation=1,
            turn=4,
            request_index=9,
            phase=Phase.CACHE_PRESSURE,
            intended_start_ns=2000,
            gap_s=1.5,
            recorded_input_tokens=100,
            recorded_output_tokens=20,
            shared_blocks=1,
            max_tokens=7,
            prompt=replace(
                prompt(101, 64),
                block_ids=np.array([7, 2**64 - 1], np.uint64),
                declared_blocks=1,
                declared_tokens=64,
                says_answer=True,
            ),
            play_request=12,
            kept_blocks=3,
            conversation_kept_blocks=2,
            skipped_ns=5_000_000_000,
        ),
        response(
            connect_start_ns=2100,
            connected_ns=2200,
            send_ns=2300,
            sent_ns=2400,
            first_byte_ns=2500,
            arrival_ns=[3000, 13_400, 23_600],
            arrival_tokens=[2, 1, 4],
            end_ns=30_000,
            prompt_tokens=102,
            cached_tokens=64,
            completion_tokens=7,
            finish_reason="length",
            retries=1,
            replica=2,
            first_token_uncertainty_ns=400,
            last_token_uncertainty_ns=500,
            send_uncertainty_ns=600,
            late_events=2,
            gathered_reads=1,
            event_text_bytes=np.array([8, 4, 17], np.int32),
            text_pieces=6,
            reasoning_tokens=4,
            reasoning_pieces=3,
        ),
    )
    recorder.close()
    (row,) = REQUESTS.read(tmp_path).to_pylist()
    assert row == {
        "concurrency": 8,
        "start": 3,
        "phase": "cache_pressure",
        "request_id": "r1",
        "play_id": "p1",
        "conversation_id": "s1",
        "session_id": "x1",
        "lane": 3,
        "play_number": 2,
        "conversation": 1,
        "turn": 4,
        "request_index": 9,
        "gap_s": 1.5,
        "recorded_input_tokens": 100,
        "recorded_output_tokens": 20,
        "max_tokens": 7,
        "planned_prompt_tokens": 101,
        "reusable_tokens": 64,
        "shared_blocks": 1,
        "play_request": 12,
        "kept_blocks": 3,
        "conversation_kept_blocks": 2,
        "declared_blocks": 1,
        "own_block": 2**64 - 1,
        "declared_prefix": 7,
        "declared_tokens": 64,
        "says_answer": True,
        "skipped_ns": 5_000_000_000,
        "intended_start_ns": 1000,
        "connect_start_ns": 1100,
        "connected_ns": 1200,
        "send_ns": 1300,
        "sent_ns": 1400,
        "first_byte_ns": 1500,
        "first_token_ns": 2000,
        "last_token_ns": 22_600,
        "end_ns": 29_000,
        # 10.4 and 20.6 µs after the first: 10 and 21 rounded, so gaps of 10 and 11.
        "arrival_deltas_us": [10, 11],
        "event_tokens": [2, 1, 4],
        "prompt_tokens": 102,
        "cached_tokens": 64,
        "completion_tokens": 7,
        "prompt_length_error": 2,
        "status": "ok",
        "finish_reason": "length",
        "http_status": 200,
        "error_category": None,
        "error_text": None,
        "retries": 1,
        "replica": 2,
        "first_token_uncertainty_ns": 400,
        "last_token_uncertainty_ns": 500,
        "send_uncertainty_ns": 600,
        "late_events": 2,
        "gathered_reads": 1,
        "text_pieces": 6,
        "reasoning_tokens": 4,
        "reasoning_pieces": 3,
        "event_text_bytes": [8, 4, 17],
    }


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    failure = response(
        status=Status.FAILED,
        prompt_tokens=None,
        completion_tokens=None,
        http_status=None,
        error_category=ErrorCategory.RESET,
        error_text="ECONNRESET",
    )
    answer = response(arrival_ns=[1, 2], arrival_tokens=None)
    record(tmp_path, (dispatch(), failure), (dispatch(), answer))
    failed, untold = REQUESTS.read(tmp_path).to_pylist()
    unknown = [name for name, value in failed.items() if value is None]
    assert unknown == [
        "own_block", "declared_prefix", "says_answer", "connect_start_ns", "connected_ns",
        "sent_ns", "first_byte_ns", "first_token_ns", "last_token_ns", "event_tokens",
        "prompt_tokens", "cached_tokens", "completion_tokens", "prompt_length_error",
        "finish_reason", "http_status", "gathered_reads", "text_pieces", "reasoning_tokens",
        "reasoning_pieces", "event_text_bytes",
    ]  # fmt: skip
    assert failed["arrival_deltas_us"] == []
    assert (failed["error_category"], failed["error_text"]) == ("reset", "ECONNRESET")
    assert untold["event_tokens"] is None


def test_other_tokens_than_asked_are_recorded_as_a_length_mismatch(tmp_path: Path) -> None:
    record(tmp_path, (dispatch(max_tokens=10), response(completion_tokens=9)))
    assert REQUESTS.read(tmp_path)["status"].to_pylist() == ["length_mismatch"]


def test_rounding_to_microseconds_never_adds_up(tmp_path: Path) -> None:
    record(tmp_path, (dispatch(), response(arrival_ns=[k * 1400 for k in range(1001)])))
    deltas = REQUESTS.read(tmp_path)["arrival_deltas_us"][0].as_py()
    assert sum(deltas) == 1400  # 1000 gaps of 1.4 µs; each rounded by itself would give 1000
    assert set(deltas) == {1, 2}


def test_plays_are_recorded_with_their_end_or_null(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, LEVEL, origin_ns=5, interval_s=NEVER_S)
    recorder.record_play(play(start_ns=7, end_ns=10, session_skipped_s=0.25))
    recorder.record_play(play(start_ns=7, end_ns=None, session_skipped_s=0.25))
    recorder.close()
    table = PLAYS.read(tmp_path)
    assert table["start_ns"].to_pylist() == [2, 2]
    assert table["end_ns"].to_pylist() == [5, None]
    assert table["session_skipped_s"].to_pylist() == [0.25, 0.25]


def test_a_part_is_closed_and_readable_while_recording_goes_on(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, LEVEL, origin_ns=0, interval_s=0.01)
    recorder.record(dispatch(request_id="a"), response())
    while not REQUESTS.files(tmp_path):
        os.sched_yield()
    assert ids(tmp_path) == ["a"]
    recorder.record(dispatch(request_id="b"), response())
    recorder.close()
    assert ids(tmp_path) == ["a", "b"]


def test_many_events_are_a_part_before_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "PART_EVENTS", 3)
    recorder = Recorder(tmp_path, LEVEL, origin_ns=0, interval_s=NEVER_S)
    recorder.record(dispatch(), response(arrival_ns=[1, 2, 3]))
    while not REQUESTS.files(tmp_path):
        os.sched_yield()
    recorder.close()


def test_rows_come_out_in_order_however_they_are_sliced(tmp_path: Path) -> None:
    record(
        tmp_path,
        *(
            (dispatch(turn=number), response(arrival_ns=range(number % 3)))
            for number in range(300)  # slices hold 128
        ),
    )
    table = REQUESTS.read(tmp_path)
    assert table["turn"].to_pylist() == list(range(300))
    gaps = table["arrival_deltas_us"].to_pylist()
    assert [len(row) for row in gaps[:6]] == [0, 0, 1, 0, 0, 1]


def test_a_disk_that_falls_too_far_behind_fails_the_recorder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "BACKLOG_EVENTS", 2)
    recorder = Recorder(tmp_path, LEVEL, origin_ns=0, interval_s=NEVER_S)
    recorder.record(dispatch(), response(arrival_ns=[1, 2]))
    with refuses("disk-too-slow", "2"):
        recorder.close()


def test_a_vanished_directory_is_told_once_and_what_was_written_elsewhere_stays(
    tmp_path: Path,
) -> None:
    point = tmp_path / "c0002"
    recorder = Recorder(point, LEVEL, origin_ns=0, interval_s=NEVER_S)
    shutil.rmtree(point)
    recorder.record(dispatch(), response())
    with refuses("directory-vanished"):
        recorder.close()
    recorder.record(dispatch(), response())  # dropped without a word
    assert recorder.failure is not None


def test_a_place_that_cannot_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with refuses("path-through-file"):
        Recorder(tmp_path / "file" / "c0002", LEVEL, origin_ns=0)


def test_a_programming_error_in_the_thread_surfaces_on_close(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, LEVEL, origin_ns=0, interval_s=NEVER_S)
    recorder.record(dispatch(lane="not a number"), response())
    with pytest.raises(pa.ArrowInvalid):
        recorder.close()


def test_the_thread_ends_with_close(tmp_path: Path) -> None:
    before = threading.active_count()
    Recorder(tmp_path, LEVEL, origin_ns=0, interval_s=NEVER_S).close()
    assert threading.active_count() == before
    assert REQUESTS.files(tmp_path) == []


def test_compaction_joins_the_parts_of_all_workers(tmp_path: Path) -> None:
    record_parts(tmp_path, 2, worker=0)
    record_parts(tmp_path, 1, worker=1)
    REQUESTS.compact(tmp_path)
    assert [path.name for path in REQUESTS.files(tmp_path)] == ["requests.parquet"]
    assert ids(tmp_path) == ["w0-0", "w0-1", "w1-0"]
    assert [path.name for path in tmp_path.iterdir()] == ["requests.parquet"]


def test_compacting_again_changes_nothing(tmp_path: Path) -> None:
    record_parts(tmp_path, 2)
    REQUESTS.compact(tmp_path)
    REQUESTS.compact(tmp_path)
    assert ids(tmp_path) == ["w0-0", "w0-1"]


def test_compaction_writes_row_groups_of_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentx_replay.results.records.GROUP_EVENTS", 0)
    record_parts(tmp_path, 3)
    REQUESTS.compact(tmp_path)
    assert pq.ParquetFile(REQUESTS.files(tmp_path)[0]).num_row_groups == 3
    assert ids(tmp_path) == ["w0-0", "w0-1", "w0-2"]


def crash_while_preparing(point: Path) -> None:
    prepared_requests(point).mkdir()
    (prepared_requests(point) / "requests.parquet").write_bytes(b"PAR1 half a file")


def crash_between_the_renames(point: Path) -> None:
    shutil.copytree(REQUESTS.parts(point), prepared_requests(point))
    REQUESTS.parts(point).rename(replaced_requests(point))


def crash_before_the_parts_are_gone(point: Path) -> None:
    shutil.copytree(REQUESTS.parts(point), replaced_requests(point))


@pytest.mark.parametrize(
    "crash",
    [crash_while_preparing, crash_between_the_renames, crash_before_the_parts_are_gone],
)
def test_a_crash_of_compaction_loses_and_doubles_no_row(tmp_path: Path, crash: object) -> None:
    record_parts(tmp_path, 2)
    assert callable(crash)
    crash(tmp_path)
    assert ids(tmp_path) == ["w0-0", "w0-1"]
    REQUESTS.recover(tmp_path)
    assert ids(tmp_path) == ["w0-0", "w0-1"]
    globbed = REQUESTS.groups(sorted(tmp_path.glob("requests*/*.parquet")))
    assert [row["request_id"] for table in globbed for row in table.to_pylist()] == ["w0-0", "w0-1"]
    REQUESTS.compact(tmp_path)
    assert ids(tmp_path) == ["w0-0", "w0-1"]
    assert not prepared_requests(tmp_path).exists()
    assert not replaced_requests(tmp_path).exists()


def record_samples(point: Path) -> None:
    for worker in (0, 1):
        recorder = Recorder(point, LEVEL, origin_ns=100, worker=worker)
        for at_ns in (101, 102, 103):
            recorder.append(INSTRUMENT, (worker, at_ns, 5, 900))
        recorder.close()


SAMPLES = [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]


def samples(point: Path) -> list[tuple[int, int]]:
    return [(row["worker"], row["at_ns"]) for row in INSTRUMENT.read(point).to_pylist()]


def test_parts_of_a_table_become_one_file_and_ending_twice_changes_nothing(tmp_path: Path) -> None:
    record_samples(tmp_path)
    assert samples(tmp_path) == SAMPLES
    assert len(INSTRUMENT.files(tmp_path)) == 2
    for _ in range(2):
        INSTRUMENT.compact(tmp_path)
        assert samples(tmp_path) == SAMPLES
        assert list(tmp_path.iterdir()) == [INSTRUMENT.whole(tmp_path)]


def test_a_crash_between_the_file_and_the_end_of_the_parts_doubles_nothing(tmp_path: Path) -> None:
    record_samples(tmp_path)
    INSTRUMENT.compact(tmp_path)
    record_samples(tmp_path)  # as if the parts had not been removed yet
    assert samples(tmp_path) == SAMPLES


def test_without_a_row_there_is_no_file(tmp_path: Path) -> None:
    Recorder(tmp_path, LEVEL, origin_ns=0).close()
    PLAYS.compact(tmp_path)
    assert (len(PLAYS.read(tmp_path)), list(tmp_path.iterdir())) == (0, [])


def test_a_flipped_byte_is_found_by_its_checksum(tmp_path: Path) -> None:
    record_parts(tmp_path, 1)
    (file,) = REQUESTS.files(tmp_path)
    group = pq.ParquetFile(file).metadata.row_group(0)
    (chunk,) = (
        c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == "lane"
    )
    body = bytearray(file.read_bytes())
    body[chunk.dictionary_page_offset + chunk.total_compressed_size - 1] ^= 1
    file.write_bytes(body)
    with refuses("record-unreadable", file.name):
        REQUESTS.read(tmp_path)


def test_the_recorder_keeps_no_buffer_of_the_wire(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, LEVEL, origin_ns=0, interval_s=NEVER_S)
    wire = np.array([1 * SECOND, 2 * SECOND], np.int64)
    recorder.record(dispatch(), response(arrival_ns=wire))
    came = response()
    assert came.arrival_ns.base is None
    wire[:] = 0
    recorder.close()
    row = REQUESTS.read(tmp_path)
    assert row["arrival_deltas_us"].to_pylist() == [[1_000_000]]

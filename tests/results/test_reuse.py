"""Reuse across plays, found when the records of all workers lie side by side."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from record_cases import dispatch, prompt, record, response

from agentx_replay.replay.ports import Dispatch
from agentx_replay.results.layout import Measurement
from agentx_replay.results.run_directory import PointStatus, RunDirectory, read_points
from agentx_replay.results.schema import REQUESTS

RECORDS = [
    # (worker, lane, send, declared prefix, its tokens, own reuse), as the workers wrote them
    (0, 0, 100, 7, 128, 0),
    (0, 0, 500, 7, 128, 640),
    (0, 2, 300, 9, 64, 0),
    (1, 1, 50, 7, 64, 0),
    (1, 1, 300, 9, 192, 0),
    (1, 3, 600, 9, 192, 0),
    (1, 3, 700, None, 0, 320),
]
REUSE = [
    64,  # lane 1 had sent the first 64 tokens at 50
    640,  # by its own play
    64,  # at the same ns as lane 1, which comes first: 192 held, 64 wanted
    0,  # the first of all
    0,  # the first of its prefix
    192,
    320,
]


def declaring(lane: int, prefix: int | None, tokens: int, own: int) -> Dispatch:
    ids = np.array([prefix if prefix is not None else 1, 2], np.uint64)
    said = replace(
        prompt(1000, own),
        block_ids=ids,
        declared_blocks=0 if prefix is None else 1,
        declared_tokens=tokens,
    )
    return dispatch(lane=lane, prompt=said)


def record_all(directory: Path) -> None:
    for worker in (0, 1):
        pairs = [
            (declaring(lane, prefix, tokens, own), response(send_ns=send_ns))
            for by, lane, send_ns, prefix, tokens, own in RECORDS
            if by == worker
        ]
        record(directory, *pairs, worker=worker)


def reuse(directory: Path) -> list[int]:
    found: list[int] = REQUESTS.read(directory)["reusable_tokens"].to_pylist()
    return found


def test_a_declared_prefix_counts_as_far_as_any_play_of_any_worker_had_sent_it(
    tmp_path: Path,
) -> None:
    record_all(tmp_path)
    assert reuse(tmp_path) == REUSE


def test_compaction_keeps_what_was_found_and_finding_it_again_changes_nothing(
    tmp_path: Path,
) -> None:
    record_all(tmp_path)
    REQUESTS.compact(tmp_path)
    assert reuse(tmp_path) == REUSE
    (file,) = REQUESTS.files(tmp_path)
    file.rename(file.with_name("part-again.parquet"))
    assert reuse(tmp_path) == REUSE


def test_a_point_that_was_cut_short_reads_the_same(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path)
    record_all(run.start_point(Measurement(4), {}))
    (point,) = read_points(tmp_path)
    assert point.status is PointStatus.RUNNING
    assert point.requests(("reusable_tokens",))["reusable_tokens"].to_pylist() == REUSE


def test_parts_read_group_by_group_say_the_same(tmp_path: Path) -> None:
    record_all(tmp_path)
    groups = list(REQUESTS.at(tmp_path).groups(("reusable_tokens",)))
    assert len(groups) == 2
    assert [value for table in groups for value in table["reusable_tokens"].to_pylist()] == REUSE


def test_what_one_replica_has_seen_is_nothing_to_another(tmp_path: Path) -> None:
    pairs = [
        (declaring(lane, 7, tokens, 0), response(send_ns=send_ns, replica=replica))
        for lane, tokens, send_ns, replica in (
            (0, 64, 100, 0), (1, 128, 200, 1), (2, 192, 300, 0), (3, 256, 400, 1),
        )
    ]  # fmt: skip
    record(tmp_path, *pairs)
    # Lane 2 finds the 64 tokens of lane 0 at their server, lane 3 the 128 of lane 1 at theirs.
    assert reuse(tmp_path) == [0, 0, 64, 128]

"""The bound on a level's memory that is told before it runs."""

import re

import numpy as np

from agentx_replay.experiment.memory import LevelMemory, level_memory
from agentx_replay.plan.selection import Selection
from agentx_replay.traces.model import BlockTrie, Session


def selection(blocks: int) -> Selection:
    trie = BlockTrie(np.zeros(blocks, np.int32), np.zeros(blocks, np.int32))
    whole = Session("s", 64, 0, 0, (), trie)
    return Selection((whole,), (whole,), ())


def test_every_part_of_the_bound_is_counted_once_a_process() -> None:
    # Two workers and the parent: 3 programs of 130 MB, 3 corpora of 1,000,000 blocks at 8 bytes;
    # for each worker 64 MiB of raw events, and 16,000,000 events at 12 bytes of records.
    memory = level_memory(selection(1_000_000), 500_000_000, 2)
    assert memory == LevelMemory(
        processes=3,
        program_bytes=390_000_000,
        corpus_bytes=24_000_000,
        text_bytes=500_000_000,
        raw_event_bytes=134_217_728,
        record_bytes=384_000_000,
    )
    assert memory.total_bytes == 1_432_217_728
    total, parts = memory.lines()
    assert re.findall(r"\d[\d,]* \w+", total) == ["1,432 MB", "3 processes"]
    assert re.findall(r"(\w+) (\d+)", parts) == [
        ("program", "390"), ("corpus", "24"), ("text", "500"), ("events", "134"),
        ("records", "384"),
    ]  # fmt: skip


def test_one_worker_is_the_process_itself() -> None:
    memory = level_memory(selection(0), 0, 1)
    assert (memory.processes, memory.program_bytes) == (1, 130_000_000)
    # 130 + 67.1 + 192
    assert re.findall(r"\d+ \w+", memory.lines()[0]) == ["389 MB", "1 process"]


def test_the_line_fits_the_screen_for_the_largest_runs() -> None:
    most = 10**12 - 1
    memory = LevelMemory(128, most, most, most, most, most)
    assert max(map(len, memory.lines())) <= 90

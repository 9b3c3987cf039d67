"""How a level is going, on a terminal and on what is none."""

import fcntl
import io
import os
import pty
import re
import struct
import termios
import time
from dataclasses import replace

import pytest
from command_line import all_shown

from agentx_replay.replay.driver import Progress, Stage
from agentx_replay.replay.instrument import ClientLoad
from agentx_replay.replay.warmup import Warmed
from agentx_replay.report.progress import ProgressScreen, fitted, length_warning, progress_line
from agentx_replay.results.recent import Snapshot

PROGRESS = Progress(Stage.WINDOW, 12.4, in_flight=16, live_plays=32, recycled_plays=3)
RECENT = Snapshot(12_345.0, 0.0201, 0.952, 90, (("http_status", 12), ("connection_reset", 3)))
NOTHING_YET = Snapshot(0.0, None, None, 0, ())
LOAD = ClientLoad(cpu_share=0.25, loop_lag_p99_ns=1_234_567.0)
LINE = (
    "c=32 window 12 s left | 16 in flight | 1,543 tok/s/GPU | P90 ITL 20.1 ms | hit 95.2%"
    " | 12 http_status, 3 connection_reset | client 25% CPU, lag 1.2 ms | 32 live sessions"
)


def shown_in_a_terminal(columns: int) -> str:
    """What a screen writes into a terminal so wide, from a level's start to a line that stays."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(follower, "w") as stream:
        screen = ProgressScreen(8, stream)
        screen.say("before")
        screen.level_begins(32)
        screen.show(PROGRESS, RECENT, LOAD)
        screen.level_ends()
        screen.say("after")
    text = all_shown(leader)
    os.close(leader)
    return text


def test_of_a_level_that_is_started_it_says_which_start_it_is() -> None:
    stream = io.StringIO()
    screen = ProgressScreen(8, stream)
    screen.level_begins(8, 2, 3)
    screen.show(PROGRESS, RECENT, LOAD)
    assert stream.getvalue().startswith("c=8, start 2 of 3 window ")


def test_the_time_left_of_the_whole_sweep_counts_what_levels_took_beside_their_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    stream = io.StringIO()
    screen = ProgressScreen(8, stream)
    screen.levels_left(3, 20.0)
    screen.level_begins(2)
    screen.show(replace(PROGRESS, stage=Stage.WARMUP, left_s=None), RECENT, LOAD)
    screen.show(PROGRESS, RECENT, LOAD)
    now_s[0] += 35.0
    screen.level_ends()
    screen.levels_left(2, 20.0)
    screen.level_begins(8)
    screen.show(PROGRESS, RECENT, LOAD)
    screen.show(replace(PROGRESS, stage=Stage.DRAIN, left_s=5.0), RECENT, LOAD)
    assert [line.split(" | ")[0] for line in stream.getvalue().splitlines()] == [
        "c=2 warm-up, sweep at least 60 s",
        "c=2 window 12 s left, sweep at least 52 s",
        "c=8 window 12 s left, sweep 47 s",  # 12.4 and a level of 20 with 15 beside
        "c=8 drain 5 s left, sweep 35 s",
    ]


def test_lines_come_more_often_while_a_stage_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    stream = io.StringIO()
    screen = ProgressScreen(8, stream)
    screen.level_begins(2)
    at_s = []
    for second in range(100):
        now_s[0] = float(second)
        before = len(stream.getvalue())
        screen.show(PROGRESS, RECENT, LOAD)
        at_s += [second] if len(stream.getvalue()) > before else []
    assert at_s == [0, 5, 10, 15, 20, 25, 55, 85]


def test_where_lines_stay_they_are_whole() -> None:
    stream = io.StringIO()
    screen = ProgressScreen(8, stream)
    screen.level_begins(32)
    screen.show(PROGRESS, RECENT, LOAD)
    screen.level_ends()
    assert stream.getvalue() == f"{LINE}\n"


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (
            80,
            "c=32 window 12 s left | 16 in flight | 1,543 tok/s/GPU | P90 ITL 20.1 ms",
        ),
        (172, LINE),
    ],
)
def test_a_terminal_shows_the_fields_that_fit_and_is_clean_before_anything_else(
    columns: int, shown: str
) -> None:
    assert shown_in_a_terminal(columns) == f"before\r\n{shown}\r\x1b[Kafter\r\n"


def test_whole_fields_go_from_the_right() -> None:
    assert fitted("a | bcd | ef", 13) == "a | bcd | ef"
    assert fitted("a | bcd | ef", 12) == "a | bcd"
    assert fitted("a | bcd | ef", 5) == "a"
    assert fitted("abcdef", 4) == "abc"


@pytest.mark.parametrize(
    ("warmed", "stage"),
    [
        (Warmed(3, 12, 0, 80), "warm-up, 3 of 12 primers"),
        (Warmed(12, 12, 40, 80), "warm-up, 40 of 80 cache-pressure requests"),
        (Warmed(0, 0, 0, 80), "warm-up, 0 of 80 cache-pressure requests"),
    ],
)
def test_a_warm_up_tells_what_has_returned_of_all(warmed: Warmed, stage: str) -> None:
    warming = replace(PROGRESS, stage=Stage.WARMUP, left_s=None, warmed=warmed)
    assert progress_line("c=8", warming, NOTHING_YET, LOAD, None) == (
        f"c=8 {stage} | 16 in flight | client 25% CPU, lag 1.2 ms | 32 live sessions"
    )


# --- a prompt length that does not hold is said once a level -----------------------------------


@pytest.mark.parametrize("errors", [(), (0,), (0,) * 20])
def test_lengths_that_hold_are_not_mentioned(errors: tuple[int, ...]) -> None:
    assert length_warning(errors) is None


def test_those_that_do_not_are_told_by_number_and_size() -> None:
    told = length_warning((0, 1, -3, 0))
    assert told is not None
    assert re.findall(r"-?\d+", told) == ["2", "4", "-3"]


def test_each_level_says_so_once() -> None:
    stream = io.StringIO()
    screen = ProgressScreen(None, stream)
    off = Snapshot(0.0, None, None, 0, (), length_errors=(2,))
    for concurrency in (1, 2):
        screen.level_begins(concurrency)
        for _ in range(3):
            screen.show(Progress(Stage.WARMUP, None, 1, 1, 0), off, ClientLoad(0.0, 0))
    told = [line for line in stream.getvalue().splitlines() if "prompt lengths" in line]
    assert len(told) == 2

"""A server that drops everybody and comes back, one that hangs for good, one that is gone."""

from dataclasses import dataclass
from pathlib import Path

from faulty_answers import Act, Break, Fault, Point
from socket_replay import Controls, replayed

from agentx_replay.replay.window import WindowResult

LANES = 6
WARMED_UP = 100
"""Requests before anything goes wrong: a tenth of all that ended may fail."""


@dataclass(slots=True)
class Drops:
    """Resets every connection once, then serves on; the run ends some requests later.

    One response stalls until then, so that on any machine one is under way and has been read.
    """

    dropped: bool = False

    def __call__(self, controls: Controls, number: int, body: bytes) -> Fault | None:
        if number == WARMED_UP:
            return Fault(breaks=Break(Act.STALL, Point.AFTER_LAST_TOKEN, stall_s=3600.0))
        late_enough = number >= WARMED_UP + 2 * LANES
        if late_enough and not self.dropped and controls.server is not None:
            self.dropped = True
            controls.server.server.disconnect()
        if number == 2 * WARMED_UP and controls.replay is not None:
            controls.replay.stop()
        return None


def test_a_server_that_drops_everybody_and_comes_back_is_measured_on(tmp_path: Path) -> None:
    outcome = replayed(tmp_path, Drops(), lanes=LANES)
    assert outcome.result.failure is None
    failed = [row for row in outcome.rows if row["status"] == "failed"]
    assert 0 < len(failed) <= LANES
    assert {row["error_category"] for row in failed} == {"reset"}
    last_failure_ns = max(row["end_ns"] for row in failed)
    for lane in range(LANES):
        later = [
            row for row in outcome.rows if row["lane"] == lane and row["send_ns"] > last_failure_ns
        ]
        assert any(row["status"] == "ok" for row in later), lane
    assert outcome.tasks_left == 0


@dataclass(slots=True)
class Hangs:
    """From some request on nothing is said any more, for an hour."""

    def __call__(self, controls: Controls, number: int, body: bytes) -> Fault | None:
        stall = Break(Act.STALL, Point.BETWEEN_EVENTS, stall_s=3600.0)
        return Fault(breaks=stall) if number >= 4 * LANES else None


def test_a_server_that_hangs_is_left_at_the_end_of_window_and_grace(tmp_path: Path) -> None:
    outcome = replayed(tmp_path, Hangs(), lanes=LANES, window_s=2.0, grace_s=0.5)
    window = outcome.result.window
    assert isinstance(window, WindowResult)
    assert window.close_ns - window.open_ns >= 2_000_000_000
    assert 0.0 <= outcome.overtime_s < 30.0  # a busy machine's slack; what hangs would take 3600
    assert outcome.tasks_left == 0
    cut = [row for row in outcome.rows if row["status"] == "cut"]
    assert {row["lane"] for row in cut} == set(range(LANES))
    assert {row["request_id"] for row in outcome.rows} == outcome.sent.keys()


@dataclass(slots=True)
class Goes:
    """From some request on every connection is reset before a word."""

    def __call__(self, controls: Controls, number: int, body: bytes) -> Fault | None:
        gone = Break(Act.RESET, Point.BEFORE_HEADERS)
        return Fault(breaks=gone) if number >= WARMED_UP else None


def test_a_server_that_is_gone_ends_the_level_with_the_count_of_failures(tmp_path: Path) -> None:
    outcome = replayed(tmp_path, Goes(), lanes=LANES)
    failure = outcome.result.failure
    ended = [row["status"] for row in outcome.rows if row["status"] != "cut"]
    assert failure is not None
    assert failure.code == "too-many-failed"
    assert ended.count("failed") > len(ended) / 10
    assert {row["request_id"] for row in outcome.rows} == outcome.sent.keys()

"""How late a worker's loop was, by its timers, and what it may have stamped late."""

import numpy as np
import pytest
from record_cases import MS, SECOND, dispatch, recorded, response

from agentx_replay.analysis.lag import (
    PERIOD_NS,
    Samples,
    lag_p99_by_second,
    lag_p99_ns,
    late_ns,
    longest_stall_ns,
    loop_lag_series,
    workers_of,
)
from agentx_replay.analysis.window import Window
from agentx_replay.replay.instrument import SAMPLE_EVERY_NS


def samples(*rows: tuple[int, float, float]) -> Samples:
    """Rows of (worker, instant in ms, loop lag in ms)."""
    worker, at_ms, lag_ms = zip(*rows, strict=True) if rows else ((), (), ())
    at_ns = (np.array(at_ms) * MS).astype(np.int64)
    lag_ns = (np.array(lag_ms) * MS).astype(np.int64)
    return Samples(np.array(worker, np.int64), at_ns, lag_ns, np.zeros(len(rows), np.int64))


def late_ms(taken: Samples, worker: int, *at_ms: float) -> list[float]:
    """What a worker may have stamped late at some instants, in ms."""
    at_ns = np.array(at_ms) * MS
    found: list[float] = (late_ns(taken, np.full(len(at_ns), worker), at_ns) / MS).tolist()
    return found


def test_a_timer_is_due_as_often_as_the_client_arms_one() -> None:
    assert PERIOD_NS == SAMPLE_EVERY_NS


def test_loop_lag_p99_is_of_all_timers_that_were_due() -> None:
    # 101 timers in second 0, 100 of 1 ms and one of 9: rank 99 is still 1 ms.
    rows = [(0, k * 5.0, 9.0 if k == 0 else 1.0) for k in range(101)]
    assert lag_p99_by_second(samples(*rows, (0, 3_500, 2.0))) == {
        0: pytest.approx(1 * MS),
        3: pytest.approx(2 * MS),
    }


def test_a_stall_weighs_by_its_length() -> None:
    # 90 quiet timers, and one 100 ms late at the end of a second. Ten others were due in that
    # stall, 90, 80, …, 0 ms late when it ended: 101 timers, rank 99 is the second longest.
    rows = [(0, 10.0 * k, 0.0) for k in range(90)]
    taken = samples(*rows, (0, 999.0, 100.0))
    assert lag_p99_by_second(taken) == {0: pytest.approx(90 * MS)}
    assert lag_p99_ns(taken) == pytest.approx(90 * MS)


def test_no_stall_hides_among_the_timers_of_other_workers() -> None:
    quiet = [(worker, 10.0 * k, 0.0) for worker in (0, 1, 2) for k in range(1000)]
    stalled = [(3, 10.0 * k, 30.0 if k == 50 else 1.0) for k in range(0, 100, 5)]
    # Worker 3 alone: 19 timers of 1 ms and four of 30, 20, 10 and 0; rank 0.99 x 22 = 21.78.
    assert lag_p99_ns(samples(*quiet, *stalled)) == pytest.approx(27.8 * MS)
    assert lag_p99_ns(samples()) is None


def test_what_is_read_at_the_end_of_a_stall_may_have_come_since_the_timer_before() -> None:
    # Stopped at some time after 20 ms until 230 ms; its timer of 30 ms fired at 230.
    taken = samples((0, 10, 0), (0, 20, 0), (0, 230, 200), (0, 240, 0), (0, 250, 0))
    assert late_ms(taken, 0, 229, 231, 239) == [209, 211, 219]
    # Elsewhere in the second its P99: 200, 190, …, 0 and four of 0, rank 23.76.
    assert late_ms(taken, 0, 15, 245) == [pytest.approx(197.6), pytest.approx(197.6)]


def test_without_a_late_timer_a_timestamp_is_as_late_as_the_p99_of_its_second() -> None:
    taken = samples(*((0, 10.0 * k, 1.0) for k in range(100)), (0, 1_000, 0.0), (0, 1_010, 4.0))
    assert late_ms(taken, 0, 505, 1_005) == [pytest.approx(1.0), pytest.approx(4.0)]


def test_beyond_a_workers_last_timer_nothing_is_known() -> None:
    taken = samples((0, 10, 0), (0, 20, 0))
    assert late_ms(taken, 0, 29, 530) == [0, pytest.approx(500)]


def test_a_timestamp_is_judged_by_its_own_worker() -> None:
    taken = samples((0, 10, 0), (0, 500, 480), (1, 10, 0), (1, 20, 0))
    assert late_ms(taken, 1, 20) == [0]
    assert late_ms(taken, 0, 20) == [pytest.approx(475.1)]  # 480, 470, …, 0 and a 0: rank 48.51
    assert late_ms(taken, 0, np.nan) == [0]
    lanes = np.array([0, 1, 2, 3])
    assert workers_of(lanes, taken).tolist() == [0, 1, 0, 1]
    assert workers_of(lanes, samples()).tolist() == [0, 0, 0, 0]


def test_a_response_knows_the_longest_stall_of_its_worker_while_it_was_in_flight() -> None:
    taken = samples(
        (0, 100, 40), (0, 300, 90), (0, 400, 9), (1, 200, 500)
    )  # stalls of worker 0: 60 to 100 ms and 210 to 300 ms
    flights = [(0, 50, 400), (0, 101, 200), (0, 250, 260), (0, 301, 900), (2, 61, 62), (1, 0, 99)]
    pairs = [
        (dispatch(lane=lane), response(send_ns=sent * MS, end_ns=end * MS))
        for lane, sent, end in flights
    ]
    responses = recorded(pairs).responses
    worker = workers_of(responses.lane, taken)
    assert (longest_stall_ns(taken, worker, responses) / MS).tolist() == [90, 0, 90, 0, 40, 500]


def test_the_loop_lag_of_the_window_goes_to_the_log() -> None:
    window = Window(10 * SECOND, 20 * SECOND, 10.0)
    series = loop_lag_series(samples((0, 2_000, 500), (0, 11_500, 4)), window)
    assert series.tag == "loop_lag"
    assert series.at_ns.tolist() == [11.5 * SECOND]
    assert series.value_ns.tolist() == [4 * MS]

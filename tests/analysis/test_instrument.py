import numpy as np
import pytest
from record_cases import MS, SECOND, dispatch, recorded, response

from agentx_replay.analysis.instrument import (
    Samples,
    busiest_cpu_share,
    examine,
    itl_shift,
    lag_p99_by_second,
    loop_lag_series,
)
from agentx_replay.analysis.window import Window


def samples(*rows: tuple[int, float, float, float]) -> Samples:
    """Rows of (worker, second, loop lag in ms, CPU seconds used)."""
    return Samples(
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] * SECOND for row in rows], np.int64),
        np.array([row[2] * MS for row in rows], np.int64),
        np.array([row[3] * SECOND for row in rows], np.int64),
    )


def test_loop_lag_p99_is_taken_for_each_second() -> None:
    # 101 samples in second 0: 100 of 1 ms and one of 9 ms; rank 99 is still 1 ms.
    rows = [(0, k / 200, 9.0 if k == 0 else 1.0, 0.0) for k in range(101)]
    assert lag_p99_by_second(samples(*rows, (0, 3.5, 2.0, 0.0))) == {
        0: pytest.approx(1 * MS),
        3: pytest.approx(2 * MS),
    }


def test_late_stamps_move_the_itl_by_the_lag_of_their_second_over_the_later_tokens() -> None:
    # 2 s over 100 later tokens: 20 ms. First stamp late by 10 ms: +0.1 ms; last by 40 ms: −0.4.
    ok = recorded(
        [
            (
                dispatch(),
                response(arrival_ns=[SECOND // 2, 5 * SECOND // 2], completion_tokens=101),
            )
        ]
    ).responses
    assert itl_shift(ok, {0: 10.0 * MS, 2: 40.0 * MS}) == pytest.approx(0.4 / 20)
    assert itl_shift(ok, {0: 10.0 * MS}) == pytest.approx(0.1 / 20)


def test_without_lag_samples_or_itl_there_is_no_shift_to_tell() -> None:
    ok = recorded([(dispatch(), response(arrival_ns=[0, SECOND]))]).responses
    assert itl_shift(ok, {}) is None
    assert itl_shift(recorded([(dispatch(), response())]).responses, {0: 1.0}) is None
    at_once = recorded([(dispatch(), response(arrival_ns=[5, 5]))]).responses
    assert itl_shift(at_once, {0: 1.0}) is None


def test_cpu_is_the_busiest_ten_seconds_of_the_busiest_worker() -> None:
    rows = [(0, t, 0.0, 0.1 * t) for t in range(0, 41, 5)]
    busy = [(1, t, 0.0, min(t, 15) * 0.9) for t in range(0, 41, 5)]
    assert busiest_cpu_share(samples(*rows)) == pytest.approx(0.1)
    assert busiest_cpu_share(samples(*rows, *busy)) == pytest.approx(0.9)


def test_a_run_under_ten_seconds_is_taken_whole() -> None:
    assert busiest_cpu_share(samples((0, 0, 0, 0), (0, 1, 0, 0.9), (0, 4, 0, 1.0))) == (
        pytest.approx(0.25)
    )
    assert busiest_cpu_share(samples((0, 1, 0, 0))) is None


def test_an_examination_is_of_the_window_alone() -> None:
    window = Window(10 * SECOND, 20 * SECOND, 10.0)
    pairs = [
        (
            dispatch(intended_start_ns=10 * SECOND),
            response(
                send_ns=10 * SECOND + 60 * MS,
                arrival_ns=[11 * SECOND, 12 * SECOND],
                completion_tokens=51,
                end_ns=13 * SECOND,
            ),
        ),
        (dispatch(intended_start_ns=0), response(send_ns=5 * SECOND)),
    ]
    taken = samples((0, 2, 500, 0.0), (0, 11.5, 4, 2.0), (0, 12.5, 4, 2.1))
    report = examine(recorded(pairs).responses, window, taken)
    assert report.send_lag_p99_s == pytest.approx(0.060)
    assert report.loop_lag_p99_s == pytest.approx(0.004)
    assert report.itl_shift == pytest.approx(0.004)  # 4 ms over 50 tokens of 20 ms: 0.08 / 20
    assert report.busiest_cpu_share == pytest.approx(0.1)  # 0.1 s in the second between


def test_the_loop_lag_of_the_window_goes_to_the_log() -> None:
    window = Window(10 * SECOND, 20 * SECOND, 10.0)
    series = loop_lag_series(samples((0, 2, 500, 0.0), (0, 11.5, 4, 2.0)), window)
    assert series.tag == "loop_lag"
    assert series.at_ns.tolist() == [11.5 * SECOND]
    assert series.value_ns.tolist() == [4 * MS]


def test_no_sample_and_no_response_is_a_report_without_numbers() -> None:
    nobody = recorded([(dispatch(), response(send_ns=50 * SECOND))]).responses
    report = examine(nobody, Window(0, SECOND, 1.0), samples())
    assert report.send_lag_p99_s is None
    assert report.loop_lag_p99_s is None
    assert report.busiest_cpu_share is None

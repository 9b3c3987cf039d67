"""The client's own error in one point: what of it is whose, and counted how."""

import numpy as np
import pytest
from record_cases import MS, SECOND, dispatch, recorded, response

from agentx_replay.analysis.instrument import InstrumentReport, busiest_cpu_share, examine
from agentx_replay.analysis.lag import Samples
from agentx_replay.analysis.window import Window


def samples(*rows: tuple[int, float, float, float]) -> Samples:
    """Rows of (worker, second, loop lag in ms, CPU seconds used)."""
    return Samples(
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] * SECOND for row in rows], np.int64),
        np.array([row[2] * MS for row in rows], np.int64),
        np.array([row[3] * SECOND for row in rows], np.int64),
    )


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


WINDOW = Window(10 * SECOND, 20 * SECOND, 10.0)
PAIRS = [
    (
        dispatch(intended_start_ns=10 * SECOND),
        response(
            send_ns=10 * SECOND + 60 * MS,
            arrival_ns=[11 * SECOND, 12 * SECOND],
            arrival_tokens=[1, 50],
            completion_tokens=51,
            end_ns=13 * SECOND,
            first_token_uncertainty_ns=2 * MS,
            send_uncertainty_ns=45 * MS,
            late_events=1,
        ),
    ),
    (dispatch(intended_start_ns=0), response(send_ns=5 * SECOND)),
]
TAKEN = samples(
    (0, 2, 500, 0.0), (0, 3, 0, 0.0), (0, 11.0, 4, 2.0), (0, 11.5, 4, 2.1), (0, 12.0, 4, 2.2)
)


def test_an_examination_is_of_the_window_alone() -> None:
    report = examine(recorded(PAIRS).responses, WINDOW, TAKEN, "process")
    assert report.send_lag_p99_s == pytest.approx(0.060)
    assert report.loop_lag_p99_s == pytest.approx(0.004)
    assert report.busiest_cpu_share == pytest.approx(0.2)  # 0.2 s in the second between


def test_a_process_is_as_late_as_its_loop_and_a_kernel_as_its_intervals_say() -> None:
    responses = recorded(PAIRS).responses
    # 50 later tokens in 1 s: 20 ms each. 4 ms of lag: 0.08 of 20 ms; 2 ms of interval: 0.04.
    # TTFT 940 ms: sent up to 45 ms later, and the first token as much earlier.
    process = examine(responses, WINDOW, TAKEN, "process")
    assert process.itl_shift == pytest.approx(0.004)
    assert process.ttft_shift == pytest.approx(49 / 940)
    kernel = examine(responses, WINDOW, TAKEN, "kernel")
    assert kernel.itl_shift == pytest.approx(0.002)
    assert kernel.ttft_shift == pytest.approx(47 / 940)
    assert (process.timestamps, kernel.timestamps) == ("process", "kernel")


def test_the_share_of_late_events_is_of_all_token_events() -> None:
    report = examine(recorded(PAIRS).responses, WINDOW, TAKEN, "kernel")
    assert report.late_event_share == 0.5


STALLS = {
    # name: (length of the stall in ms, tokens last in s, marked)
    "up to 50 ms are no stall": (50, 0.2, False),
    "over 50 ms are one": (51, 0.2, True),
    "and to a long response what is over 2.5 % of it": (100, 4.0, False),
    "over 2.5 %": (101, 4.0, True),
}


@pytest.mark.parametrize("case", STALLS.values(), ids=STALLS)
def test_a_response_in_flight_while_its_worker_stood_still_is_marked(
    case: tuple[int, float, bool],
) -> None:
    stall_ms, lasted_s, marked = case
    pairs = [
        (
            dispatch(lane=lane),
            response(
                send_ns=11 * SECOND,
                arrival_ns=[12 * SECOND, round((12 + lasted_s) * SECOND)],
                end_ns=17 * SECOND,
            ),
        )
        for lane in range(4)
    ]
    # Of two workers the second, which plays lanes 1 and 3, stood still before 12.1 s.
    taken = samples((0, 12, 0, 0.0), (1, 12, 0, 0.0), (1, 12.1, stall_ms, 0.0))
    report = examine(recorded(pairs).responses, WINDOW, taken, "process")
    assert report.stalled_share == (0.5 if marked else 0.0)
    assert examine(recorded(pairs).responses, WINDOW, taken, "kernel").stalled_share is None


def test_no_sample_and_no_response_is_a_report_without_numbers() -> None:
    nobody = recorded([(dispatch(), response(send_ns=50 * SECOND))]).responses
    report = examine(nobody, Window(0, SECOND, 1.0), samples(), "process")
    assert report == InstrumentReport(None, None, None, None)

"""The client's own error in one point: what of it is whose, and counted how."""

import numpy as np
import pytest
from record_cases import MS, SECOND, dispatch, recorded, response
from stalled_workers import drawn

from agentx_replay.analysis.client_lag import (
    PERIOD_NS,
    InstrumentReport,
    Samples,
    Timestamps,
    busiest_cpu_share,
    examine,
    itl_shift,
    lag_p99_by_second,
    lag_p99_ns,
    longest_stall_ns,
    loop_lag_series,
    ttft_shift,
)
from agentx_replay.analysis.responses import Window, sent_in
from agentx_replay.replay.instrument import SAMPLE_EVERY_NS
from agentx_replay.replay.ports import Dispatch, Response


def samples(*rows: tuple[int, float, float, float]) -> Samples:
    """Rows of (worker, second, loop lag in ms, CPU seconds used)."""
    return Samples(
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] * SECOND for row in rows], np.int64),
        np.array([row[2] * MS for row in rows], np.int64),
        np.array([row[3] * SECOND for row in rows], np.int64),
    )


def timers(*rows: tuple[int, float, float]) -> Samples:
    """Rows of (worker, instant in ms, loop lag in ms)."""
    return samples(*((worker, at_ms / 1e3, lag_ms, 0.0) for worker, at_ms, lag_ms in rows))


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


def examined(
    pairs: list[tuple[Dispatch, Response]], taken: Samples, by: Timestamps
) -> InstrumentReport:
    return examine(sent_in(recorded(pairs).responses, WINDOW), WINDOW, taken, by)


def test_an_examination_is_of_the_window_alone() -> None:
    report = examined(PAIRS, TAKEN, "process")
    assert report.send_lag_p99_s == pytest.approx(0.060)
    assert report.loop_lag_p99_s == pytest.approx(0.004)
    assert report.busiest_cpu_share == pytest.approx(0.2)  # 0.2 s in the second between


def test_timestamps_are_as_uncertain_as_is_on_record_whoever_took_them() -> None:
    # 50 later tokens in 1 s: 20 ms each; 2 ms of interval: 0.04.
    # TTFT 940 ms: sent up to 45 ms later, and the first token up to 2 ms earlier.
    for by in ("process", "kernel"):
        report = examined(PAIRS, TAKEN, by)
        assert report.itl_shift == pytest.approx(0.002)
        assert report.ttft_shift == pytest.approx(47 / 940)
        assert report.timestamps == by


def test_the_share_of_late_events_is_of_all_token_events() -> None:
    report = examined(PAIRS, TAKEN, "kernel")
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
    report = examined(pairs, taken, "process")
    assert report.stalled_share == (0.5 if marked else 0.0)
    assert examined(pairs, taken, "kernel").stalled_share is None


def test_no_sample_and_no_response_is_a_report_without_numbers() -> None:
    report = examined([(dispatch(), response(send_ns=50 * SECOND))], samples(), "process")
    assert report == InstrumentReport(None, None, None, None)


# --- how far late timestamps can move a P90 ---


def shifts(*responses: dict[str, object]) -> tuple[float | None, float | None]:
    """How far the P90 ITL and the P90 TTFT of some responses may be off."""
    ok = recorded([(dispatch(), response(**each)) for each in responses]).responses
    return itl_shift(ok), ttft_shift(ok)


@pytest.mark.parametrize(
    ("first_ms", "last_ms", "send_ms", "itl", "ttft"),
    [
        # 100 gaps in 2 s: 20 ms. A TTFT of 50 ms.
        (0, 0, 0, 0.0, 0.0),
        (40, 0, 0, 0.02, 0.8),  # the first token 40 ms earlier: 20.4 ms, and a TTFT of 10
        (0, 60, 0, 0.03, 0.0),  # the last token 60 ms earlier: 19.4 ms
        (40, 60, 0, 0.03, 0.8),  # the larger of both ends, not their sum
        (0, 0, 5, 0.0, 0.1),  # a body that waited for the client
    ],
)
def test_timestamps_that_are_uncertain_by_so_much_may_move_itl_and_ttft(
    first_ms: int, last_ms: int, send_ms: int, itl: float, ttft: float
) -> None:
    found = shifts(
        {
            "arrival_ns": [50 * MS, 2_050 * MS],
            "completion_tokens": 101,
            "first_token_uncertainty_ns": first_ms * MS,
            "last_token_uncertainty_ns": last_ms * MS,
            "send_uncertainty_ns": send_ms * MS,
        }
    )
    assert found == pytest.approx((itl, ttft))


def test_a_few_wide_intervals_do_not_move_a_p90() -> None:
    # Of 21 responses the last two, the slowest, are above the 90th percentile, rank 18.
    usual = [
        {"arrival_ns": [50 * MS, (1_050 + k) * MS], "completion_tokens": 101} for k in range(19)
    ]
    slow = {"arrival_ns": [60 * MS, 9_060 * MS], "completion_tokens": 101}
    wide = slow | {"first_token_uncertainty_ns": 30 * MS, "last_token_uncertainty_ns": 900 * MS}
    itl, _ = shifts(*usual, wide, wide)
    assert itl == 0


def test_a_response_that_a_late_client_read_all_at_once_had_an_itl_of_up_to_its_interval() -> None:
    # ITL of 10, 20, …, 100 ms: P90 at rank 8.1, 91 ms. One more, of 0 to 100 ms (10 gaps in 1 s):
    # rank 9 of eleven is 90 ms where it was 0, and 100 where it was 100.
    usual = [
        {"arrival_ns": [(50 + 10 * k * j) * MS for j in range(11)], "completion_tokens": 11}
        for k in range(1, 11)
    ]
    at_once = {"arrival_ns": [2_000 * MS] * 11, "completion_tokens": 11}
    itl, _ = shifts(*usual, at_once | {"first_token_uncertainty_ns": 1_000 * MS})
    assert itl == pytest.approx(9 / 91)
    assert shifts(*usual, at_once)[0] == 0  # somebody else gathered it: no fault of the client


def test_without_responses_there_is_no_shift_to_tell() -> None:
    assert shifts({}) == (None, None)
    at_once = {"arrival_ns": [0, 0], "first_token_uncertainty_ns": 1}
    assert shifts(at_once) == (None, None)


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(200), marks=pytest.mark.long)])
def test_the_processs_own_timestamps_are_bounded_over_drawn_stalls(seeds: range) -> None:
    """Up to the 0.3 ms by which these workers are late between two ticks, which none shows."""
    falsified = 0
    for seed in seeds:
        case = drawn(seed, stops_a_worker=1 + seed % 4)
        itl_off, ttft_off = case.off()
        itl, ttft = itl_shift(case.responses), ttft_shift(case.responses)
        assert itl is not None
        assert ttft is not None
        assert itl_off <= itl + 0.0005, seed
        assert ttft_off <= ttft + 0.003, seed
        falsified += max(itl_off, ttft_off) > 0.025
    assert falsified > len(seeds) / 4, falsified


def test_no_quiet_run_is_refused() -> None:
    for seed in range(20):
        ok = drawn(seed, stops_a_worker=0).responses
        assert (itl_shift(ok) or 0) < 0.001
        assert (ttft_shift(ok) or 0) < 0.005


# --- how late the loops were ---


def test_a_timer_is_due_as_often_as_the_client_arms_one() -> None:
    assert PERIOD_NS == SAMPLE_EVERY_NS


def test_loop_lag_p99_is_of_all_timers_that_were_due() -> None:
    # 101 timers in second 0, 100 of 1 ms and one of 9: rank 99 is still 1 ms.
    rows = [(0, k * 5.0, 9.0 if k == 0 else 1.0) for k in range(101)]
    assert lag_p99_by_second(timers(*rows, (0, 3_500, 2.0))) == {
        0: pytest.approx(1 * MS),
        3: pytest.approx(2 * MS),
    }


def test_a_stall_weighs_by_its_length() -> None:
    # 90 quiet timers, and one 100 ms late at the end of a second. Ten others were due in that
    # stall, 90, 80, …, 0 ms late when it ended: 101 timers, rank 99 is the second longest.
    rows = [(0, 10.0 * k, 0.0) for k in range(90)]
    taken = timers(*rows, (0, 999.0, 100.0))
    assert lag_p99_by_second(taken) == {0: pytest.approx(90 * MS)}
    assert lag_p99_ns(taken) == pytest.approx(90 * MS)


def test_no_stall_hides_among_the_timers_of_other_workers() -> None:
    quiet = [(worker, 10.0 * k, 0.0) for worker in (0, 1, 2) for k in range(1000)]
    stalled = [(3, 10.0 * k, 30.0 if k == 50 else 1.0) for k in range(0, 100, 5)]
    # Worker 3 alone: 19 timers of 1 ms and four of 30, 20, 10 and 0; rank 0.99 x 22 = 21.78.
    assert lag_p99_ns(timers(*quiet, *stalled)) == pytest.approx(27.8 * MS)
    assert lag_p99_ns(timers()) is None


def test_a_response_knows_the_longest_stall_of_its_worker_while_it_was_in_flight() -> None:
    taken = timers(
        (0, 100, 40), (0, 300, 90), (0, 400, 9), (1, 200, 500)
    )  # stalls of worker 0: 60 to 100 ms and 210 to 300 ms
    flights = [(0, 50, 400), (0, 101, 200), (0, 250, 260), (0, 301, 900), (2, 61, 62), (1, 0, 99)]
    pairs = [
        (dispatch(lane=lane), response(send_ns=sent * MS, end_ns=end * MS))
        for lane, sent, end in flights
    ]
    responses = recorded(pairs).responses
    assert (longest_stall_ns(taken, responses) / MS).tolist() == [90, 0, 90, 0, 40, 500]


def test_the_loop_lag_of_the_window_goes_to_the_log() -> None:
    window = Window(10 * SECOND, 20 * SECOND, 10.0)
    series = loop_lag_series(timers((0, 2_000, 500), (0, 11_500, 4)), window)
    assert series.tag == "loop_lag"
    assert series.at_ns.tolist() == [11.5 * SECOND]
    assert series.value_ns.tolist() == [4 * MS]

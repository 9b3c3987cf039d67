import numpy as np
import pytest
from record_cases import SECOND, dispatch, prompt, recorded, response

from agentx_replay.analysis.responses import Window
from agentx_replay.analysis.timeline import lane_runs, mean_alive, share_over_time, timeline_of
from agentx_replay.replay.ports import Status

WINDOW = Window(100 * SECOND, 110 * SECOND, 10.0)
NAN = np.nan


def test_requests_are_placed_in_seconds_since_the_window_opened() -> None:
    pairs = [
        (
            dispatch(lane=3, conversation=2, prompt=prompt(200, 150)),
            response(send_ns=98 * SECOND, arrival_ns=[101 * SECOND], end_ns=102 * SECOND),
        ),
        (dispatch(), response(send_ns=103 * SECOND, end_ns=104 * SECOND, status=Status.FAILED)),
    ]
    of = timeline_of(recorded(pairs).responses, WINDOW)
    assert len(of) == 2
    assert of.lane.tolist() == [3, 0]
    assert of.is_main.tolist() == [False, True]
    assert of.good.tolist() == [True, False]
    assert of.send_s.tolist() == [-2.0, 3.0]
    assert of.first_s.tolist() == [1.0, 4.0]  # no token came: its end
    assert of.reusable.tolist()[0] == 150.0


def test_how_many_are_alive_is_a_mean_over_time() -> None:
    start_s, end_s = np.array([0.0, 1.0, 5.0]), np.array([4.0, 2.0, 9.0])
    # 0–2: 2 + 1 s of 2 s; 2–4: 2 of 2; 4–6: 1 of 2; 6–8: 2 of 2.
    found = mean_alive(start_s, end_s, np.array([0.0, 2.0, 4.0, 6.0, 8.0]))
    assert found.tolist() == pytest.approx([1.5, 1.0, 0.5, 1.0])


def test_a_share_is_of_sums_and_unknown_where_nothing_happened() -> None:
    part, whole = np.array([1.0, 3.0, NAN, 2.0]), np.array([4.0, 4.0, 9.0, 2.0])
    at_s = np.array([0.5, 0.6, 0.7, 2.5])
    found = share_over_time(part, whole, at_s, np.array([0.0, 1.0, 2.0, 3.0]))
    assert found.tolist() == pytest.approx([0.5, NAN, 1.0], nan_ok=True)


def test_spans_of_a_lane_become_runs_of_columns_that_touch_or_overlap() -> None:
    lane = np.array([0, 0, 1, 1, 1])
    start_s = np.array([0.0, 1.5, 0.2, 3.1, -5.0])
    end_s = np.array([1.2, 2.1, 0.3, 9.0, -1.0])  # one goes on past the end, one is before it
    runs = lane_runs(lane, start_s, end_s, 2, np.linspace(0.0, 4.0, 5))
    assert list(zip(runs.row.tolist(), runs.start.tolist(), runs.length.tolist(), strict=True)) == [
        (0, 0, 3),  # columns 0–1 and 1–2
        (1, 0, 1),
        (1, 3, 1),
    ]

import numpy as np
import pytest
from record_cases import MS, SECOND, dispatch, events_of, recorded, response

from agentx_replay.analysis.latency import (
    end_to_end_ns,
    event_gaps,
    event_weights,
    full_response_itl_ns,
    normalised_interactivity,
    response_itl,
    send_lag_ns,
    token_gaps,
    tokens_of_events,
    ttft_from_connect_ns,
    ttft_from_intended_ns,
    ttft_ns,
    usual_tokens,
)
from agentx_replay.analysis.responses import Floats, Records, Responses
from agentx_replay.replay.ports import Response, Status


def one(came: Response, **sent: int) -> Responses:
    return recorded([(dispatch(**sent), came)]).responses


def tokens_of(records: Records) -> Floats:
    """The tokens of each event, all responses being measured."""
    everyone = np.ones(len(records.responses), bool)
    weights = event_weights(records.responses, usual_tokens(records.responses, everyone))
    return tokens_of_events(events_of(records), weights)


def test_ttft_counts_from_send_from_connect_and_from_intended_start() -> None:
    came = response(
        connect_start_ns=20 * MS,
        connected_ns=25 * MS,
        send_ns=30 * MS,
        arrival_ns=[130 * MS],
    )
    responses = one(came, intended_start_ns=10 * MS)
    assert ttft_ns(responses)[0] == 100 * MS
    assert ttft_from_connect_ns(responses)[0] == 110 * MS
    assert ttft_from_intended_ns(responses)[0] == 120 * MS


def test_what_a_connection_made_ahead_waits_is_neither_ttft_nor_send_lag() -> None:
    came = response(
        connect_start_ns=10 * MS,
        connected_ns=35 * MS,
        send_ns=112 * MS,
        arrival_ns=[212 * MS],
    )
    responses = one(came, intended_start_ns=110 * MS)
    assert ttft_ns(responses)[0] == 100 * MS
    # 25 ms of connecting, then, from the intended start, 2 ms of lag and 100 to the token.
    assert ttft_from_connect_ns(responses)[0] == 127 * MS
    assert send_lag_ns(responses)[0] == 2 * MS


def test_on_an_open_connection_ttft_from_connect_counts_from_send() -> None:
    assert ttft_from_connect_ns(one(response(send_ns=5, arrival_ns=[12])))[0] == 7


def test_a_response_without_a_token_has_no_ttft() -> None:
    assert np.isnan(ttft_ns(one(response()))[0])


ITL_CASES = {
    # name: (arrivals in ms, tokens per event, completion, ITL in ms or None)
    "unknown tokens: an event counts as one": ([100, 120, 140], None, 5, 20.0),
    "many more tokens than events: shared out evenly where no text is known": (
        [100, 120, 140], None, 9, 40 / 6),
    "two events in the first arrival": ([100, 100, 120, 140], None, 4, 20.0),
    "two events in the last arrival": ([100, 120, 140, 140], None, 4, 40 / 3),
    "all events in one arrival": ([100, 100, 100], None, 3, None),
    "told tokens: those of the first event leave the divisor": (
        [100, 120, 140], [3, 1, 1], 5, 20.0),
    "one token has no later one": ([100], None, 1, None),
    "all tokens in the first event leave none later": ([100, 140], [5, 0], 5, None),
    "one event leaves nothing to measure": ([100], None, 5, None),
    "no usage leaves no divisor": ([100, 120], None, None, None),
    "no event": ([], None, 5, None),
}  # fmt: skip


@pytest.mark.parametrize("case", ITL_CASES.values(), ids=ITL_CASES)
def test_response_itl_is_the_mean_gap_within_a_response(
    case: tuple[list[int], list[int] | None, int | None, float | None],
) -> None:
    arrivals, tokens, completion, itl_ms = case
    came = response(
        arrival_ns=[a * MS for a in arrivals], arrival_tokens=tokens, completion_tokens=completion
    )
    itl = response_itl(one(came))
    if itl_ms is None:
        assert np.isnan(itl.itl_ns[0])
    else:
        assert itl.itl_ns[0] == pytest.approx(itl_ms * MS)


def test_full_response_itl_runs_to_the_end_of_the_stream() -> None:
    came = response(arrival_ns=[100 * MS, 120 * MS], completion_tokens=5, end_ns=180 * MS)
    assert full_response_itl_ns(one(came))[0] == 20 * MS  # 80 ms / 4
    single = response(arrival_ns=[100 * MS], completion_tokens=1)
    assert np.isnan(full_response_itl_ns(one(single))[0])


def test_end_to_end_and_its_normalised_interactivity() -> None:
    responses = one(response(send_ns=SECOND, end_ns=5 * SECOND, completion_tokens=100))
    assert end_to_end_ns(responses)[0] == 4 * SECOND
    assert normalised_interactivity(responses)[0] == 25.0


def test_event_gaps_are_raw_and_never_cross_a_response() -> None:
    records = recorded(
        [
            (dispatch(), response(arrival_ns=[10 * MS, 10 * MS, 40 * MS])),
            (dispatch(), response()),
            (dispatch(), response(arrival_ns=[5 * MS, 7 * MS])),
        ]
    )
    gaps = event_gaps(events_of(records))
    assert gaps.gap_ns.tolist() == [0, 30 * MS, 2 * MS]
    assert gaps.at_ns.tolist() == [10 * MS, 40 * MS, 7 * MS]


def test_an_arrivals_gap_is_divided_among_the_tokens_of_all_its_events() -> None:
    # Two events in the second read, with 3 + 1 tokens: 40 ms over 4 tokens, then 30 over 2.
    came = response(
        arrival_ns=[0, 40 * MS, 40 * MS, 70 * MS],
        arrival_tokens=[1, 3, 1, 2],
        completion_tokens=7,
    )
    records = recorded([(dispatch(), came)])
    gaps = token_gaps(events_of(records), tokens_of(records))
    assert gaps.gap_ns.tolist() == [10 * MS, 15 * MS]
    assert gaps.weight.tolist() == [4, 2]
    assert gaps.at_ns.tolist() == [40 * MS, 70 * MS]


def test_an_event_without_tokens_has_no_token_gap() -> None:
    came = response(arrival_ns=[0, 40 * MS], arrival_tokens=[1, 0], completion_tokens=1)
    records = recorded([(dispatch(), came)])
    assert token_gaps(events_of(records), tokens_of(records)).gap_ns.tolist() == []


def test_no_event_at_all_has_no_gap() -> None:
    records = recorded([(dispatch(), response())])
    assert token_gaps(events_of(records), tokens_of(records)).gap_ns.tolist() == []
    assert event_gaps(events_of(records)).gap_ns.tolist() == []


def test_unknown_tokens_are_spread_over_the_events() -> None:
    records = recorded([(dispatch(), response(arrival_ns=[0, 1, 2, 3], completion_tokens=10))])
    assert tokens_of(records).tolist() == [2.5, 2.5, 2.5, 2.5]


def test_a_cut_response_takes_the_usual_tokens_an_event() -> None:
    # The one that ended had 6 tokens in 3 events: 2 an event.
    records = recorded(
        [
            (dispatch(), response(arrival_ns=[0, 1, 2], completion_tokens=6)),
            (
                dispatch(),
                response(status=Status.CUT, arrival_ns=[0, 1], completion_tokens=None),
            ),
        ]
    )
    assert tokens_of(records).tolist() == [2, 2, 2, 2, 2]


def test_without_any_usage_an_event_counts_as_one_token() -> None:
    records = recorded([(dispatch(), response(arrival_ns=[0, 1], completion_tokens=None))])
    assert tokens_of(records).tolist() == [1, 1]


LAG_CASES = {
    # name: (intended, connect_start, connected, send, lag), in ms
    "an open connection": (10, None, None, 13, 3),
    "connecting is left out": (10, 11, 18, 20, 3),
    "connecting ahead of the timer costs nothing": (10, 2, 6, 11, 1),
    "only what connecting took after the timer is left out": (10, 5, 15, 17, 2),
}


@pytest.mark.parametrize("case", LAG_CASES.values(), ids=LAG_CASES)
def test_send_lag_leaves_connecting_out(case: tuple[int, int | None, int | None, int, int]) -> None:
    intended, began, connected, send, lag = case
    came = response(
        connect_start_ns=None if began is None else began * MS,
        connected_ns=None if connected is None else connected * MS,
        send_ns=send * MS,
    )
    assert send_lag_ns(one(came, intended_start_ns=intended * MS))[0] == lag * MS


def test_a_connection_that_failed_has_no_send_lag() -> None:
    assert np.isnan(send_lag_ns(one(response(connect_start_ns=5)))[0])


def test_a_response_that_took_no_time_has_no_speed() -> None:
    assert np.isnan(normalised_interactivity(one(response(end_ns=0)))).tolist() == [True]


def test_a_server_that_held_a_reused_connection_and_closed_it_is_no_lag_of_the_client() -> None:
    # Due at 10 ms, sent at 12; held until 500, connected anew by 503: the client was 2 ms late.
    came = response(
        send_ns=12 * MS, connect_start_ns=500 * MS, connected_ns=503 * MS, arrival_ns=[700 * MS]
    )
    responses = one(came, intended_start_ns=10 * MS)
    assert send_lag_ns(responses)[0] == 2 * MS
    assert ttft_ns(responses)[0] == 688 * MS
    assert ttft_from_connect_ns(responses)[0] == 688 * MS

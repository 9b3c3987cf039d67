from typing import Any

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


def one(came: Response) -> Responses:
    return recorded([(dispatch(), came)]).responses


def tokens_of(records: Records) -> Floats:
    """The tokens of each event, all responses being measured."""
    everyone = np.ones(len(records.responses), bool)
    weights = event_weights(records.responses, usual_tokens(records.responses, everyone))
    return tokens_of_events(events_of(records), weights)


NAN = float("nan")
TIMES = {
    # name: (intended, connect start, connected, send, first token),
    #       (TTFT, from connect, from intended, send lag), all in ms
    "connecting after the timer": ((10, 20, 25, 30, 130), (100, 110, 120, 15)),
    # 25 ms of connecting, then, from the intended start, 2 ms of lag and 100 to the token.
    "a connection made ahead waits": ((110, 10, 35, 112, 212), (100, 127, 102, 2)),
    "an open connection": ((10, None, None, 13, 20), (7, 7, 10, 3)),
    "connecting is no lag": ((10, 11, 18, 20, 50), (30, 39, 40, 3)),
    "connecting ahead of the timer costs nothing": ((10, 2, 6, 11, 50), (39, 44, 40, 1)),
    "what connecting took after the timer is left out": ((10, 5, 15, 17, 50), (33, 45, 40, 2)),
    # Sent at 12 ms, held by the server until 500, connected anew by 503: the client was 2 ms late.
    "a reused connection that the server closed": ((10, 500, 503, 12, 700), (688, 688, 690, 2)),
    "a connection that failed": ((0, 5, None, 0, None), (NAN, NAN, NAN, NAN)),
    "no token": ((10, None, None, 13, None), (NAN, NAN, NAN, 3)),
}


@pytest.mark.parametrize(("stamps_ms", "found_ms"), TIMES.values(), ids=TIMES)
def test_ttft_and_send_lag_tell_connecting_and_waiting_apart(
    stamps_ms: tuple[int | None, ...], found_ms: tuple[float, ...]
) -> None:
    intended, began, connected, send, first = (ms and ms * MS for ms in stamps_ms)
    came = response(
        connect_start_ns=began,
        connected_ns=connected,
        send_ns=send,
        arrival_ns=[] if first is None else [first],
    )
    responses = recorded([(dispatch(intended_start_ns=intended), came)]).responses
    of = (ttft_ns, ttft_from_connect_ns, ttft_from_intended_ns, send_lag_ns)
    assert [each(responses)[0] / MS for each in of] == pytest.approx(found_ms, nan_ok=True)


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


@pytest.mark.parametrize(
    ("came", "gaps_ns"),
    [
        ({"arrival_ns": [0, 40 * MS], "arrival_tokens": [1, 0], "completion_tokens": 1}, [40 * MS]),
        ({}, []),
    ],
)
def test_without_a_later_token_there_is_no_token_gap(
    came: dict[str, Any], gaps_ns: list[int]
) -> None:
    records = recorded([(dispatch(), response(**came))])
    assert token_gaps(events_of(records), tokens_of(records)).gap_ns.tolist() == []
    assert event_gaps(events_of(records)).gap_ns.tolist() == gaps_ns


FOUR_EVENTS = response(arrival_ns=[0, 1, 2, 3], completion_tokens=10)
SIX_TOKENS = response(arrival_ns=[0, 1, 2], completion_tokens=6)
CUT = response(status=Status.CUT, arrival_ns=[0, 1], completion_tokens=None)


@pytest.mark.parametrize(
    ("came", "tokens"),
    [
        ([FOUR_EVENTS], [2.5, 2.5, 2.5, 2.5]),
        # A response that was cut takes the usual tokens an event: here 6 in 3 events.
        ([SIX_TOKENS, CUT], [2, 2, 2, 2, 2]),
        ([CUT], [1, 1]),  # without any usage an event counts as one
    ],
)
def test_unknown_tokens_are_spread_over_the_events(
    came: list[Response], tokens: list[float]
) -> None:
    assert tokens_of(recorded([(dispatch(), each) for each in came])).tolist() == tokens


def test_a_response_that_took_no_time_has_no_speed() -> None:
    assert np.isnan(normalised_interactivity(one(response(end_ns=0)))).tolist() == [True]

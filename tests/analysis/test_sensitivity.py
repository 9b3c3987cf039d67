from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from record_cases import SECOND, dispatch, events_of, recorded, response, summarised

from agentx_replay.analysis.curve import DEFINITIONS, DefinedValue, value_at
from agentx_replay.analysis.facts import Conduct, Rules
from agentx_replay.analysis.metrics import speeds
from agentx_replay.analysis.point import Point, PointFacts, measure_point
from agentx_replay.analysis.responses import Records, Window, in_window_set, measured
from agentx_replay.analysis.throughput import Throughput
from agentx_replay.analysis.tokens import itl_of_events, token_figures
from agentx_replay.replay.ports import Dispatch, Response, Status
from agentx_replay.results.run_directory import PointStatus

WINDOW = Window(0, 100 * SECOND, 100.0)


def came(first_s: float, *later_s: float, end_s: float, **more: object) -> Records:
    pair = (
        dispatch(max_tokens=1 + len(later_s)),
        response(
            arrival_ns=[round(s * SECOND) for s in (first_s, *later_s)],
            end_ns=round(end_s * SECOND),
            **{"completion_tokens": 1 + len(later_s), **more},
        ),
    )
    return recorded([pair])


def speeds_of(of: Records) -> Mapping[str, float | None]:
    ok = of.responses.where(in_window_set(of.responses, WINDOW) & measured(of.responses))
    return speeds(ok, summarised(of, WINDOW), token_figures(of, WINDOW))


def test_a_level_has_one_speed_for_each_meaning_of_latency() -> None:
    # Sent at 0; tokens at 2, 4, 6 and 98, 100.5; ended at 102.
    of = came(2, 4, 6, 98, 100.5, end_s=102)
    found = speeds_of(of)
    assert found["p90"] == pytest.approx(4 / 98.5)  # 98.5 s for 4 later tokens
    assert found["p50"] == found["p99"] == found["p90_by_index"] == found["p90"]
    assert found["full"] == pytest.approx(4 / 100)  # to the end, 100 s
    assert found["with_ttft"] == pytest.approx(5 / 102)  # all 5 from the send on
    assert found["in_window"] == pytest.approx(3 / 96)  # 2 to 98: the last came after 100
    # Gaps 2, 2, 2.5, 92: rank 2.7 between 2.5 and 92.
    assert found["token"] == pytest.approx(1 / (2.5 + 0.7 * 89.5))
    assert found["with_cut"] == found["p90"]
    assert found["within"] == found["token"]  # of one response, a token an event


def test_gaps_within_a_response_are_ranked_there_and_their_p90_among_responses() -> None:
    def of(first: int, *gaps: int) -> tuple[Dispatch, Response]:
        arrivals = [round(x * SECOND) for x in np.cumsum((first, *gaps))]
        return (
            dispatch(max_tokens=len(arrivals)),
            response(arrival_ns=arrivals, completion_tokens=len(arrivals), end_ns=arrivals[-1]),
        )

    # P90 of 1, 2, 3 at rank 1.8 is 2.8; of 4 alone 4; of 6, 5 at rank 0.9 is 5.9. Median 4.
    found = speeds_of(recorded([of(1, 3, 1, 2), of(2, 4), of(0, 6, 5), of(9)]))
    assert found["within"] == pytest.approx(1 / 4)


def test_a_cut_response_counts_only_where_cut_ones_are_asked_for() -> None:
    pairs = [
        (dispatch(lane=k, max_tokens=3), response(
            arrival_ns=[SECOND, 2 * SECOND, 3 * SECOND], completion_tokens=3, end_ns=3 * SECOND))
        for k in range(2)
    ]  # fmt: skip
    cut = response(status=Status.CUT, arrival_ns=[SECOND, 6 * SECOND], end_ns=99 * SECOND,
                   prompt_tokens=None, completion_tokens=None)  # fmt: skip
    of = recorded([*pairs, (dispatch(lane=2), cut)])
    found = speeds_of(of)
    assert found["p90"] == pytest.approx(1.0)
    # 1, 1 and the partial 5 s: rank 1.8, 1 + 0.8 · 4.
    assert found["with_cut"] == pytest.approx(1 / 4.2)


def test_the_simplified_rule_takes_a_value_itself() -> None:
    # 900 gaps of 20 ms and 100 of 200 ms: sorted[900] is the first of 200 ms; interpolated 38 ms.
    pairs = [
        (dispatch(max_tokens=2), response(
            arrival_ns=[0, SECOND // (5 if k >= 900 else 50)], completion_tokens=2))
        for k in range(1000)
    ]  # fmt: skip
    found = speeds_of(recorded(pairs))
    assert found["p90_by_index"] == pytest.approx(5.0)
    assert found["p90"] == pytest.approx(1 / 0.038)


@pytest.mark.parametrize(
    ("kept", "itl_ns"),
    [
        ([True, True, True], [4e9 / 4]),
        ([True, True, False], [1e9 / 2]),
        ([True, False, False], []),
        ([False, False, False], []),
    ],
)
def test_the_itl_of_chosen_events_spreads_tokens_where_they_are_untold(
    kept: list[bool], itl_ns: list[float]
) -> None:
    events = events_of(came(1, 2, 5, end_s=6, completion_tokens=6))
    chosen = events.where(np.array(kept))
    two_an_event = np.full(len(chosen.row), 2.0)
    assert itl_of_events(chosen, two_an_event).tolist() == pytest.approx(itl_ns)


def test_agentx_counts_the_tokens_of_the_first_arrival_but_one_as_later() -> None:
    # Three tokens in the first read, two after it: 4 s / 2 here, 4 s / 4 there.
    found = speeds_of(came(2, 2, 2, 4, 6, end_s=6))
    assert found["p90"] == pytest.approx(1 / 2)
    assert found["agentx"] == pytest.approx(1 / 1)


def test_a_response_without_a_token_has_no_time_a_token() -> None:
    pairs = [
        (dispatch(max_tokens=2), response(arrival_ns=[0, SECOND], completion_tokens=2)),
        (dispatch(max_tokens=0), response(completion_tokens=0)),
    ]
    assert speeds_of(recorded(pairs))["with_ttft"] == pytest.approx(2.0)  # 1 s for 2 tokens


def test_without_any_response_every_speed_is_unknown() -> None:
    found = speeds_of(came(1, 2, end_s=3, status=Status.FAILED))
    assert set(found.values()) == {None}


FACTS = PointFacts(8, None, WINDOW, Rules(scenario="s", comparable=True, window_s=100.0), Conduct())


def level(concurrency: int, speed: float | None, total: float, start: int = 1) -> Point:
    """A valid point that has a number of its own under the headline's definition."""
    facts = replace(FACTS, concurrency=concurrency, start=start)
    arrivals = [99 * SECOND, 100 * SECOND]
    came = response(arrival_ns=arrivals, end_ns=100 * SECOND, completion_tokens=2)
    records = recorded([(dispatch(max_tokens=2), came)])
    point = measure_point(records, None, facts, PointStatus.COMPLETE)
    assert point.summary is not None
    rates = replace(point.summary.rates, headline=Throughput(total, None, 0.0))
    summary = replace(point.summary, rates=rates)
    return replace(point, summary=summary, speeds={"p90": speed})


LEVELS = [level(8, 100.0, 4000.0), level(16, 50.0, 8000.0)]


def test_a_definition_is_read_off_each_start_by_itself() -> None:
    # At 75: half way from 4,000 to 8,000 and from 9,000 to 15,000; √(6,000 · 12,000) = 8,485.3.
    other = [level(8, 100.0, 9000.0, 2), level(16, 50.0, 15_000.0, 2)]
    assert value_at([*LEVELS, *other], DEFINITIONS[0], 75.0).value == pytest.approx(
        8485.3, rel=1e-5
    )


def test_a_definition_is_read_off_its_own_curve_per_gpu() -> None:
    points = [replace(each, facts=replace(each.facts, gpus=4)) for each in LEVELS]
    assert value_at(points, DEFINITIONS[0], 75.0).value == pytest.approx(6000 / 4)


@pytest.mark.parametrize(("target", "side"), [(20.0, "faster"), (120.0, "slower")])
def test_a_target_outside_a_definitions_curve_says_on_which_side(target: float, side: str) -> None:
    found = value_at(LEVELS, DEFINITIONS[0], target)
    assert (found.value, found.side) == (None, side)


def test_a_level_that_lacks_a_number_leaves_no_curve_to_read_from() -> None:
    points = [*LEVELS, level(12, None, 5000.0)]
    found = value_at(points, DEFINITIONS[0], 75.0)
    assert found == DefinedValue(None, "concurrency 12 has no such speed")

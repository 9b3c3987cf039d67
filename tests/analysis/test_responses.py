from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from record_cases import (
    MS,
    SECOND,
    dispatch,
    events_of,
    prompt,
    recorded,
    request_table,
    response,
    summarised,
)

from agentx_replay.analysis import responses as responses_module
from agentx_replay.analysis.facts import Conduct, Rules
from agentx_replay.analysis.point import Point, PointFacts, measure_point
from agentx_replay.analysis.responses import Records, Window, records_of
from agentx_replay.analysis.tokens import latency_series
from agentx_replay.replay.ports import Status
from agentx_replay.results.histograms import write_log
from agentx_replay.results.run_directory import PointStatus

WINDOW = Window(0, 60 * SECOND, 60.0)


def mixed() -> pa.Table:
    """240 responses with what a level may hold: tokens told and not, cut, failed, without any."""
    rows = []
    for number in range(240):
        send_ns, events = number * SECOND // 4, number % 7
        gap_ns = (10 + number % 5) * MS + 1000 * number
        arrival_ns = [send_ns + SECOND + k * gap_ns for k in range(events)]
        status = {3: Status.CUT, 5: Status.FAILED}.get(number % 11, Status.OK)
        usage = {} if status is Status.OK else {"prompt_tokens": None, "completion_tokens": None}
        sent = dispatch(lane=number % 8, prompt=prompt(100, 50), max_tokens=2 * events)
        came = response(
            status=status, send_ns=send_ns, arrival_ns=arrival_ns, end_ns=send_ns + 2 * SECOND,
            arrival_tokens=[2] * events if number % 2 else None,
            **{"completion_tokens": 2 * events, **usage},
        )  # fmt: skip
        rows.append((sent, came))
    return request_table(rows)


def in_parts(table: pa.Table, rows: int) -> Records:
    """The same records, read in tables of so many rows."""

    def groups(names: tuple[str, ...]) -> Iterator[pa.Table]:
        for start in range(0, len(table), rows):
            yield table.slice(start, rows).select(list(names))

    return records_of(groups)


def measured(records: Records) -> Point:
    rules = Rules(scenario="quick", comparable=False, window_s=60.0)
    facts = PointFacts(8, None, WINDOW, rules, Conduct())
    return measure_point(records, None, facts, PointStatus.COMPLETE)


@pytest.mark.parametrize("rows", [1, 7, 100])
def test_a_point_measured_from_many_parts_is_the_point_measured_from_one(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = in_parts(mixed(), 240)
    point = measured(whole)
    write_log(tmp_path / "whole", latency_series(whole, WINDOW), 0.0)
    monkeypatch.setattr(responses_module, "BATCH_EVENTS", 10)
    parts = in_parts(mixed(), rows)
    found = measured(parts)
    assert (found.summary, found.speeds) == (point.summary, point.speeds)
    assert found.profile is not None
    assert point.profile is not None
    assert found.profile.token_itl is not None
    assert point.profile.token_itl is not None
    assert found.profile.token_itl.values_s.tolist() == point.profile.token_itl.values_s.tolist()
    write_log(tmp_path / "parts", latency_series(parts, WINDOW), 0.0)
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_batch_holds_so_many_events_and_its_last_response_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(responses_module, "BATCH_EVENTS", 4)
    records = recorded(
        (dispatch(), response(arrival_ns=[SECOND + k for k in range(events)]))
        for events in (3, 0, 6, 1, 2, 2)
    )
    batches = [events.row.tolist() for events in records.events()]
    assert batches == [[0, 0, 0, 2, 2, 2, 2, 2, 2], [3, 4, 4], [5, 5]]


def test_what_is_held_of_a_response_does_not_grow_with_its_tokens() -> None:
    # 32 numbers of 8 bytes, a yes or no, and texts of 4 bytes a letter: the longest phase, status
    # and category are "cache_pressure", "length_mismatch" and "context_overflow".
    for events in (2, 2000):
        came = response(arrival_ns=[SECOND + k for k in range(events)])
        held = recorded([(dispatch(), came)]).responses
        size_bytes = sum(getattr(held, field.name).nbytes for field in fields(held))
        assert size_bytes <= 32 * 8 + 1 + 4 * (8 + 15 + 16)


def test_events_are_those_on_record() -> None:
    records = recorded(
        [
            (dispatch(), response(arrival_ns=[5 * MS, 8 * MS], arrival_tokens=[1, 3])),
            (dispatch(), response()),
            (dispatch(), response(arrival_ns=[7 * MS])),
        ]
    )
    events = events_of(records)
    assert events.row.tolist() == [0, 0, 2]
    assert events.at_ns.tolist() == [5 * MS, 8 * MS, 7 * MS]
    assert events.tokens.tolist()[:2] == [1, 3]
    assert np.isnan(events.tokens[2])
    assert events.is_first.tolist() == [True, False, True]
    assert records.responses.event_counts.tolist() == [2, 0, 1]
    assert records.responses.first_arrival_tokens.tolist()[0] == 1
    assert np.isnan(records.responses.first_arrival_tokens[1:]).all()


def test_the_events_of_chosen_responses_keep_their_rows() -> None:
    records = recorded((dispatch(), response(arrival_ns=[k, k + 1])) for k in range(3))
    assert events_of(records).of(np.array([False, True, True])).row.tolist() == [1, 1, 2, 2]


def test_a_point_without_a_response_has_no_events() -> None:
    nothing = records_of(lambda names: [])
    assert len(nothing.responses) == 0
    assert list(nothing.events()) == []
    assert summarised(nothing, WINDOW).counts.sent == 0

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from made_runs import write_instrument
from record_cases import SECOND, dispatch, recorded, response
from refusals import refuses

from agentx_replay.analysis.curve import curves_by_start
from agentx_replay.analysis.facts import Conduct, Rules
from agentx_replay.analysis.findings import Kind
from agentx_replay.analysis.point import (
    Point,
    PointFacts,
    facts_document,
    measure_point,
    point_document,
    point_row,
    stored_point,
)
from agentx_replay.analysis.responses import Window
from agentx_replay.analysis.throughput import Rates as Throughputs
from agentx_replay.analysis.workload import Halves
from agentx_replay.replay.ports import Dispatch, Response
from agentx_replay.results.layout import Measurement
from agentx_replay.results.recorder import Recorder
from agentx_replay.results.run_directory import PointStatus, RunDirectory, read_points
from agentx_replay.results.schema import POINTS, REQUESTS

RULES = Rules(scenario="quick", comparable=False, window_s=10.0, overridden=("seed",))
FACTS = PointFacts(2, 4, Window(0, 10 * SECOND, 10.0), RULES, Conduct())

# 100 + 11 tokens in 10 s: 11.1 tokens/s; ITL 9 s / 10 = 0.9 s.
PAIR = (
    dispatch(max_tokens=11),
    response(
        arrival_ns=[SECOND // 2, 19 * SECOND // 2],
        arrival_tokens=[1, 10],
        completion_tokens=11,
        end_ns=10 * SECOND,
    ),
)


def measured(facts: PointFacts = FACTS, pair: tuple[Dispatch, Response] = PAIR) -> Point:
    return measure_point(recorded([pair]), None, facts, PointStatus.COMPLETE)


def store(tmp_path: Path, point: Point, status: PointStatus) -> None:
    run = RunDirectory.create(tmp_path)
    directory = run.start_point(Measurement(2), facts_document(point.facts))
    recorder = Recorder(directory, Measurement(2), origin_ns=0)
    recorder.record(*PAIR)
    recorder.close()
    if status is not PointStatus.RUNNING:
        REQUESTS.compact(directory)
        run.write_point(Measurement(2), status, point_document(point))
    used_s = ((0, 0), (5, 1), (10, 2))
    write_instrument(directory, [(2, 0, t * SECOND, 1000, cpu * SECOND) for t, cpu in used_s])


def test_a_report_gives_the_numbers_the_run_gave(tmp_path: Path) -> None:
    point = measured()
    store(tmp_path, point, PointStatus.COMPLETE)
    (stored,) = read_points(tmp_path)
    again = stored_point(stored)
    assert again.facts == point.facts
    assert again.summary == point.summary
    assert again.findings == point.findings
    assert again.instrument is not None
    assert again.instrument.busiest_cpu_share == pytest.approx(0.2)


def test_a_killed_point_is_read_from_its_parts_and_not_valid(tmp_path: Path) -> None:
    begun = replace(FACTS, window=None)
    store(tmp_path, replace(measured(), facts=begun), PointStatus.RUNNING)
    (stored,) = read_points(tmp_path)
    point = stored_point(stored)
    assert point.summary is not None
    assert point.summary.counts.sent == 1
    assert point.facts.window == Window(0, 10 * SECOND, 10.0)
    assert not point.valid
    assert point.has("not-finished")


def test_a_point_without_facts_is_named(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path).start_point(Measurement(2), {})
    with refuses("facts-missing"):
        stored_point(read_points(tmp_path)[0])


def test_a_point_whose_window_never_opened_has_no_numbers() -> None:
    failed = replace(FACTS, window=None, conduct=Conduct(False, "refused", "warm-up-failed"))
    point = measured(failed)
    assert point.summary is None
    assert point.texts(Kind.INVALID) == ("refused",)
    assert point.has("warm-up-failed")
    row = point_row(point)
    assert row["total_tokens_per_s"] is None
    assert row["requests"] == 0


def test_fields_that_the_server_refuses_are_named_of_each_level() -> None:
    point = measured(replace(FACTS, refusals=("the server refuses ignore_eos",)))
    assert point.has("field-refused")
    assert "the server refuses ignore_eos" in point.texts(Kind.WARNING)


def test_a_row_has_the_columns_of_points_parquet(tmp_path: Path) -> None:
    row = point_row(measured())
    assert sorted(row) == sorted(column.name for column in POINTS.columns)
    assert row["total_tokens_per_s"] == pytest.approx(11.1)
    assert row["total_tokens_per_s_per_gpu"] == pytest.approx(2.775)
    assert row["response_itl_p90_s"] == pytest.approx(0.9)
    assert (row["valid"], row["invalid_reasons"]) == (True, [])
    reasons = row["incomparable_reasons"]
    assert tuple(reasons) == measured().texts(Kind.INCOMPARABLE)
    assert len(reasons) == 3
    RunDirectory.create(tmp_path).write_points([row])
    (read,) = POINTS.read(tmp_path).to_pylist()
    assert read == row


def test_without_a_gpu_count_there_is_no_number_per_gpu() -> None:
    row = point_row(measured(replace(FACTS, gpus=None)))
    assert row["total_tokens_per_s"] == pytest.approx(11.1)
    assert row["total_tokens_per_s_per_gpu"] is None
    assert row["windowed_tokens_per_s_per_gpu"] is None


def test_a_document_of_a_point_is_json() -> None:
    document = orjson.loads(orjson.dumps(point_document(measured())))
    assert document["valid"] is True
    assert [each["code"] for each in document["findings"]] == [
        "scenario-not-comparable", "rules-overridden", "window-short", "few-responses",
    ]  # fmt: skip
    assert document["facts"]["rules"]["scenario"] == "quick"
    assert document["summary"]["counts"]["sent"] == 1


def test_a_curve_is_of_valid_points_per_gpu_where_all_have_a_count() -> None:
    good, invalid = measured(), measured(replace(FACTS, conduct=Conduct(interrupted=True)))
    unmeasured = measured(replace(FACTS, window=None))
    (point,) = curves_by_start([good, invalid, unmeasured])[1]
    assert point.concurrency == 2
    assert point.interactivity == pytest.approx(1 / 0.9)
    assert point.throughput == pytest.approx(11.1 / 4)


def test_a_curve_is_of_the_system_where_a_point_lacks_its_count() -> None:
    points = curves_by_start([measured(), measured(replace(FACTS, concurrency=4, gpus=None))])[1]
    assert [point.throughput for point in points] == [pytest.approx(11.1), pytest.approx(11.1)]


def test_a_valid_point_without_throughput_is_not_on_the_curve() -> None:
    point = measured()
    assert point.summary is not None
    unknown = replace(point.summary, rates=Throughputs("overall", None, None, None, None, None))
    assert point.valid
    assert replace(point, summary=unknown).on_curve is None


@pytest.mark.parametrize(
    ("halves", "settled", "settled_s"),
    [
        (Halves((0.02, 0.02), (400.0, 400.0), 20.0), True, 20.0),
        (Halves((0.02, 0.03), (400.0, 400.0), None), False, None),
        (None, None, None),  # under 30 responses in a half
    ],
)
def test_never_settled_is_told_from_too_few_responses(
    halves: Halves | None, settled: bool | None, settled_s: float | None
) -> None:
    point = measured()
    assert point.summary is not None
    row = point_row(replace(point, summary=replace(point.summary, halves=halves)))
    assert (row["settled"], row["settled_s"]) == (settled, settled_s)


def test_a_profile_tells_tokens_an_event_as_the_server_does_or_from_its_total() -> None:
    total = response(
        arrival_ns=[101 * SECOND, 102 * SECOND], completion_tokens=6, send_ns=100 * SECOND,
        end_ns=103 * SECOND,
    )  # fmt: skip
    told = response(
        arrival_ns=[101 * SECOND, 102 * SECOND], arrival_tokens=[1, 9], send_ns=100 * SECOND,
        end_ns=103 * SECOND,
    )  # fmt: skip
    facts = replace(FACTS, window=Window(100 * SECOND, 110 * SECOND, 10.0))
    for came, expected in (
        (told, 5.0),
        (total, 3.0),
        (response(send_ns=100 * SECOND, end_ns=103 * SECOND), None),
    ):
        profile = measured(facts, (dispatch(), came)).profile
        assert profile is not None
        assert profile.tokens_per_event == expected
        assert (profile.ttft is None) == (expected is None)
        assert profile.end_to_end is not None

"""The sections of a run: what stands in which column, and what is said of which level."""

import re
from dataclasses import replace

import orjson
import pytest
from record_cases import SECOND, dispatch, prompt, recorded, response

from agentx_replay.analysis.client_lag import InstrumentReport
from agentx_replay.analysis.facts import Conduct, Rules
from agentx_replay.analysis.point import Point, PointFacts, measure_point
from agentx_replay.analysis.responses import Window
from agentx_replay.replay.ports import ErrorCategory, Status
from agentx_replay.report.evidence_sections import window_section
from agentx_replay.report.run_sections import points_json, points_section, run_lines
from agentx_replay.results.run_directory import PointStatus

RULES = Rules(scenario="agentx", comparable=True, window_s=3600.0)


def point(
    concurrency: int, *, gpus: int | None = 8, conduct: Conduct | None = None, scale: int = 1
) -> Point:
    """One response a lane over a window of 1,000 s: prompts of 200,000, 101 tokens, ITL 20 ms."""
    pairs = [
        (
            dispatch(lane=lane, recorded_input_tokens=200_000 * scale, max_tokens=101,
                     prompt=prompt(200_000 * scale, 190_000 * scale)),
            response(
                send_ns=990 * SECOND,
                arrival_ns=[991 * SECOND, 992 * SECOND, 993 * SECOND],
                end_ns=994 * SECOND,
                prompt_tokens=200_000 * scale,
                cached_tokens=180_000 * scale,
                arrival_tokens=[1, 50, 50],
                completion_tokens=101,
            ),
        )
        for lane in range(concurrency)
    ]  # fmt: skip
    facts = PointFacts(
        concurrency, gpus, Window(0, 1000 * SECOND, 1000.0), RULES, conduct or Conduct()
    )
    rules = replace(RULES, window_s=1000.0)
    return measure_point(recorded(pairs), None, replace(facts, rules=rules), PointStatus.COMPLETE)


def rows(*points: Point) -> list[dict[str, str]]:
    """The cells of the table of points by their headings."""
    section = points_section(points)
    return [dict(zip(section.heads, row, strict=True)) for row in section.rows]


def ended(*statuses: Status) -> Point:
    """A point with a response of each status."""
    pairs = [(dispatch(), response(status=status)) for status in statuses]
    return measure_point(recorded(pairs), None, point(2).facts, PointStatus.COMPLETE)


def test_every_number_stands_under_its_unit() -> None:
    (row,) = rows(point(2))
    # 2 · 200,101 tokens in 4 s on 8 GPUs; windowed over 1,000 s, which is 99.6 % less: a mark; new
    # 2 · 20,101; output 2 · 101. Two responses are few. ITL: 2 s over 100 later tokens; one gap of
    # 2 s holds 50.5 tokens where the server tells none.
    assert row == {
        "agents": "2", "speed\ntok/s/user": "50.0", "overall\ntok/s/GPU": "12,506",
        "window\ntok/s/GPU": "50.0!", "uncached\ntok/s/GPU": "1,256", "output\ntok/s/GPU": "6.31",
        "hit / max\n%": "90.0 / 95.0", "ok\nreq": "2", "valid": "yes, few",
        "ITL P50\nms": "20.0", "ITL P90\nms": "20.0", "ITL P99\nms": "20.0",
        "token ITL P90\nms": "20.0", "TTFT P50\ns": "1.00", "TTFT P90\ns": "1.00",
        "TTFT P99\ns": "1.00", "e2e P50\ns": "4.00", "e2e P90\ns": "4.00",
    }  # fmt: skip


def test_a_point_of_30_responses_is_not_called_few() -> None:
    assert rows(point(30))[0]["valid"] == "yes"


def test_points_stand_by_rising_concurrency() -> None:
    assert [row["agents"] for row in rows(point(32), point(2), point(8))] == ["2", "8", "32"]


def test_what_did_not_end_well_has_columns_of_its_own_where_it_is_not_nothing() -> None:
    (row,) = rows(ended(Status.OK, Status.FAILED, Status.FAILED, Status.CUT))
    shown = {head: cell for head, cell in row.items() if head.endswith("\nreq")}
    assert shown == {"ok\nreq": "1", "failed\nreq": "2", "cut\nreq": "1"}


def test_without_a_gpu_count_numbers_are_the_systems_and_it_says_so() -> None:
    points = [point(2, gpus=None), point(4)]
    assert rows(*points)[0]["overall\ntok/s"] == "100,050"  # 2 · 200,101 / 4 s
    assert any("(--gpus)" in line for line in run_lines(points))


def test_a_point_without_numbers_is_a_row_of_dashes() -> None:
    facts = replace(point(2).facts, window=None, conduct=Conduct(failure="refused"))
    empty = measure_point(recorded([(dispatch(), response())]), None, facts, PointStatus.FAILED)
    (row,) = rows(empty)
    assert (row.pop("agents"), row.pop("valid")) == ("2", "NO")
    assert set(row.values()) == {"-"}


def test_no_point_is_said() -> None:
    assert points_section([]).lead
    assert not points_section([]).rows


def test_a_token_itl_not_to_be_trusted_is_marked() -> None:
    late = replace(point(2), instrument=InstrumentReport(None, 0.005, None, None))
    assert [row["token ITL P90\nms"] for row in rows(late, point(4))] == ["~20.0", "20.0"]


def test_json_has_the_columns_of_points_parquet_by_rising_concurrency() -> None:
    found = orjson.loads(orjson.dumps(points_json([point(4), point(2)])))
    assert [row["concurrency"] for row in found] == [2, 4]
    assert found[0]["interactivity"] == pytest.approx(50.0)
    codes = {each["code"] for each in found[0]["findings"]}
    assert codes >= {"few-responses", "throughputs-far-apart"}


# --- findings ------------------------------------------------------------------------------------


def overridden(of: Point) -> Point:
    rules = replace(of.facts.rules, overridden=("seed",))
    return replace(of, facts=replace(of.facts, rules=rules))


def test_every_finding_is_said_once_of_all_its_levels() -> None:
    far = "windowed throughput is -99.6% from the overall, over 20%"
    lines = run_lines([point(2), point(4, conduct=Conduct(interrupted=True))])
    assert lines[0] == "4 agents: not valid: interrupted"
    assert [line for line in lines if line.startswith(f"2, 4 agents: {far}")]
    assert len(set(lines)) == len(lines)


def test_what_makes_points_incomparable_is_said_once() -> None:
    lines = run_lines([overridden(point(2)), overridden(point(4))])
    assert "not comparable: rules overridden: seed" in lines


def test_what_makes_one_point_incomparable_is_said_of_that_one() -> None:
    lines = "\n".join(run_lines([point(2), overridden(point(4))]))
    assert re.findall(r"(\d) agents: comparable", lines) == ["2"]
    assert re.findall(r"(\d) agents: not comparable", lines) == ["4"]


def test_points_are_comparable_on_the_condition_of_their_corpus() -> None:
    whole = point(2)
    facts = replace(whole.facts, rules=replace(whole.facts.rules, corpus="c0ffee"))
    assert re.search(
        "comparable with .* agentx .* c0ffee", run_lines([replace(whole, facts=facts)])[-1]
    )


def test_a_point_that_is_not_valid_is_called_comparable_with_nothing() -> None:
    lines = run_lines([point(2, conduct=Conduct(interrupted=True))])
    assert not [line for line in lines if "comparable with" in line]


def test_failures_are_counted_by_kind() -> None:
    pairs = [
        (dispatch(), response(status=Status.FAILED, error_category=ErrorCategory.RESET)),
        (dispatch(), response(status=Status.CUT)),
        (dispatch(), response(retries=1)),
    ]
    failed = measure_point(recorded(pairs), None, point(2).facts, PointStatus.COMPLETE)
    assert failed.has("requests-not-ok")
    assert any("reset 1)" in line for line in run_lines([failed]))


def test_a_difference_of_the_two_throughputs_is_explained() -> None:
    ((name, said),) = window_section([point(2)]).facts
    # Sent 990 s after the opening at 0 s, ended at 994 s of 1,000, and nothing was cut.
    parts = ["drain 0 tokens", "cut 0 tokens", "ramp 990.0 s", "end -6.0 s"]
    assert (name, said) == ("2", f"-99.6%: {', '.join(parts)}")

import re
from dataclasses import replace

import orjson
import pytest
from record_cases import SECOND, dispatch, prompt, recorded, response

from agentx_replay.analysis.facts import Conduct, Rules
from agentx_replay.analysis.instrument import InstrumentReport
from agentx_replay.analysis.point import Point, PointFacts, measure_point
from agentx_replay.analysis.window import Window
from agentx_replay.replay.ports import ErrorCategory, Status
from agentx_replay.report.points_table import DEFINITIONS, points_json, points_table
from agentx_replay.results.run_directory import PointStatus
from agentx_replay.wording import wrapped

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
                arrival_ns=[991 * SECOND, 993 * SECOND],
                end_ns=994 * SECOND,
                prompt_tokens=200_000 * scale,
                cached_tokens=180_000 * scale,
                arrival_tokens=[1, 100],
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


def tables(points: list[Point]) -> list[list[str]]:
    """The lines of the two tables and of what follows."""
    return [block.splitlines() for block in points_table(points).split("\n\n")]


def test_throughput_stands_under_its_units() -> None:
    heading, units, _, row = tables([point(2)])[0]
    assert heading.split() == [
        "conc", "speed", "overall", "window", "uncached", "output", "hit", "ok", "bad", "valid",
    ]  # fmt: skip
    assert units.split() == [
        "lanes", "tok/s/user", "tok/s/GPU", "tok/s/GPU", "tok/s/GPU", "tok/s/GPU", "%/max", "%",
        "req", "req",
    ]  # fmt: skip
    # 2 · 200,101 tokens in 4 s on 8 GPUs; windowed over 1,000 s, which is 99.6 % less: a mark; new
    # 2 · 20,101; output 2 · 101. Two responses are few.
    assert row.split() == [
        "2", "50.0", "12,506", "50.0!", "1,256", "6.31", "90.0/95.0", "2", "0", "yes,", "few",
    ]  # fmt: skip


def test_a_point_of_30_responses_is_not_called_few() -> None:
    assert tables([point(30)])[0][3].split()[-2:] == ["0", "yes"]


def test_every_finding_of_a_point_is_said_of_it_and_in_json() -> None:
    table = points_table([point(2)])
    findings = points_json([point(2)])[0]["findings"]
    assert [each["code"] for each in findings] == ["few-responses", "throughputs-far-apart"]
    for each in findings:
        assert f"concurrency 2: WARNING: {each['text']}" in table


def test_latency_stands_under_its_units() -> None:
    heading, units, _, row = tables([point(2)])[1]
    assert re.findall(r"(\w+) P(\d\d)", heading) == [
        ("ITL", "50"), ("ITL", "90"), ("ITL", "99"), ("ITL", "90"), ("TTFT", "50"),
        ("TTFT", "90"), ("TTFT", "99"), ("e2e", "50"), ("e2e", "90"),
    ]  # fmt: skip
    assert units.split() == ["lanes", *["ms"] * 4, *["s"] * 5]
    # 2 s over 100 later tokens; one gap of 2 s holds 50.5 tokens where the server tells none.
    assert row.split() == ["2", *["20.0"] * 3, "20.0", *["1.00"] * 3, *["4.00"] * 2]


def test_points_stand_by_rising_concurrency() -> None:
    for lines in tables([point(32), point(2), point(8)])[:2]:
        assert [line.split()[0] for line in lines[3:]] == ["2", "8", "32"]


def test_every_line_fits_100_columns_even_with_large_numbers() -> None:
    big = point(512, gpus=None, scale=4)
    ruined = point(2048, conduct=Conduct(True, "warm-up failed: " + "a long story " * 20))
    slow = point(4096, gpus=1, scale=4)
    for points in ([big, ruined], [slow]):
        assert max(len(line) for line in points_table(points).splitlines()) <= 100


def test_without_a_gpu_count_numbers_are_the_systems_and_it_says_so() -> None:
    table = points_table([point(2, gpus=None), point(4)])
    assert "tok/s/GPU" not in table
    assert "100,050" in table  # 2 · 200,101 / 4 s
    assert "(--gpus)" in table


def test_reasons_against_a_point_follow_the_table() -> None:
    table = points_table([point(2, conduct=Conduct(interrupted=True))])
    assert " NO, few\n" in table
    assert "concurrency 2 is not " in table


def overridden(of: Point) -> Point:
    rules = replace(of.facts.rules, overridden=("seed",))
    return replace(of, facts=replace(of.facts, rules=rules))


def test_what_makes_points_incomparable_is_said_once() -> None:
    table = points_table([overridden(point(2)), overridden(point(4))])
    assert table.count("rules overridden: seed") == 1


def test_what_makes_one_point_incomparable_is_said_of_that_one() -> None:
    table = points_table([point(2), overridden(point(4))])
    assert re.findall(r"concurrency (\d): comparable", table) == ["2"]
    assert re.findall(r"concurrency (\d) is not comparable", table) == ["4"]


def test_points_are_comparable_on_the_condition_of_their_corpus() -> None:
    whole = point(2)
    facts = replace(whole.facts, rules=replace(whole.facts.rules, corpus="c0ffee"))
    table = points_table([replace(whole, facts=facts)])
    assert re.search("comparable with .* agentx .* c0ffee", table)


def test_a_point_that_is_not_valid_is_called_comparable_with_nothing() -> None:
    assert "comparable with" not in points_table([point(2, conduct=Conduct(interrupted=True))])


def test_failures_are_counted_by_kind() -> None:
    whole = point(2)
    assert whole.facts.window is not None
    failed = measure_point(
        recorded(
            [
                (dispatch(), response(status=Status.FAILED, error_category=ErrorCategory.RESET)),
                (dispatch(), response(status=Status.CUT)),
                (dispatch(), response(retries=1)),
            ]
        ),
        None,
        whole.facts,
        PointStatus.COMPLETE,
    )
    assert failed.has("requests-not-ok")
    assert "reset 1)" in points_table([failed])


def test_a_difference_of_the_two_throughputs_is_explained() -> None:
    table = points_table([point(2)])
    said = table.partition("throughput in the window, by")[2].splitlines()[2]
    # Sent 990 s after the opening at 0 s, ended at 994 s of 1,000, and nothing was cut.
    parts = ["drain 0 tokens", "cut 0 tokens", "ramp 990.0 s", "end -6.0 s"]
    assert said == f"  2: -99.6%: {', '.join(parts)}"


def test_a_token_itl_not_to_be_trusted_is_said() -> None:
    points = [replace(point(2), instrument=InstrumentReport(None, 0.005, None, None)), point(4)]
    assert [each.has("token-itl-untrusted") for each in points] == [True, False]
    # 2 s over 100 later tokens in one gap of 50.5; of more lanes the same.
    assert [line.split()[4] for line in tables(points)[1][3:]] == ["~20.0", "20.0"]


def test_a_point_without_numbers_is_a_row_of_dashes() -> None:
    whole = point(2)
    facts = replace(whole.facts, window=None, conduct=Conduct(failure="warm-up failed: refused"))
    empty = measure_point(recorded([(dispatch(), response())]), None, facts, PointStatus.FAILED)
    throughput, latency, *_ = tables([empty])
    assert throughput[3].split() == ["2", *["-"] * 8, "NO"]
    assert latency[3].split() == ["2", *["-"] * 9]


REPORT = InstrumentReport(0.0012, 0.0005, 0.011, 0.234)


def test_the_clients_own_error_has_a_line_a_level() -> None:
    points = [replace(point(level), instrument=REPORT) for level in (2, 16)]
    lines = points_table(points).splitlines()
    shown = re.compile(
        r" +(\d+): (\w+) timestamps, .* ([\d.]+) ms, .* ([\d.]+) ms, (\d+)%.* ([\d.]+)%"
    )
    assert [found.groups() for line in lines if (found := shown.fullmatch(line))] == [
        ("2", "process", "1.2", "0.5", "23", "1.1"),
        ("16", "process", "1.2", "0.5", "23", "1.1"),
    ]


def test_the_answer_comes_before_what_to_mind_and_what_was_kept() -> None:
    late = replace(REPORT, loop_lag_p99_s=0.005)
    points = [
        replace(point(2), instrument=late),
        point(4, conduct=Conduct(interrupted=True)),
    ]
    table = points_table(points, missing=["level 8 is missing"], curve=["at 50"], closing=["so"])
    parts = (
        "tok/s/user", "ITL P50", "concurrency 4 is not valid: interrupted", "level 8 is missing",
        "at 50", "do not trust its token ITL", "the client's own error",
        "throughput in the window, by", "ITL: the mean gap",
    )  # fmt: skip
    places = [table.index(part) for part in parts]
    assert places == sorted(places)
    assert table.endswith("so")


def test_the_definitions_close_the_table() -> None:
    assert points_table([point(2)]).endswith("\n".join(wrapped(DEFINITIONS)))


def test_no_point_is_said() -> None:
    assert len(points_table([]).splitlines()) == 1


def test_json_has_the_columns_of_points_parquet_by_rising_concurrency() -> None:
    rows = orjson.loads(orjson.dumps(points_json([point(4), point(2)])))
    assert [row["concurrency"] for row in rows] == [2, 4]
    assert rows[0]["interactivity"] == pytest.approx(50.0)

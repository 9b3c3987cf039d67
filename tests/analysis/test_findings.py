"""Every rule of ``analysis/findings.py`` once: at its threshold, beyond it, and by its code."""

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fidelity_cases import KEPT, OF
from raised_codes import codes_of
from record_cases import SECOND, dispatch, prompt, recorded, response, summarised

from agentx_replay.analysis import findings
from agentx_replay.analysis.client_lag import InstrumentReport
from agentx_replay.analysis.facts import Conduct, Rules
from agentx_replay.analysis.fidelity import Conformity, Excess, without_prefixes
from agentx_replay.analysis.findings import Finding, Kind
from agentx_replay.analysis.metrics import Counts, PointSummary, PromptLengths
from agentx_replay.analysis.point import (
    Point,
    PointFacts,
    client_alone_failed,
    measure_point,
    point_findings,
    run_findings,
)
from agentx_replay.analysis.responses import Window
from agentx_replay.analysis.server import CacheAgreement
from agentx_replay.analysis.throughput import Difference, Headline
from agentx_replay.results.layout import Measurement
from agentx_replay.results.run_directory import PointStatus

METRICS_PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
COMPLETE, RUNNING = PointStatus.COMPLETE, PointStatus.RUNNING


def codes(found: Iterable[Finding]) -> list[str]:
    return [finding.code for finding in found]


def test_every_code_is_of_one_rule_and_in_the_documentation() -> None:
    """Codes are the literals of small letters and hyphens in the module."""
    source = ast.walk(ast.parse(inspect.getsource(findings)))
    texts = [str(node.value) for node in source if isinstance(node, ast.Constant)]
    written = [text for text in texts if re.fullmatch(r"[a-z]+(-[a-z]+)+", text)]
    assert [code for code, times in Counter(written).items() if times > 1] == []
    told = re.findall(
        r"^\| `([a-z-]+)` \| (?:invalid|incomp|warn|broken)", METRICS_PAGE.read_text(), re.MULTILINE
    )
    assert sorted(told) == sorted({*written, *codes_of("Reason")})


# --- is the measurement sound --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "conduct", "opened", "expected"),
    [
        (COMPLETE, Conduct(), True, []),
        (COMPLETE, Conduct(), False, ["window-never-opened"]),
        (PointStatus.FAILED, Conduct(False, "1", "worker-hung"), False, ["worker-hung"]),
        (PointStatus.FAILED, Conduct(failure="of an older version"), False, ["run-failed"]),
        (PointStatus.INTERRUPTED, Conduct(interrupted=True), True, ["run-interrupted"]),
        (PointStatus.INTERRUPTED, Conduct(interrupted=True), False, ["run-interrupted"]),
        (COMPLETE, Conduct(True, "stopped"), True, ["run-interrupted", "run-failed"]),
        (RUNNING, Conduct(), True, ["not-finished"]),
        (RUNNING, Conduct(), False, ["not-finished"]),
    ],
)
def test_a_run_that_did_not_come_to_its_end_is_not_valid(
    status: PointStatus, conduct: Conduct, opened: bool, expected: list[str]
) -> None:
    found = list(findings.course(status, conduct, opened=opened))
    assert codes(found) == expected
    assert {finding.kind for finding in found} <= {Kind.INVALID}


FINE = Counts(1000, 1000, 0, 0, 0, 0, 0, 0, ())
OUTCOMES = {
    "nothing against it": (FINE, []),
    "all of it at its limit of 1 %": (
        replace(FINE, failed=10, overflow=10, cut=10, length_mismatch=10),
        [],
    ),
    "over 1 % failed": (replace(FINE, failed=11), ["requests-failed"]),
    "over 1 % overflowed": (replace(FINE, overflow=11), ["requests-overflowed"]),
    "over 1 % cut": (replace(FINE, cut=11), ["requests-cut"]),
    "over 1 % of another length": (replace(FINE, length_mismatch=11), ["lengths-not-as-asked"]),
    "several": (replace(FINE, failed=500, cut=50), ["requests-failed", "requests-cut"]),
    "a response without usage": (replace(FINE, without_usage=1), ["no-usage"]),
    "nothing sent": (replace(FINE, sent=0, ok=0), ["nothing-sent"]),
    "nothing succeeded": (replace(FINE, ok=0), ["nothing-succeeded"]),
}


@pytest.mark.parametrize(("counts", "expected"), OUTCOMES.values(), ids=OUTCOMES)
def test_a_point_is_judged_by_how_its_requests_ended(counts: Counts, expected: list[str]) -> None:
    assert codes(findings.outcomes(counts)) == expected


def test_a_longer_grace_helps_what_was_cut() -> None:
    failed, cut = findings.outcomes(replace(FINE, failed=11, cut=11))
    assert "--override grace_s=" not in failed.remedy
    assert "--override grace_s=" in cut.remedy


@pytest.mark.parametrize("status", ["failed", "overflow"])
def test_a_servers_first_words_are_quoted_in_bounds(status: str) -> None:
    said = replace(FINE, **{status: 11}, first_errors=((status, "no GPU " * 40),))  # type: ignore[arg-type]
    for (found,) in (findings.outcomes(said), findings.failures(said)):
        assert f"({('no GPU ' * 40)[:199]}…)" in found.text


EXACT = PromptLengths(1000, 100.0, 1.0, 0, 0.0)


@cache
def _usual() -> PointSummary:
    records = recorded([(dispatch(), response(arrival_ns=[1, 2]))])
    return summarised(records, Window(0, SECOND, 1.0))


def summary(**changes: object) -> PointSummary:
    """A summary that nothing can be said against in a window of 1,000 s."""
    fine = {"counts": FINE, "prompt_lengths": EXACT, "last_ttft_s": 950.0, "last_itl_s": 950.0}
    return replace(_usual(), **{**fine, **changes})  # type: ignore[arg-type]


def seen(last_ttft_s: float | None, last_itl_s: float | None) -> PointSummary:
    return summary(last_ttft_s=last_ttft_s, last_itl_s=last_itl_s)


def lengths_off(aggregate_error: float) -> PointSummary:
    return summary(prompt_lengths=replace(EXACT, aggregate_error=aggregate_error))


OBSERVATIONS = {
    "prompts off by 0.5 %": (lengths_off(-0.005), 1000.0, []),
    "prompts off by more": (lengths_off(-0.0051), 1000.0, ["prompt-lengths-off"]),
    "prompt lengths not told": (summary(prompt_lengths=None), 1000.0, []),
    "both seen at 95 % of the window": (seen(950.0, 950.0), 1000.0, []),
    "a last TTFT before 95 %": (seen(949.9, 1000.0), 1000.0, ["observed-too-short"]),
    "a last ITL before 95 %": (seen(1000.0, 949.9), 1000.0, ["observed-too-short"]),
    "no TTFT": (seen(None, 1000.0), 1000.0, ["no-itl"]),
    "no ITL": (seen(1000.0, None), 1000.0, ["no-itl"]),
    # One response may span the rest of a window under 900 s: its first token is then early.
    "either in a short window": (seen(5.0, 19.0), 20.0, []),
    "neither in a short window": (seen(5.0, 18.9), 20.0, ["observed-too-short"]),
    "nothing measured": (summary(counts=replace(FINE, ok=0)), 2000.0, []),
}


@pytest.mark.parametrize(("of", "window_s", "expected"), OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_a_point_is_judged_by_what_was_seen_of_its_window(
    of: PointSummary, window_s: float, expected: list[str]
) -> None:
    assert codes(findings.observation(of, window_s)) == expected


@pytest.mark.parametrize(
    ("itl_shift", "send_lag_s", "cpu_share", "expected"),
    [
        (0.025, 0.050, 0.85, []),
        (None, None, None, []),
        (0.0251, None, None, ["client-stamps-late"]),
        (None, 0.051, None, ["client-sends-late"]),
        (None, None, 0.86, ["client-cpu"]),
        (0.1, 0.1, 0.9, ["client-stamps-late", "client-sends-late", "client-cpu"]),
    ],
)
def test_a_client_is_saturated_beyond_its_limits(
    itl_shift: float | None,
    send_lag_s: float | None,
    cpu_share: float | None,
    expected: list[str],
) -> None:
    report = InstrumentReport(send_lag_s, None, itl_shift, cpu_share)
    assert codes(findings.saturation(report)) == expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"ttft_shift": 0.025, "stalled_share": 0.01}, []),
        ({"ttft_shift": 0.0251}, ["client-ttft-late"]),
        ({"stalled_share": 0.0101}, ["client-stalled"]),
        ({"timestamps": "kernel", "ttft_shift": 0.0251}, ["client-ttft-late"]),
        ({"timestamps": "kernel", "itl_shift": 0.0251}, ["client-stamps-late"]),
    ],
)
def test_timestamps_that_could_be_late_by_too_much_are_the_clients(
    more: dict[str, Any], expected: list[str]
) -> None:
    report = replace(InstrumentReport(None, None, None, None), **more)
    assert codes(findings.saturation(report)) == expected


def test_every_reason_that_blames_the_client_is_worded_with_the_same_remedy() -> None:
    slow = InstrumentReport(1.0, None, 1.0, 1.0, ttft_shift=1.0, stalled_share=1.0)
    hung = Conduct(failure="worker 0 hung", failure_code="worker-hung")
    found = [*findings.saturation(slow), *findings.course(COMPLETE, hung, opened=True)]
    assert len(found) == 6
    assert {finding.blame for finding in found} == {"client"}
    for level, more in ((2, False), (64, False), (65, True)):
        (remedy,) = {findings.at_level(each, level).remedy for each in found}
        assert ("--workers" in remedy) == more


@pytest.mark.parametrize(
    ("codes_of_points", "alone"),
    [
        ([["client-cpu"], []], True),
        ([["client-cpu", "responses-read-late"]], True),
        ([["client-cpu"], ["requests-failed"]], False),
        ([["client-cpu", "not-finished"]], False),
        ([[], []], False),
    ],
)
def test_the_client_alone_failed_if_nothing_else_is_blamed(
    codes_of_points: list[list[str]], alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    blames = {"requests-failed": "server", "not-finished": "run"}
    of = [
        [Finding(c, "", Kind.INVALID, blame=blames.get(c, "client")) for c in each]  # type: ignore[arg-type]
        for each in codes_of_points
    ]
    points = [point(30) for _ in of]
    found = dict(zip(map(id, points), of, strict=True))
    monkeypatch.setattr(Point, "findings", property(lambda self: found[id(self)]))
    assert client_alone_failed(points) is alone


# --- may it stand beside other results of its scenario --------------------------------------------

AGENTX = Rules(scenario="agentx", comparable=True, window_s=3600.0)
RULES = {
    "the scenario as it is": (AGENTX, []),
    "a window of 900 s": (replace(AGENTX, window_s=900.0), []),
    "a shorter window": (replace(AGENTX, window_s=899.0), ["window-short"]),
    "a quick look": (replace(AGENTX, comparable=False), ["scenario-not-comparable"]),
    "a rule overridden": (replace(AGENTX, overridden=("seed",)), ["rules-overridden"]),
    "sessions left out": (replace(AGENTX, sessions_left_out=3), ["sessions-left-out"]),
    "requests left out": (replace(AGENTX, requests_left_out=4), ["requests-left-out"]),
    "another corpus": (replace(AGENTX, other_corpus="mine"), ["other-corpus"]),
    "live history": (replace(AGENTX, live_history=True), ["live-history"]),
    "tool messages": (replace(AGENTX, tool_messages=True), ["tool-messages"]),
    "virtual time": (replace(AGENTX, no_server="virtual time"), ["no-server"]),
    "fewer sessions": (replace(AGENTX, sessions=26, max_sessions=393), ["sessions-lacking"]),
    "as many sessions": (replace(AGENTX, sessions=393, max_sessions=393), []),
    "all sessions": (replace(AGENTX, sessions=1), []),
    "speculation": (replace(AGENTX, speculative_decoding="3 drafts"), ["speculative-decoding"]),
}


@pytest.mark.parametrize(("rules", "expected"), RULES.values(), ids=RULES)
def test_a_point_is_comparable_if_it_kept_the_rules(rules: Rules, expected: list[str]) -> None:
    found = list(findings.comparability(rules, FINE))
    assert codes(found) == expected
    assert {finding.kind for finding in found} <= {Kind.INCOMPARABLE}


@pytest.mark.parametrize("nothing", [None, replace(FINE, ok=0, failed=1000)])
def test_where_nothing_was_measured_nothing_is_comparable(nothing: Counts | None) -> None:
    assert codes(findings.comparability(AGENTX, nothing)) == ["nothing-measured"]


# --- what to mind of a number that is valid -------------------------------------------------------

FACTS = PointFacts(
    1, None, Window(0, 10 * SECOND, 10.0), Rules("agentx", True, 10.0), Conduct()
)  # fmt: skip


@cache
def _measured(responses: int) -> Point:
    pair = (
        dispatch(max_tokens=2),
        response(arrival_ns=[0, 10 * SECOND - 1], completion_tokens=2, end_ns=10 * SECOND),
    )
    return measure_point(recorded([pair] * responses), None, FACTS, COMPLETE)


def point(responses: int, relative: float = 0.0, headline: Headline = "overall") -> Point:
    """So many responses of two tokens, the windowed throughput so far from the overall."""
    found = _measured(responses)
    assert found.summary is not None
    difference = Difference(relative, 0.0, 0.0, 0.0, 0.0)
    rates = replace(found.summary.rates, headline_is=headline, difference=difference)
    return replace(found, summary=replace(found.summary, rates=rates))


@pytest.mark.parametrize(
    ("relative", "said"),
    [(-0.201, "-20.1% from the overall, over 20%"), (4.32, "5.3x the overall, over 20%")],
)
def test_a_throughput_over_twice_another_is_said_as_a_multiple(relative: float, said: str) -> None:
    (text,) = point(30, relative).texts(Kind.WARNING)
    assert text.startswith(f"windowed throughput is {said} (")


def warnings(of: Point) -> list[str]:
    return codes(finding for finding in of.findings if finding.kind is Kind.WARNING)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (point(30), []),
        (point(29), ["few-responses"]),
        (point(1), ["few-responses"]),
        (point(30, 0.2), []),
        (point(30, 1.45), ["throughputs-far-apart"]),
        (point(30, -0.201), ["throughputs-far-apart"]),
        (point(30, 0.5, "windowed"), []),
        (point(30, 0.501, "windowed"), ["throughputs-far-apart"]),
        (point(30, -0.501, "windowed"), ["throughputs-far-apart"]),
    ],
)
def test_few_responses_and_throughputs_far_apart_are_warnings_and_leave_a_point_valid(
    of: Point, expected: list[str]
) -> None:
    assert warnings(of) == expected
    assert of.valid


@pytest.mark.parametrize(
    ("agreement", "expected"),
    [
        (CacheAgreement(0.80, 0.805, 0.805, 0.805, 0.01), []),
        (CacheAgreement(0.80, 0.90, 0.80, 0.90, 0.01), []),
        (CacheAgreement(0.80, 0.90, 0.82, 0.90, 0.01), ["cache-hits-disagree"]),
        (CacheAgreement(0.80, 0.80, 0.80, 0.80, 0.05), []),
        (CacheAgreement(0.80, 0.80, 0.80, 0.80, 0.30), ["server-shared"]),
        (CacheAgreement(0.80, 0.80, 0.80, 0.80, -0.50), ["engines-not-scraped"]),
    ],
)
def test_a_server_whose_counters_do_not_fit_the_responses_is_a_warning(
    agreement: CacheAgreement, expected: list[str]
) -> None:
    assert warnings(replace(point(30), agreement=agreement)) == expected


@pytest.mark.parametrize(
    ("live", "fed", "due", "expected"),
    [
        (True, 40, 40, []),
        (True, 20, 40, []),
        (True, 19, 40, ["few-answers-fed-back"]),
        (True, 0, 1, ["few-answers-fed-back"]),
        (True, 0, 0, ["no-answer-due"]),
        (False, 0, 0, []),
    ],
)
def test_live_history_that_fed_back_no_answer_or_under_half_of_them_is_a_warning(
    live: bool, fed: int, due: int, expected: list[str]
) -> None:
    told = replace(KEPT, answers_fed_back=fed, answers_due=due)
    of = replace(prompts_of(6_400, 3_200, 3_200, live=live), fidelity=told)
    assert warnings(of) == expected


@cache
def prompts_of(tokens: int, reusable: int, cached: int | None, *, live: bool = False) -> Point:
    """Thirty responses to prompts of so many tokens, of which so many had been sent before."""
    pair = (
        dispatch(
            max_tokens=2, prompt=prompt(tokens, reusable), recorded_input_tokens=tokens
        ),
        response(
            arrival_ns=[0, 10 * SECOND - 1], completion_tokens=2, end_ns=10 * SECOND,
            prompt_tokens=tokens, cached_tokens=cached,
        ),
    )  # fmt: skip
    facts = replace(FACTS, rules=replace(FACTS.rules, live_history=live))
    return measure_point(recorded([pair] * 30), None, facts, COMPLETE)


CACHED_BEFORE = ["prompts-cached-before"]


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (prompts_of(6_400, 3_200, None), []),
        (prompts_of(6_400, 3_200, 0), []),
        (prompts_of(6_400, 3_200, 3_200), []),
        # Of 6,400 tokens a hundredth are 64, and a template may repeat 64 more: 3,200 + 128.
        (prompts_of(6_400, 3_200, 3_327), []),
        (prompts_of(6_400, 3_200, 3_392), CACHED_BEFORE),
        # Short prompts may be mostly what a template repeats.
        (prompts_of(100, 0, 64), []),
        (prompts_of(100, 0, 66), CACHED_BEFORE),
        # Answers that are fed back are sent too, and their length is their own.
        (prompts_of(6_400, 3_200, 6_400, live=True), []),
    ],
)
def test_a_level_whose_cache_held_more_than_was_sent_is_not_valid(
    of: Point, expected: list[str]
) -> None:
    assert codes(each for each in of.findings if each.kind is Kind.INVALID) == expected


def test_cache_counts_above_the_prompt_are_a_warning() -> None:
    assert codes(findings.cache_counts(FINE)) == []
    found = findings.cache_counts(replace(FINE, cached_above_prompt=1))
    assert codes(found) == ["cache-counts-impossible"]


def test_what_did_not_end_well_is_counted_by_kind() -> None:
    assert codes(findings.failures(FINE)) == []
    bad = replace(FINE, sent=3, ok=1, failed=1, cut=1, retries=1, categories=(("reset", 1),))
    (found,) = findings.failures(bad)
    assert found.code == "requests-not-ok"
    assert re.findall(r"\d+", found.text) == ["3", "1", "1", "1", "1"]
    assert "reset" in found.text


@pytest.mark.parametrize(
    ("loop_lag_s", "trusted"), [(1.0, True), (1.01, False), (None, True), (0.0, True)]
)
def test_token_itl_is_trusted_up_to_a_lag_of_a_tenth_of_the_itl(
    loop_lag_s: float | None, trusted: bool
) -> None:
    # The ITL of two tokens in 10 s, less a nanosecond.
    report = InstrumentReport(None, loop_lag_s and loop_lag_s - 1e-6, None, None)
    of = replace(point(30), instrument=report)
    assert warnings(of) == ([] if trusted else ["token-itl-untrusted"])


@pytest.mark.parametrize(("share", "trusted"), [(0.01, True), (0.0101, False), (None, True)])
def test_token_itl_is_trusted_where_the_kernel_stamped_99_of_100_events(
    share: float | None, trusted: bool
) -> None:
    report = InstrumentReport(None, 5.0, None, None, late_event_share=share, timestamps="kernel")
    of = replace(point(30), instrument=report)
    assert warnings(of) == ([] if trusted else ["token-itl-untrusted"])


@pytest.mark.parametrize("status", [PointStatus.INTERRUPTED, PointStatus.RUNNING])
def test_a_point_that_was_not_played_to_its_end_has_no_warning_that_follows_from_it(
    status: PointStatus,
) -> None:
    shared = CacheAgreement(0.8, 0.8, 0.8, 0.8, 0.4)
    of = replace(point(2, -0.386), agreement=shared)
    assert warnings(of) == ["few-responses", "throughputs-far-apart", "server-shared"]
    assert warnings(replace(of, status=status)) == []


def test_where_nothing_was_measured_there_is_no_warning() -> None:
    facts = replace(FACTS, window=None)
    empty = measure_point(recorded([(dispatch(), response())]), None, facts, PointStatus.FAILED)
    assert warnings(empty) == []


# --- curves ---------------------------------------------------------------------------------------


def level(
    concurrency: int, mean_prompt: float, *, count: int = 100, start: int = 1, valid: bool = True
) -> Point:
    """A point of 30 responses whose prompts had such a mean over so many responses."""
    of = point(30)
    assert of.summary is not None
    facts = replace(
        FACTS, concurrency=concurrency, start=start, conduct=Conduct(interrupted=not valid)
    )
    lengths = PromptLengths(count, mean_prompt, 1.0, 0, 0.0)
    return replace(of, facts=facts, summary=replace(of.summary, prompt_lengths=lengths))


@pytest.mark.parametrize(
    ("levels", "apart", "means"),
    [
        # 6,592 / 1,818 is over 1.5, 8,174 / 6,592 is not: the pair apart is named.
        ([level(16, 8174.0), level(2, 1818.0), level(8, 6592.0)], (2, 8), ["1,818", "6,592"]),
        ([level(2, 301.0), level(4, 200.0)], (2, 4), ["301", "200"]),
        ([level(2, 300.0), level(4, 200.0)], (), []),
        ([level(2, 100.0), level(4, 140.0), level(8, 190.0)], (), []),
        # Of a level that is not valid nothing is on the curve; those beside it are neighbours.
        (
            [level(2, 100.0), level(4, 140.0, valid=False), level(8, 190.0)],
            (2, 8),
            ["100", "190"],
        ),
        # Starts are one level: (100 * 100 + 300 * 260) / 400 = 220.
        (
            [level(2, 140.0), level(4, 100.0), level(4, 260.0, count=300, start=2)],
            (2, 4),
            ["140", "220"],
        ),
        ([level(2, 0.0), level(4, 0.0)], (), []),
        ([level(2, 100.0)], (), []),
        ([], (), []),
    ],
)
def test_a_curve_whose_neighbouring_levels_had_prompts_of_unlike_length_has_one_warning(
    levels: list[Point], apart: tuple[int, ...], means: list[str]
) -> None:
    found = [each for each in run_findings(levels) if each.code == "levels-unlike"]
    assert [each.levels for each in found] == ([tuple(map(Measurement, apart))] if apart else [])
    for each in found:
        assert re.findall(r"([\d,]+) tokens", each.text) == means


@pytest.mark.parametrize(
    ("speeds", "turns"),
    [
        ({1: 60.0, 2: 25.0, 3: 29.0}, (2, 3)),
        ({1: 100.0, 2: 105.0, 4: 90.0}, ()),  # 5 % faster is no turn, 6 % is
        ({1: 100.0, 2: 106.0, 4: 90.0}, (1, 2)),
        ({1: 60.0, 2: 20.0, 4: 20.9, 8: 21.8}, (2, 8)),  # by steps of 4.5 %
        ({4: 30.0, 1: 40.0}, ()),
        ({8: 30.0}, ()),
        ({}, ()),
    ],
)
def test_a_curve_on_which_more_agents_are_faster_names_the_levels(
    speeds: dict[int, float], turns: tuple[int, ...]
) -> None:
    found = list(findings.turns_back(speeds))
    assert [each.levels for each in found] == ([tuple(map(Measurement, turns))] if turns else [])
    assert codes(found) == ["curve-turns-back"] * bool(turns)


def test_a_point_whose_server_tells_no_prompt_tokens_is_held_against_nothing() -> None:
    silent = level(4, 0.0)
    assert silent.summary is not None
    silent = replace(silent, summary=replace(silent.summary, prompt_lengths=None))
    assert "levels-unlike" not in codes(run_findings([level(2, 100.0), silent]))


# --- did the replay keep its own rules ------------------------------------------------------------

BROKEN = {
    "order": (replace(OF, order=3), "order-broken"),
    "joins": (replace(OF, joins=3), "joins-broken"),
    "spawns": (replace(OF, spawns=3), "spawns-broken"),
    "prefixes": (replace(OF, prefixes=3), "prefixes-broken"),
    "overdeclared": (replace(OF, overdeclared=3), "declared-prefixes-broken"),
    "an early request": (replace(OF, gaps=Excess(3, 3, -1.0, -1.0, -1.0)), "gaps-broken"),
}


@pytest.mark.parametrize(("of", "code"), BROKEN.values(), ids=BROKEN)
def test_what_a_replay_must_not_do_and_did_is_named_and_counted(of: Conformity, code: str) -> None:
    (found,) = findings.fidelity(replace(KEPT, conformity=of))
    assert (found.code, found.kind, found.text[:2]) == (code, Kind.BROKEN, "3 ")


def test_shared_blocks_and_too_few_live_trees_are_named() -> None:
    assert codes(findings.fidelity(replace(KEPT, shared_between_plays=2))) == ["isolation-broken"]
    assert codes(findings.fidelity(replace(KEPT, trees_least=7))) == ["live-trees-broken"]


def test_nothing_is_named_where_all_is_kept() -> None:
    assert codes(findings.fidelity(KEPT)) == []
    assert codes(findings.fidelity(replace(KEPT, conformity=replace(OF, gaps=None)))) == []
    assert codes(findings.fidelity(without_prefixes(KEPT))) == []


# --- of a point and of a run ----------------------------------------------------------------------


def test_valid_and_comparable_are_apart() -> None:
    quick = replace(FACTS, rules=replace(AGENTX, comparable=False))
    kept = replace(FACTS, rules=AGENTX, conduct=Conduct(interrupted=True))
    looked, stopped = (replace(point(30), facts=facts) for facts in (quick, kept))
    assert not looked.comparable
    assert not looked.has("run-interrupted")
    assert not stopped.valid
    assert stopped.comparable


def test_a_finding_of_several_points_is_one_with_its_levels() -> None:
    points = [level(2, 1.0), level(4, 1.0, valid=False), level(4, 1.0, start=2, valid=False)]
    found = {each.code: each.levels for each in point_findings(points)}
    assert found == {
        "window-short": (Measurement(2), Measurement(4), Measurement(4, 2)),
        "run-interrupted": (Measurement(4), Measurement(4, 2)),
    }


def test_a_finding_is_plain_values() -> None:
    of = Finding("few-responses", "P90 of 2", Kind.WARNING, (Measurement(8, 2),), "and more")
    assert of.document() == {
        "code": "few-responses",
        "kind": "warning",
        "text": "P90 of 2",
        "levels": [{"concurrency": 8, "start": 2}],
        "remedy": "and more",
    }

from dataclasses import replace

import pytest
from fidelity_cases import KEPT
from record_cases import SECOND, dispatch, prompt, recorded, response

from agentx_replay.analysis.caution import (
    cautions,
    curve_cautions,
    few_responses,
    token_itl_trusted,
)
from agentx_replay.analysis.instrument import InstrumentReport
from agentx_replay.analysis.metrics import PromptLengths
from agentx_replay.analysis.point import Point, PointFacts, measure_point
from agentx_replay.analysis.server import CacheAgreement
from agentx_replay.analysis.throughput import Difference
from agentx_replay.analysis.validity import Conduct, Rules, Verdict
from agentx_replay.analysis.window import Window
from agentx_replay.results.run_directory import PointStatus

FACTS = PointFacts(
    1, None, Window(0, 10 * SECOND, 10.0), Rules("agentx", True, 10.0), Conduct()
)  # fmt: skip


def point(responses: int, relative: float = 0.0, *, trusted: bool = True) -> Point:
    """So many responses of two tokens, the windowed throughput so far from the headline."""
    pair = (
        dispatch(max_tokens=2),
        response(arrival_ns=[0, 10 * SECOND - 1], completion_tokens=2, end_ns=10 * SECOND),
    )
    found = measure_point(recorded([pair] * responses), None, FACTS, PointStatus.COMPLETE)
    assert found.summary is not None
    rates = replace(found.summary.rates, difference=Difference(relative, 0.0, 0.0, 0.0, 0.0))
    report = InstrumentReport(None, None, None, None, (), token_itl_trusted=trusted)
    return replace(found, summary=replace(found.summary, rates=rates), instrument=report)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (point(30), ()),
        (point(29), ("P90 of 29 responses: under 30 a P90 is one or two responses",)),
        (point(1), ("P90 of 1 response: under 30 a P90 is one or two responses",)),
        (point(30, 0.2), ()),
        (
            point(30, 1.45),
            ("windowed throughput is +145.0% from the headline, over 20%",),
        ),
        (
            point(30, -0.201),
            ("windowed throughput is -20.1% from the headline, over 20%",),
        ),
    ],
)
def test_a_point_of_few_responses_or_of_two_unlike_throughputs_has_a_caution(
    of: Point, expected: tuple[str, ...]
) -> None:
    assert cautions(of) == expected


def test_a_caution_leaves_the_verdict_as_it_is() -> None:
    assert point(2, 1.45).verdict.valid
    assert len(cautions(point(2, 1.45))) == 2


def test_a_server_that_somebody_else_used_is_a_caution_and_one_that_was_ours_alone_is_not() -> None:
    ours, shared = (CacheAgreement(0.8, 0.8, 0.8, 0.8, beyond) for beyond in (0.05, 0.4))
    assert cautions(replace(point(30), agreement=ours)) == ()
    of = replace(point(30), agreement=shared)
    assert cautions(of) == (
        "the server looked up 40% more prompt tokens than this run sent: somebody else used it, "
        "or it computed prompts again",
    )
    assert of.verdict.valid


NOTHING_DUE = (
    "no answer was fed back: no prompt went on from one that was answered in the window",
)


def few_fed_back(fed: int, due: int) -> tuple[str]:
    return (
        f"answers fed back: {fed} of {due}; the others were words, as the responses failed, had no "
        "content (reasoning and tool calls are not said) or no usage",
    )


@pytest.mark.parametrize(
    ("live", "fed", "due", "expected"),
    [
        (True, 40, 40, ()),
        (True, 20, 40, ()),
        (True, 19, 40, few_fed_back(19, 40)),
        (True, 0, 1, few_fed_back(0, 1)),
        (True, 0, 0, NOTHING_DUE),
        (False, 0, 0, ()),
    ],
)
def test_live_history_that_fed_back_no_answer_or_under_half_of_them_is_a_caution(
    live: bool, fed: int, due: int, expected: tuple[str, ...]
) -> None:
    told = replace(KEPT, answers_fed_back=fed, answers_due=due)
    of = replace(prompts_of(6_400, 3_200, 3_200, live=live), fidelity=told)
    assert cautions(of) == expected
    assert of.verdict.valid


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
    return measure_point(recorded([pair] * 30), None, facts, PointStatus.COMPLETE)


# Of 6,400 tokens a hundredth are 64, and 64 more may be alike: 3,200 + 128 are no sign yet.
@pytest.mark.parametrize("cached", [None, 0, 3_200, 3_327])
def test_a_cache_that_held_what_was_sent_and_what_templates_repeat_is_no_caution(
    cached: int | None,
) -> None:
    assert cautions(prompts_of(6_400, 3_200, cached)) == ()


def test_a_cache_that_held_more_than_was_sent_is_a_caution() -> None:
    of = prompts_of(6_400, 3_200, 3_392)
    assert cautions(of) == (
        "the server knew these prompts already: it found 53.0% of them in its cache, where an "
        "unlimited one, empty at first, would hold 50.0%",
    )
    assert of.verdict.valid


def test_short_prompts_may_be_mostly_what_a_template_repeats() -> None:
    assert cautions(prompts_of(100, 0, 64)) == ()
    assert len(cautions(prompts_of(100, 0, 66))) == 1


def test_where_answers_are_fed_back_no_cache_is_held_to_what_was_sent() -> None:
    assert cautions(prompts_of(6_400, 3_200, 6_400, live=True)) == ()


@pytest.mark.parametrize("status", [PointStatus.INTERRUPTED, PointStatus.RUNNING])
def test_a_point_that_was_not_played_to_its_end_has_no_caution_beside_that(
    status: PointStatus,
) -> None:
    shared = CacheAgreement(0.8, 0.8, 0.8, 0.8, 0.4)
    assert len(cautions(replace(point(2, -0.386), agreement=shared))) == 3
    assert cautions(replace(point(2, -0.386), agreement=shared, status=status)) == ()


def test_where_nothing_was_measured_there_is_nothing_to_be_cautious_of() -> None:
    empty = measure_point(
        recorded([(dispatch(), response())]),
        None,
        replace(FACTS, window=None),
        PointStatus.FAILED,
    )
    assert cautions(empty) == ()
    assert not few_responses(empty)
    assert token_itl_trusted(empty)


def test_token_itl_is_trusted_where_the_client_kept_up() -> None:
    assert token_itl_trusted(point(30))
    assert not token_itl_trusted(point(30, trusted=False))


def level(
    concurrency: int, mean_prompt: float, *, count: int = 100, start: int = 1, valid: bool = True
) -> Point:
    """A point whose prompts had such a mean over so many responses."""
    of = point(1)
    assert of.summary is not None
    lengths = PromptLengths(count, mean_prompt, 1.0, 0, 0.0)
    return replace(
        of,
        facts=replace(FACTS, concurrency=concurrency, start=start),
        summary=replace(of.summary, prompt_lengths=lengths),
        verdict=Verdict(() if valid else ("interrupted",), ()),
    )


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        # 6,592 / 1,818 is over 1.5, 8,174 / 6,592 is not: the pair apart is named.
        (
            [level(16, 8174.0), level(2, 1818.0), level(8, 6592.0)],
            "1,818 tokens at 2, 6,592 tokens at 8",
        ),
        ([level(2, 301.0), level(4, 200.0)], "301 tokens at 2, 200 tokens at 4"),
        ([level(2, 300.0), level(4, 200.0)], None),
        ([level(2, 100.0), level(4, 140.0), level(8, 190.0)], None),
        # Of a level that is not valid nothing is on the curve; those beside it are neighbours.
        (
            [level(2, 100.0), level(4, 140.0, valid=False), level(8, 190.0)],
            "100 tokens at 2, 190 tokens at 8",
        ),
        # Starts are one level: (100 * 100 + 300 * 260) / 400 = 220.
        (
            [level(2, 140.0), level(4, 100.0), level(4, 260.0, count=300, start=2)],
            "140 tokens at 2, 220 tokens at 4",
        ),
        ([level(2, 0.0), level(4, 0.0)], None),
        ([level(2, 100.0)], None),
        ([], None),
    ],
)
def test_a_curve_whose_neighbouring_levels_had_prompts_of_unlike_length_has_one_caution(
    levels: list[Point], expected: str | None
) -> None:
    said = (
        "neighbouring levels did not do the same work, since few lanes play other sessions than "
        f"many: mean prompt by concurrency {expected}"
    )
    assert curve_cautions(levels) == (() if expected is None else (said,))


def test_a_point_whose_server_tells_no_prompt_tokens_is_held_against_nothing() -> None:
    silent = level(4, 0.0)
    assert silent.summary is not None
    silent = replace(silent, summary=replace(silent.summary, prompt_lengths=None))
    assert curve_cautions([level(2, 100.0), silent]) == ()

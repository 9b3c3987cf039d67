from dataclasses import replace

import pytest
from record_cases import SECOND, dispatch, recorded, response

from agentx_replay.analysis.instrument import InstrumentReport
from agentx_replay.analysis.metrics import Counts, PointSummary, PromptLengths, summarise
from agentx_replay.analysis.validity import (
    Conduct,
    Rules,
    Verdict,
    incomparable_reasons,
    invalid_reasons,
)
from agentx_replay.analysis.window import Window

FINE = Counts(1000, 1000, 0, 0, 0, 0, 0, 0, ())
EXACT = PromptLengths(1000, 100.0, 1.0, 0, 0.0)


def summary(**changes: object) -> PointSummary:
    """A summary that nothing can be said against in a window of 1,000 s."""
    usual = summarise(
        recorded([(dispatch(), response(arrival_ns=[1, 2]))]), Window(0, SECOND, 1.0), 1
    )
    fine = {"counts": FINE, "prompt_lengths": EXACT, "last_ttft_s": 950.0, "last_itl_s": 950.0}
    return replace(usual, **{**fine, **changes})  # type: ignore[arg-type]


def counts(**changes: int) -> PointSummary:
    return summary(counts=replace(FINE, **changes))  # type: ignore[arg-type]


def lengths(aggregate_error: float) -> PointSummary:
    return summary(prompt_lengths=replace(EXACT, aggregate_error=aggregate_error))


def seen(last_ttft_s: float | None, last_itl_s: float | None) -> PointSummary:
    return summary(last_ttft_s=last_ttft_s, last_itl_s=last_itl_s)


CASES = {
    "exactly 1 % failed": (counts(failed=10), None),
    "over 1 % failed": (counts(failed=11), "11 of 1,000 requests (1.1%) failed, over 1%"),
    "over 1 % overflowed": (counts(overflow=11), "overflowed the context"),
    "over 1 % cut": (counts(cut=11), "were cut at the end of the grace"),
    "over 1 % of another length": (counts(length_mismatch=11), "had another length than asked"),
    "all of it at its limit": (counts(failed=10, overflow=10, cut=10, length_mismatch=10), None),
    "a response without usage": (counts(without_usage=1), "no usage for 1 of 1,000 responses"),
    "nothing sent": (counts(sent=0, ok=0), "no request was sent in the window"),
    "nothing succeeded": (counts(ok=0), "no request succeeded"),
    "prompts off by 0.5 %": (lengths(-0.005), None),
    "prompts off by more": (lengths(-0.0051), "prompts were -0.51% off"),
    "prompt lengths not told": (summary(prompt_lengths=None), None),
    "both seen at 95 % of the window": (seen(950.0, 950.0), None),
    "a last TTFT before 95 %": (seen(949.9, 1000.0), "observed 949.9 s into the"),
    "a last ITL before 95 %": (seen(1000.0, 949.9), "observed 949.9 s into the"),
    "no TTFT": (seen(None, 1000.0), "no ITL was observed"),
    "no ITL": (seen(1000.0, None), "no ITL was observed"),
}


@pytest.mark.parametrize(("case", "words"), CASES.values(), ids=CASES)
def test_a_point_is_not_valid_for_a_reason_given(case: PointSummary, words: str | None) -> None:
    reasons = invalid_reasons(case, None, Conduct(), 1000.0)
    if words is None:
        assert reasons == ()
    else:
        assert len(reasons) == 1
        assert words in reasons[0]


def test_in_a_window_under_900_s_either_observation_will_do() -> None:
    # One response may span the rest of a short window: its first token is then early.
    assert invalid_reasons(seen(5.0, 19.0), None, Conduct(), 20.0) == ()
    assert len(invalid_reasons(seen(5.0, 18.9), None, Conduct(), 20.0)) == 1


def test_every_reason_is_given() -> None:
    reasons = invalid_reasons(
        counts(failed=500, cut=50), None, Conduct(interrupted=True, failure="stopped"), 1000.0
    )
    assert reasons[:2] == ("interrupted", "stopped")
    assert len(reasons) == 4


def test_a_saturated_client_is_a_reason() -> None:
    report = InstrumentReport(None, None, None, None, ("client: busy",), token_itl_trusted=True)
    assert invalid_reasons(summary(), report, Conduct(), 1000.0) == ("client: busy",)


def test_a_window_that_never_opened_is_not_valid() -> None:
    failed = Conduct(failure="warm-up failed: a main request failed")
    assert invalid_reasons(None, None, failed, 1000.0) == ("warm-up failed: a main request failed",)
    assert invalid_reasons(None, None, Conduct(), 1000.0) == ("the window never opened",)


AGENTX = Rules(scenario="agentx", comparable=True, window_s=3600.0)

RULES = {
    "the scenario as it is": (AGENTX, None),
    "a window of 900 s": (replace(AGENTX, window_s=900.0), None),
    "a shorter window": (replace(AGENTX, window_s=899.0), "the window is 899 s, under 900 s"),
    "a quick look": (replace(AGENTX, comparable=False), "is for a quick look"),
    "a rule overridden": (replace(AGENTX, overridden=("seed",)), "rules overridden: seed"),
    "sessions left out": (replace(AGENTX, sessions_left_out=3), "3 sessions left out"),
    "requests left out": (replace(AGENTX, requests_left_out=4), "4 requests left out"),
    "another corpus": (replace(AGENTX, other_corpus="mine"), "another corpus: mine"),
    "live history": (replace(AGENTX, live_history=True), "--live-history"),
    "tool messages": (replace(AGENTX, tool_messages=True), "--tool-messages"),
    "virtual time": (
        replace(AGENTX, no_server="virtual time: the modelled engine, no wire"),
        "virtual time: the modelled engine, no wire",
    ),
    "fewer sessions than the scenario takes": (
        replace(AGENTX, sessions=26, max_sessions=393),
        "26 sessions, the scenario takes the first 393: another corpus",
    ),
    "as many sessions as the scenario takes": (
        replace(AGENTX, sessions=393, max_sessions=393),
        None,
    ),
    "a scenario that takes all sessions": (replace(AGENTX, sessions=1), None),
    "speculation": (replace(AGENTX, speculative_decoding="3 drafts"), "speculative: 3 drafts"),
}


@pytest.mark.parametrize(("rules", "words"), RULES.values(), ids=RULES)
def test_a_point_is_not_comparable_for_a_reason_given(rules: Rules, words: str | None) -> None:
    reasons = incomparable_reasons(rules, summary())
    if words is None:
        assert reasons == ()
    else:
        assert len(reasons) == 1
        assert words in reasons[0]


@pytest.mark.parametrize("nothing", [None, counts(ok=0, failed=1000)])
def test_where_nothing_was_measured_nothing_is_comparable(nothing: PointSummary | None) -> None:
    assert incomparable_reasons(AGENTX, nothing) == ("nothing was measured",)


def test_valid_and_comparable_are_apart() -> None:
    assert Verdict((), ("quick",)).valid
    assert not Verdict((), ("quick",)).comparable
    assert not Verdict(("failed",), ()).valid
    assert Verdict(("failed",), ()).comparable

"""Objectives, from text: their normal form, and every refusal."""

import pytest
from refusals import refuses

from agentx_replay.analysis.objective import objective_of, objectives_of


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("itl:p90<=33ms", [("itl:p90", 0.033)]),
        ("itl<=33ms", [("itl:p90", 0.033)]),
        ("full-itl:p99.9<=0.1s", [("full-itl:p99.9", 0.1)]),
        ("ttft<=5s, e2e <= 2 m", [("ttft:p95", 5.0), ("e2e:p95", 120.0)]),
        ("itl:mean<=20ms", [("itl:mean", 0.02)]),
        # Nine in ten responses are as fast as the headline's speed: the slowest tenth is P10.
        ("speed>=50", [("itl:p90", 0.02)]),
        ("speed:p10>=50tok/s", [("itl:p90", 0.02)]),
        ("speed:p25>=100", [("itl:p75", 0.01)]),
        ("play<=10m", [("play:p90", 600.0)]),
        ("hit>=90%,failed<=0.5%", [("hit", 0.9), ("failed", 0.005)]),
        ("ITL:P90<=33MS", [("itl:p90", 0.033)]),
    ],
)
def test_an_objective_is_read_into_bounds_of_seconds_and_shares(
    text: str, clauses: list[tuple[str, float]]
) -> None:
    found = objective_of(text)
    assert [clause.name for clause in found.typed] == [name for name, _ in clauses]
    assert [c.bound for c in found.typed] == pytest.approx([bound for _, bound in clauses])


def test_the_shares_of_failed_and_cut_requests_are_always_bounded() -> None:
    implied = [(c.name, c.bound) for c in objective_of("itl<=33ms").clauses if c.implied]
    assert implied == [("failed", 0.01), ("cut", 0.01)]
    assert [c.name for c in objective_of("failed<=0.1%").clauses] == ["failed", "cut"]


def test_tiers_have_names_and_a_bound_on_speed_is_written_both_ways() -> None:
    tiers = objectives_of(["itl:p90<=33ms", "tier 2 = speed:p25>=30,ttft:p95<=15s"])
    assert [tier.text for tier in tiers] == [
        "itl:p90<=33ms",
        "tier 2: speed:p25>=30 (itl:p75<=33.33ms), ttft:p95<=15s",
    ]


def test_a_percentile_above_the_95th_takes_ten_responses_beyond_it() -> None:
    needed = [c.responses_needed for c in objective_of("itl<=1s,ttft:p99<=1s,e2e:p99.9<=1s").typed]
    assert needed == [1, 1000, 10000]


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        ("", "objective-not-read", "''"),
        ("fast", "objective-not-read", "fast"),
        ("itl:p90<=33ms,", "objective-not-read", "''"),
        ("itl<=1e3ms", "objective-not-read", "1e3ms"),
        ("latency<=33ms", "objective-metric-unknown", "full-itl"),
        ("itl>=33ms", "objective-direction", "<="),
        ("itl<33ms", "objective-direction", "<="),
        ("speed<=30", "objective-direction", ">="),
        ("itl<=33", "objective-unit", "no unit"),
        ("itl<=33%", "objective-unit", "'%'"),
        ("hit>=0.9", "objective-unit", "%"),
        ("itl<=0ms", "objective-bound", "above 0"),
        ("itl<=-3ms", "objective-bound", "above 0"),
        ("itl<=1_0ms", "objective-bound", "above 0"),
        ("itl<=٣ms", "objective-bound", "above 0"),
        ("hit>=101%", "objective-share", "100%"),
        ("failed<=5%", "objective-of-invalid-levels", "1%"),
        ("itl:p100<=3ms", "objective-statistic", "p100"),
        ("itl:median<=3ms", "objective-statistic", "median"),
        ("speed:mean>=3", "objective-statistic", "mean"),
        ("failed:p9<=1%", "objective-statistic-unfit", ":p9"),
        ("itl<=33ms,itl:p90<=20ms", "objective-clause-twice", "itl:p90"),
        ("speed>=30,itl:p90<=20ms", "objective-clause-twice", "itl:p90"),
    ],
)
def test_what_is_no_objective_is_refused(text: str, code: str, named: str) -> None:
    with refuses(code, named):
        objective_of(text)


def test_two_objectives_of_one_name_are_refused() -> None:
    with refuses("objective-name-twice", "no name"):
        objectives_of(["itl<=33ms", "itl<=20ms"])
    with refuses("objective-name-twice", "'a'"):
        objectives_of(["a=itl<=33ms", "a=itl<=20ms"])

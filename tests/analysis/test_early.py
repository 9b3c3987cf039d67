"""The look at a level that is still being measured."""

import numpy as np
import pytest

from agentx_replay.analysis.early import (
    EarlyRule,
    Exceeding,
    Tallies,
    clear_failure_of,
    design_effect,
    level_fails,
    looks_due,
)
from agentx_replay.analysis.objective import Clause, objective_of
from agentx_replay.experiment.early_stop import Looks


def clause(text: str) -> Clause:
    return objective_of(text).clauses[0]


def lanes(counts: list[int], beyond: list[int]) -> Exceeding:
    return Exceeding(np.array(counts), np.array(beyond))


ITL, FAILED = clause("itl:p90<=33ms"), clause("failed<=1%")


@pytest.mark.parametrize(
    ("bounded", "of", "fails"),
    [
        # All the same in every lane, so without an error: 0.2 is not over twice 0.1.
        (ITL, lanes([20] * 10, [4] * 10), False),
        (ITL, lanes([20] * 10, [5] * 10), True),
        # 0.4 on average from 0.2 and 0.6: e = ±2 of 10, se = √(10/9 · 40)/100 = 0.0667, t of nine
        # degrees at 0.9975 is 3.690: 0.4 - 0.246 is not over 0.2.
        (ITL, lanes([10] * 10, [2, 6] * 5), False),
        # 0.6 from 0.4 and 0.8: as far apart, 0.6 - 0.246 is.
        (ITL, lanes([10] * 10, [4, 8] * 5), True),
        # Too few responses; too few lanes.
        (ITL, lanes([4] * 10, [4] * 10), False),
        (ITL, lanes([20] * 9, [20] * 9), False),
        (ITL, lanes([20] * 9 + [0], [20] * 9 + [0]), False),
        (FAILED, lanes([100] * 10, [2] * 10), False),
        (FAILED, lanes([100] * 10, [3] * 10), True),
    ],
)
def test_a_share_is_refuted_if_it_is_clearly_over_twice_what_is_allowed(
    bounded: Clause, of: Exceeding, fails: bool
) -> None:
    assert (clear_failure_of(bounded, of) is not None) == fails


def test_a_level_goes_on_while_one_objective_may_hold() -> None:
    loose, strict = objective_of("a=ttft:p95<=9s"), objective_of("b=itl:p90<=33ms")
    slow = {strict.clauses[0]: lanes([20] * 10, [20] * 10)}
    late = {loose.clauses[0]: lanes([20] * 10, [20] * 10)}
    assert level_fails(EarlyRule((loose, strict)), slow) is None
    found = level_fails(EarlyRule((loose, strict)), slow | late)
    assert found is not None
    assert (found.clause.name, found.share, found.allowed) == ("ttft:p95", 1.0, 0.05)


def test_only_percentiles_of_responses_and_failures_are_looked_at() -> None:
    rule = EarlyRule((objective_of("itl<=9ms,ttft:mean<=5s,hit>=90%,play<=9m"),))
    assert [each.name for each in rule.clauses] == ["itl:p90", "failed"]


def test_the_parts_of_a_level_are_judged_together_when_the_last_has_come_to_a_look() -> None:
    # Five lanes each: too few alone; together 100 of 100 responses of ten lanes exceed the bound.
    looks = Looks(EarlyRule((objective_of("itl:p90<=33ms,failed<=1%"),)), 80.0)
    even, odd = lanes([10, 0] * 5, [10, 0] * 5), lanes([0, 10] * 5, [0, 10] * 5)
    of = [{ITL: each, FAILED: lanes([0] * 10, [0] * 10)} for each in (even, odd)]
    assert looks.reason([Tallies(20.0, of[0]), Tallies(19.9, of[1])]) is None
    assert looks.reason([Tallies(20.0, of[0])]) is None
    found = looks.reason([Tallies(30.0, of[0]), Tallies(30.9, of[1])])
    assert found is not None
    assert found.text.endswith("(share over 33ms 1.00, at most 0.1 allowed, look 2 of 4)")


def test_the_design_effect_is_a_variance_over_lanes_over_a_binomial_one() -> None:
    # The squared error of above, 4/900, over 0.4 · 0.6 / 100.
    assert design_effect(lanes([10] * 10, [2, 6] * 5)) == pytest.approx(1.85185, rel=1e-5)
    assert design_effect(lanes([10] * 10, [4] * 10)) == 0.0
    assert design_effect(lanes([10] * 10, [0] * 10)) is None
    assert design_effect(lanes([10], [5])) is None


def test_looks_are_due_at_a_quarter_three_eighths_half_and_three_quarters() -> None:
    at = [looks_due(s, 80.0) for s in (19.9, 20.0, 29.9, 30.0, 40.0, 59.9, 60.0, 80.0)]
    assert at == [0, 1, 1, 2, 3, 3, 4, 4]

from typing import Literal

import pytest

from agentx_replay.analysis.curve import CurvePoint, FrontierValue, StartValue, TargetValue
from agentx_replay.analysis.starts import Interval
from agentx_replay.report.targets import target_note, target_text

NEAREST = CurvePoint(32, 43.6, 131_572.0)


def value(
    throughput: float | None,
    between: tuple[int, ...] | None = None,
    *,
    also_between: tuple[tuple[int, int], ...] = (),
    frontier: FrontierValue | None = None,
    interval: Interval | None = None,
    no_interval: str | None = None,
    starts: tuple[float | Literal["faster", "slower"] | None, ...] = (7567.0, 7567.0),
    nearest: CurvePoint | None = NEAREST,
    every_level_is: Literal["faster", "slower"] | None = None,
) -> TargetValue:
    by_start = tuple(
        StartValue(n, None, each) if isinstance(each, str) else StartValue(n, each)
        for n, each in enumerate(starts, 1)
    )
    read_off = (throughput, between, also_between, frontier, nearest, every_level_is)
    return TargetValue(50.0, *read_off, by_start, interval, no_interval)


@pytest.mark.parametrize(
    ("shown", "text", "note"),
    [
        (value(7567.0, (16, 32), interval=Interval(7000.0, 8000.0)), "7,567 [7,000, 8,000]",
         "between 16 and 32 agents (2 starts)"),
        (value(7567.0, (16, 16), no_interval="1 start", starts=(7567.0,)), "7,567",
         "at 16 agents (1 start)"),
        (value(7567.0, (16, 32), also_between=((4, 8),)), "7,567",
         "between 16 and 32 agents (the highest: reached again between 4 and 8 agents; 2 starts)"),
        (value(7567.0, (1, 2), frontier=FrontierValue(9200.0, (3,)), starts=(7567.0,)), "7,567",
         "between 1 and 2 agents (the Pareto frontier says 9,200, at 3 agents; 1 start)"),
        (value(None, starts=(7567.0, None, 8000.0)), "not reached",
         "2 of 3 starts reach it; start 2: the curve has a gap there"),
        (value(None, starts=("faster", 7567.0, "slower", "faster")), "not reached",
         "1 of 4 starts reach it; every valid level of starts 1, 4 is faster; every valid level of "
         "start 3 is slower"),
        (value(None, starts=(None, None), every_level_is="slower"), "every level is slower",
         "fastest valid 43.6 → try 24 agents"),
        (value(None, starts=(None,), nearest=CurvePoint(16, 66.4, 9000.0),
               every_level_is="faster"), "every level is faster",
         "slowest valid 66.4 → try 24 agents"),
        (value(None, starts=(), nearest=None), "not reached", "no valid level"),
    ],
)  # fmt: skip
def test_a_value_at_a_target_says_where_it_comes_from(
    shown: TargetValue, text: str, note: str
) -> None:
    assert target_text(shown) == text
    assert target_note(shown, ()) == note

"""What is said of a capacity."""

from math import exp, log

from agentx_replay.analysis.capacity import Outcome, capacity_of
from agentx_replay.analysis.judged import Judged
from agentx_replay.analysis.objective import objective_of
from agentx_replay.report.objective_sections import answer, capacity_lines
from agentx_replay.results.layout import Measurement


def level(concurrency: int, itl: float, start: int) -> Outcome:
    """A level at which the ITL is so many times its bound."""
    return Outcome(Measurement(concurrency, start), (log(itl), log(0.01), log(0.01)))


def test_a_capacity_stands_with_its_interval_and_the_one_that_five_starts_would_give() -> None:
    # Crossings at 32, 32·e^0.2 and 32·e^0.4: the mean 39.085, t of two degrees 4.303·0.2/√3 =
    # 0.4969, and of four, with five starts, 2.776·0.2/√5 = 0.2483.
    levels = [
        level(concurrency, times * exp(-0.2 * (start - 1)), start)
        for start in (1, 2, 3)
        for concurrency, times in ((16, 0.5), (64, 2.0))
    ]
    capacity = capacity_of(levels, objective_of("itl:p90<=10ms"))
    judged = Judged(capacity, (), None, None, None, None)
    assert answer(judged) == "39.1 agents [23.8, 64.2]"
    said = capacity_lines(judged)
    assert said[-1] == "5 starts: about [30.5, 50.1] (sweep --resume --starts 5 --out DIR)"
    assert "±" not in "".join(said)

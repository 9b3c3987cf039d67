import pytest

from agentx_replay.analysis.starts import Interval
from agentx_replay.report.numerals import agents, bounds, capital, rate, unlike
from agentx_replay.results.layout import Measurement


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"), (0.0123, "0.0123"), (12.34, "12.3"), (99.94, "99.9"), (99.96, "100"),
        (1234.0, "1,234"), (12_345_678.0, "12.35M"),
    ],
)  # fmt: skip
def test_a_rate_has_three_significant_digits_at_least(number: float | None, text: str) -> None:
    assert rate(number) == text


@pytest.mark.parametrize(
    ("interval", "digits", "text"),
    [
        (Interval(110_128.0, 132_909.0), None, "[110,128, 132,909]"),
        (Interval(1.4, 1.5), 3, "[1.400, 1.500]"),
        (None, 2, ""),
    ],
)
def test_an_interval_is_written_as_what_it_bounds(
    interval: Interval | None, digits: int | None, text: str
) -> None:
    assert bounds(interval, digits) == text


@pytest.mark.parametrize(
    ("number", "other", "text"),
    [
        (149.4, 150.0, "149"), (149.8, 150.0, "149.8"), (149.97, 150.0, "149.97"),
        (150.0, 150.0, "150"), (49.99, 50.0, "49.99"), (43.6, 50.0, "43.6"),
        (1499.7, 1500.0, "1499.7"),
    ],
)  # fmt: skip
def test_a_rate_that_is_not_the_target_does_not_read_like_it(
    number: float, other: float, text: str
) -> None:
    assert unlike(number, other) == text


def test_levels_are_named_by_their_agents() -> None:
    assert [agents([1]), agents([4, 12])] == ["1 agent", "4, 12 agents"]
    later: list[Measurement | int] = [4, Measurement(12, 2), Measurement(12, 3)]
    assert agents(later) == "4 agents, 12 agents (starts 2, 3)"
    assert agents([Measurement(12), Measurement(12, 2)], {12: 2}) == "12 agents"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("give the server's address", "Give the server's address"),
        ("agentx-replay docs lists them", "agentx-replay docs lists them"),
        ("results/a exists", "results/a exists"),
        ("pip install 'agentx-replay[ray]'", "pip install 'agentx-replay[ray]'"),
        ("leave --price", "Leave --price"),
    ],
)
def test_a_sentence_begins_with_a_capital_unless_with_what_is_typed(text: str, said: str) -> None:
    assert capital(text) == said

"""The published comparison of 16 October 2026, to the last digit given."""

import pytest

from agentx_replay.analysis.cost import (
    advantage,
    break_even_cycle_growth,
    dollars_per_million_tokens,
    tokens_per_dollar,
)


def test_tokens_per_dollar() -> None:
    assert round(tokens_per_dollar(7567, 1.50) / 1e6, 2) == 18.16
    assert round(tokens_per_dollar(6083, 2.26) / 1e6, 2) == 9.69


def test_dollars_per_million_tokens() -> None:
    # 1.80 / (1000 · 3600) · 10⁶ = 0.50; at half the utilisation twice that.
    assert dollars_per_million_tokens(1000, 1.80) == pytest.approx(0.50)
    assert dollars_per_million_tokens(1000, 1.80, utilisation=0.5) == pytest.approx(1.00)


def test_the_published_advantage_and_its_split() -> None:
    found = advantage((7567, 6083), (1.50, 2.26))
    assert round(found.ratio, 3) == 1.874
    assert round(found.throughput_ratio, 3) == 1.244
    assert round(found.price_ratio, 3) == 1.507
    assert found.throughput_share == pytest.approx(1 / 3, abs=0.02)
    assert found.price_share == pytest.approx(2 / 3, abs=0.02)
    assert round(found.cost_change * 100, 1) == -46.6


def test_at_equal_price_the_cost_falls_by_the_throughput_alone() -> None:
    found = advantage((7567, 6083), (2.00, 2.00))
    assert round(1 / found.ratio, 3) == 0.804
    assert round(found.cost_change * 100, 1) == -19.6
    assert found.throughput_share == pytest.approx(1.0)


def test_equals_have_no_advantage_to_split() -> None:
    found = advantage((1000, 1000), (2.0, 2.0))
    assert (found.throughput_share, found.price_share) == (None, None)


@pytest.mark.parametrize(
    ("throughputs", "per_gpu", "per_dollar"),
    [((1150, 1000), 1.15, 1.73), ((1244, 1000), 1.24, 1.87), ((850, 1000), 0.85, 1.28)],
)
def test_ratios_per_gpu_and_per_dollar_at_the_published_prices(
    throughputs: tuple[float, float], per_gpu: float, per_dollar: float
) -> None:
    found = advantage(throughputs, (1.50, 2.26))
    assert round(found.throughput_ratio, 2) == per_gpu
    assert round(found.ratio, 2) == per_dollar


def test_a_fourth_draft_pays_below_12_percent_of_cycle_growth() -> None:
    assert break_even_cycle_growth(3.00, 3.36) == pytest.approx(0.12)

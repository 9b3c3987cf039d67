"""A 95 % interval holds the truth in 95 % of the sweeps; see ``interval_coverage.py`` for both."""

import pytest
from interval_coverage import Held, sweep, truth


@pytest.fixture(scope="module")
def known() -> tuple[float, float, float]:
    return truth(seed=1)


def held(known: tuple[float, float, float], sweeps: int) -> dict[str, int]:
    found = [sweep(1000 + number, known) for number in range(sweeps)]
    return {name: sum(getattr(each, name) for each in found) for name in Held.__slots__}


def test_in_20_sweeps_17_to_20_intervals_hold_the_truth(known: tuple[float, float, float]) -> None:
    for name, number in held(known, 20).items():
        assert number >= 17, f"{name}: {number} of 20"


@pytest.mark.long
def test_in_100_sweeps_92_to_98_intervals_hold_the_truth(known: tuple[float, float, float]) -> None:
    for name, number in held(known, 100).items():
        assert 92 <= number <= 98, f"{name}: {number} of 100"


@pytest.mark.long
def test_in_1000_sweeps_920_to_980_intervals_hold_the_truth(
    known: tuple[float, float, float],
) -> None:
    for name, number in held(known, 1000).items():
        assert 920 <= number <= 980, f"{name}: {number} of 1000"

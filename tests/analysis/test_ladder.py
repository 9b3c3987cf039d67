"""Which levels a target speed asks for."""

import pytest

from agentx_replay.analysis.ladder import LADDER, bracketing, level_toward


def test_the_ladder_is_fixed_so_that_two_systems_share_levels() -> None:
    assert LADDER[:12] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]
    assert LADDER[-1] == 8192


@pytest.mark.parametrize(
    ("concurrency", "speed", "target", "level"),
    [
        (4, 50.0, 30.0, 8),  # 4 · 50 / 30 = 6.7: at 6 agents the speed is at least 33
        (4, 30.1, 30.0, 6),  # 4.01, and 4 itself was too fast
        (2, 60.0, 50.0, 3),
        (8, 20.0, 50.0, 3),  # 3.2
        (2, 49.0, 50.0, 1),  # 1.96
        (1, 20.0, 50.0, None),
        (3, 10.0, 50.0, 1),  # 0.6: no level is that low
        (8192, 60.0, 50.0, None),
    ],
)
def test_the_next_level_toward_a_target(
    concurrency: int, speed: float, target: float, level: int | None
) -> None:
    assert level_toward(concurrency, speed, target) == level


@pytest.mark.parametrize(
    ("targets", "levels"),
    [
        # Between (1, 160) and (16, 40) the speed falls as the square root of the agents.
        ((80.0,), (3, 6)),  # at 4; a quarter less is 3.2, a quarter more 5
        ((40.0,), (12, 24)),  # at 16: 12.8 and 20
        ((160.0,), (1, 2)),  # at 1: 0.8 and 1.25
        ((80.0, 40.0), (3, 6, 12, 24)),
        ((20.0,), (16, 32)),  # slower than any probe: 16 · 40 / 20
        ((200.0,), (1, 2)),  # faster than one agent is: a curve has two points
    ],
)
def test_the_levels_between_which_targets_lie(
    targets: tuple[float, ...], levels: tuple[int, ...]
) -> None:
    assert bracketing([(1, 160.0), (16, 40.0)], targets) == levels


def test_two_probes_of_one_speed_hold_a_target_equal_to_it() -> None:
    assert bracketing([(1, 50.0), (4, 50.0)], (50.0,)) == (1, 2)

"""Which session a lane's n-th play is."""

import pytest

from agentx_replay.plan.lanes import session_of


def plays(lanes: int, sessions: int, play_numbers: int, seed: int = 42) -> list[list[int]]:
    return [
        [
            session_of(lane, play_number, lanes=lanes, sessions=sessions, seed=seed)
            for lane in range(lanes)
        ]
        for play_number in range(play_numbers)
    ]


def test_the_first_round_takes_the_corpus_in_its_order() -> None:
    # q = lane + play number · 2 over 6 sessions
    assert plays(lanes=2, sessions=6, play_numbers=3) == [[0, 1], [2, 3], [4, 5]]


def test_more_lanes_than_sessions_wrap_into_shuffled_rounds() -> None:
    [first] = plays(lanes=7, sessions=3, play_numbers=1)
    assert first[:3] == [0, 1, 2]
    assert sorted(first[3:6]) == [0, 1, 2]


@pytest.mark.parametrize("sessions", [1, 3, 8])
def test_every_round_plays_every_session_once(sessions: int) -> None:
    order = [index for [index] in plays(lanes=1, sessions=sessions, play_numbers=4 * sessions)]
    for round_ in range(4):
        assert sorted(order[round_ * sessions : (round_ + 1) * sessions]) == list(range(sessions))


def test_as_many_lanes_as_sessions_do_not_repeat_one_session_a_lane() -> None:
    assert len({row[0] for row in plays(lanes=8, sessions=8, play_numbers=6)}) > 1


def test_a_later_play_depends_on_the_seed() -> None:
    assert len({str(plays(1, 8, play_numbers=16, seed=seed)[8:]) for seed in range(4)}) == 4


@pytest.mark.parametrize("lanes", [8, 4])
def test_shuffled_the_first_round_is_in_an_order_of_the_seed(lanes: int) -> None:
    """As many lanes as sessions play each once; fewer play others with another seed."""
    sessions = 8 if lanes == 8 else 32
    orders = [
        tuple(
            session_of(lane, 0, lanes=lanes, sessions=sessions, seed=seed, shuffled=True)
            for lane in range(lanes)
        )
        for seed in (43, 44, 45)
    ]
    assert len(set(orders)) == 3
    assert len({frozenset(order) for order in orders}) == (1 if lanes == 8 else 3)
    assert all(len(set(order)) == lanes for order in orders)

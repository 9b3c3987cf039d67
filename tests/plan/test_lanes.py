"""Which session a lane's n-th play is."""

import pytest

from agentx_replay.plan.lanes import session_of


def plays(lanes: int, sessions: int, ordinals: int) -> list[list[int]]:
    return [
        [
            session_of(lane, ordinal, lanes=lanes, sessions=sessions, seed=42)
            for lane in range(lanes)
        ]
        for ordinal in range(ordinals)
    ]


def test_the_first_round_takes_the_corpus_in_its_order() -> None:
    # q = lane + ordinal · 2 over 6 sessions
    assert plays(lanes=2, sessions=6, ordinals=3) == [[0, 1], [2, 3], [4, 5]]


def test_more_lanes_than_sessions_wrap_into_shuffled_rounds() -> None:
    first = plays(lanes=7, sessions=3, ordinals=1)[0]
    assert first[:3] == [0, 1, 2]
    assert sorted(first[3:6]) == [0, 1, 2]


@pytest.mark.parametrize("sessions", [1, 3, 8])
def test_every_round_plays_every_session_once(sessions: int) -> None:
    order = [
        session_of(0, ordinal, lanes=1, sessions=sessions, seed=7)
        for ordinal in range(4 * sessions)
    ]
    for round_ in range(4):
        assert sorted(order[round_ * sessions : (round_ + 1) * sessions]) == list(range(sessions))


def test_as_many_lanes_as_sessions_do_not_repeat_one_session_a_lane() -> None:
    lane_0 = [row[0] for row in plays(lanes=8, sessions=8, ordinals=6)]
    assert len(set(lane_0)) > 1


def test_a_later_play_depends_on_the_seed() -> None:
    rounds = {
        tuple(session_of(0, o, lanes=1, sessions=8, seed=seed) for o in range(8, 16))
        for seed in range(4)
    }
    assert len(rounds) == 4


def test_shuffled_the_first_round_plays_every_session_once_in_an_order_of_the_seed() -> None:
    orders = {
        tuple(
            session_of(lane, 0, lanes=8, sessions=8, seed=seed, shuffled=True) for lane in range(8)
        )
        for seed in (43, 44, 45)
    }
    assert len(orders) == 3
    assert {tuple(sorted(order)) for order in orders} == {tuple(range(8))}


def test_shuffled_fewer_lanes_than_sessions_play_other_sessions() -> None:
    played = {
        frozenset(
            session_of(lane, 0, lanes=4, sessions=32, seed=seed, shuffled=True) for lane in range(4)
        )
        for seed in (43, 44, 45)
    }
    assert len(played) == 3

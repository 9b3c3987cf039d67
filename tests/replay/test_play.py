"""Which turn of a session tree is due when. Instants are seconds, in ns, worked out by hand."""

import pytest
from stream_graphs import graph, turn

from agentx_replay.plan.graph import Join, SessionGraph, Spawn, TurnId
from agentx_replay.plan.start import StartPosition, from_t_star, from_the_beginning
from agentx_replay.replay.play import Due, Head, Play

S = 1_000_000_000
MAIN = [TurnId(0, turn) for turn in range(5)]
CHILD = [TurnId(1, turn) for turn in range(5)]


def play_of(session: SessionGraph, start: StartPosition | None = None) -> Play:
    return Play(session, start or from_the_beginning(session))


def test_a_gap_counts_from_the_live_end_of_the_predecessor() -> None:
    play = play_of(graph([turn(0, 0), turn(1, 10, gap_s=2.5)]))
    assert play.start(0) == [Due(MAIN[0], 0)]
    assert play.issued(MAIN[0], 0) == []
    # It ended 7 s late in live time; the next is due 2.5 s after that, wherever it was recorded.
    assert play.ended(MAIN[0], 7 * S) == [Due(MAIN[1], 9_500_000_000)]


def test_a_play_drains_when_its_last_step_has_ended() -> None:
    play = play_of(graph([turn(0, 0)]))
    play.start(0)
    play.issued(MAIN[0], 0)
    assert not play.drained
    assert play.ended(MAIN[0], S) == []
    assert play.drained


def test_a_child_spawned_at_issue_starts_with_its_parent_still_running() -> None:
    spawn = Spawn(MAIN[0], at_issue=True, offset_s=0.5)
    play = play_of(graph([turn(0, 0)], (spawn, [turn(1, 1)])))
    play.start(0)
    assert play.issued(MAIN[0], 3 * S) == [Due(CHILD[0], 3_500_000_000)]


def test_a_child_spawned_at_the_end_starts_an_offset_after_it() -> None:
    spawn = Spawn(MAIN[0], at_issue=False, offset_s=0.5)
    play = play_of(graph([turn(0, 0), turn(1, 9, gap_s=2)], (spawn, [turn(2, 1)])))
    play.start(0)
    assert play.issued(MAIN[0], 0) == []
    assert play.ended(MAIN[0], 4 * S) == [Due(CHILD[0], 4_500_000_000), Due(MAIN[1], 6 * S)]


@pytest.mark.parametrize(
    ("child_ends_s", "pause_s", "fires_s"),
    [
        (3, 0.0, 6),  # the child ended first: the predecessor's end 1 + gap 5
        (20, 0.0, 20),  # the child ends last: at its end, no gap added
        (20, 1.5, 21.5),  # with the recorded pause kept
        (5, 1.5, 6.5),  # the pause may reach beyond the gap though the child ended before
    ],
)
def test_a_joined_step_fires_at_the_later_of_its_gap_and_the_childs_end(
    child_ends_s: float, pause_s: float, fires_s: float
) -> None:
    joined = turn(1, 9, gap_s=5, joins=[Join(1, pause_s)])
    spawn = Spawn(MAIN[0], at_issue=True, offset_s=0)
    play = play_of(graph([turn(0, 0), joined], (spawn, [turn(2, 0)])))
    play.start(0)
    play.issued(MAIN[0], 0)
    play.issued(CHILD[0], 0)
    events = sorted([(1.0, MAIN[0]), (child_ends_s, CHILD[0])])
    due = [d for at_s, ended in events for d in play.ended(ended, round(at_s * S))]
    assert due == [Due(MAIN[1], round(fires_s * S))]


def test_a_join_waits_for_all_that_the_child_spawned() -> None:
    main = [turn(0, 0), turn(1, 9, joins=[Join(1, 0.0)])]
    child = (Spawn(MAIN[0], at_issue=True, offset_s=0), [turn(2, 0)])
    grandchild = (Spawn(CHILD[0], at_issue=False, offset_s=0), [turn(3, 1)])
    play = play_of(graph(main, child, grandchild))
    play.start(0)
    play.issued(MAIN[0], 0)
    play.ended(MAIN[0], S)
    play.issued(CHILD[0], 0)
    assert play.ended(CHILD[0], 2 * S) == [Due(TurnId(2, 0), 2 * S)]
    play.issued(TurnId(2, 0), 2 * S)
    assert play.ended(TurnId(2, 0), 8 * S) == [Due(MAIN[1], 8 * S)]


def test_a_step_waits_for_the_order_across_conversations_and_adds_no_gap_after_it() -> None:
    spawn = Spawn(MAIN[0], at_issue=True, offset_s=0)
    child = [turn(2, 0), turn(3, 2)]
    play = play_of(graph([turn(0, 0), turn(1, 9, gap_s=1, after=[CHILD[0]])], (spawn, child)))
    play.start(0)
    play.issued(MAIN[0], 0)
    play.issued(CHILD[0], 0)
    assert play.ended(MAIN[0], S) == []
    assert Head(MAIN[1], joining=False, blocked=True) in play.heads()
    assert play.ended(CHILD[0], 30 * S) == [Due(CHILD[1], 30 * S), Due(MAIN[1], 30 * S)]


def test_a_background_child_holds_the_play_but_no_step() -> None:
    spawn = Spawn(MAIN[0], at_issue=True, offset_s=0)
    play = play_of(graph([turn(0, 0)], (spawn, [turn(1, 0)])))
    play.start(0)
    play.issued(MAIN[0], 0)
    play.issued(CHILD[0], 0)
    play.ended(MAIN[0], S)
    assert not play.drained
    play.ended(CHILD[0], 2 * S)
    assert play.drained


def test_an_overflow_ends_its_conversation_and_releases_what_waited_for_it() -> None:
    main = [turn(0, 0), turn(1, 9, joins=[Join(1, 0.0)], after=[TurnId(1, 2)])]
    child = [turn(2, 0), turn(3, 1), turn(4, 2)]
    grandchild = (Spawn(CHILD[1], at_issue=False, offset_s=0), [turn(5, 1)])
    spawn = Spawn(MAIN[0], at_issue=True, offset_s=0)
    play = play_of(graph(main, (spawn, child), grandchild))
    play.start(0)
    play.issued(MAIN[0], 0)
    play.ended(MAIN[0], S)
    play.issued(CHILD[0], 0)
    # Its two other turns, and the grandchild that the second would have spawned, never come.
    assert play.give_up(1, 5 * S) == [Due(MAIN[1], 5 * S)]
    assert play.conversation_over(1)
    play.issued(MAIN[1], 5 * S)
    play.ended(MAIN[1], 6 * S)
    assert play.drained


def test_a_conversation_without_a_spawning_step_starts_with_the_play() -> None:
    early = Spawn(None, at_issue=False, offset_s=0.25)
    play = play_of(graph([turn(0, 1)], (early, [turn(1, 0.25)])))
    assert play.start(S) == [Due(MAIN[0], S), Due(CHILD[0], 1_250_000_000)]


def test_a_play_from_t_star_resumes_each_conversation_and_keeps_live_children() -> None:
    main = [turn(0, 0), turn(1, 10), turn(2, 30, joins=[Join(1, 0.0)])]
    child = (Spawn(MAIN[1], at_issue=False, offset_s=0), [turn(3, 12), turn(4, 25)])
    session = graph(main, child)
    play = play_of(session, from_t_star(session, 20.0, primer_lead_s=10.0))
    assert play.start(0) == [Due(CHILD[1], 0)]
    assert play.heads() == [
        Head(MAIN[2], joining=True, blocked=True),
        Head(CHILD[1], joining=False, blocked=False),
    ]
    play.issued(CHILD[1], 0)
    assert play.ended(CHILD[1], 3 * S) == [Due(MAIN[2], 3 * S)]


def test_a_main_conversation_over_at_t_star_leaves_its_children_in_the_slot() -> None:
    child = (Spawn(MAIN[0], at_issue=False, offset_s=0), [turn(1, 5), turn(2, 25)])
    session = graph([turn(0, 0)], child)
    play = play_of(session, from_t_star(session, 20.0, primer_lead_s=10.0))
    assert play.start(0) == [Due(CHILD[1], 0)]
    play.issued(CHILD[1], 0)
    play.ended(CHILD[1], S)
    assert play.drained


def test_children_that_were_over_at_t_star_hold_nothing() -> None:
    main = [turn(0, 0), turn(1, 30, joins=[Join(1, 9.0)])]
    session = graph(main, (Spawn(MAIN[0], at_issue=True, offset_s=0), [turn(2, 1)]))
    play = play_of(session, from_t_star(session, 20.0, primer_lead_s=10.0))
    assert play.start(0) == [Due(MAIN[1], 0)]


def test_the_window_gives_the_heads_new_instants() -> None:
    main = [turn(0, 0), turn(1, 10, gap_s=4)]
    play = play_of(graph(main))
    play.start(0)
    play.issued(MAIN[0], 0)
    play.ended(MAIN[0], S)
    assert play.resume({MAIN[1]: 50 * S}, 40 * S) == [Due(MAIN[1], 50 * S)]

"""t*, and what lies before and after it."""

from stream_graphs import graph, turn

from agentx_replay.plan.graph import Spawn, TurnId
from agentx_replay.plan.start import Primer, from_t_star, from_the_beginning, t_star_s


def test_t_star_follows_the_official_formula() -> None:
    # sha256("42:trace_0002:3")[:8] seeds numpy's default generator; uniform between 25 % and 75 %
    # of the starts' span 100 s … 500 s, that is 200 s … 400 s (agentx-harness 1.0.12).
    of = graph([turn(0, 100), turn(1, 500, 90)], session_id="trace_0002")
    assert t_star_s(of, seed=42, lane=3, fraction=(0.25, 0.75)) == 229.17611898572318


def test_the_span_covers_children_and_counts_starts_not_ends() -> None:
    child = (Spawn(TurnId(0, 0), at_issue=False, offset_s=0), [turn(1, 600, 1000)])
    of = graph([turn(0, 0)], child)
    # A fraction of exactly one half leaves the draw no room: the middle of 0 … 600.
    assert t_star_s(of, seed=1, lane=0, fraction=(0.5, 0.5)) == 300.0


def test_a_conversation_resumes_at_its_first_request_that_starts_at_or_after_t_star() -> None:
    of = graph([turn(0, 0), turn(1, 10), turn(2, 20)])
    assert from_t_star(of, 10.0, primer_lead_s=10.0).turns == (1,)
    assert from_t_star(of, 10.5, primer_lead_s=10.0).turns == (2,)


def test_a_conversation_out_of_time_order_resumes_at_the_first_that_qualifies() -> None:
    of = graph([turn(0, 0), turn(1, 30), turn(2, 20), turn(3, 40)])
    assert from_t_star(of, 25.0, primer_lead_s=10.0).turns == (1,)


def test_a_primer_is_the_last_request_before_t_star_with_its_lead_capped() -> None:
    of = graph([turn(0, 0), turn(1, 10), turn(2, 90)])
    assert from_t_star(of, 14.0, primer_lead_s=10.0).primers == (Primer(TurnId(0, 1), 4.0),)
    assert from_t_star(of, 80.0, primer_lead_s=10.0).primers == (Primer(TurnId(0, 1), 10.0),)


def test_no_primer_without_history_or_without_a_request_left() -> None:
    over = (Spawn(TurnId(0, 0), at_issue=False, offset_s=0), [turn(1, 5)])
    not_begun = (Spawn(TurnId(0, 0), at_issue=False, offset_s=0), [turn(2, 50)])
    of = graph([turn(0, 0), turn(3, 90)], over, not_begun)
    start = from_t_star(of, 30.0, primer_lead_s=10.0)
    assert start.turns == (1, 1, 0)
    assert [primer.turn for primer in start.primers] == [TurnId(0, 0)]


def test_a_child_is_live_once_its_spawning_step_lies_before_t_star() -> None:
    spawn_early = Spawn(TurnId(0, 0), at_issue=False, offset_s=0)
    spawn_late = Spawn(TurnId(0, 1), at_issue=False, offset_s=0)
    of = graph([turn(0, 0), turn(1, 40)], (spawn_early, [turn(2, 35)]), (spawn_late, [turn(3, 60)]))
    assert from_t_star(of, 30.0, primer_lead_s=10.0).live == (True, True, False)


def test_a_later_play_starts_at_request_0_with_nothing_primed() -> None:
    joined = (Spawn(TurnId(0, 0), at_issue=False, offset_s=0), [turn(1, 5)])
    early = (Spawn(None, at_issue=False, offset_s=0), [turn(2, 0)])
    start = from_the_beginning(graph([turn(0, 0)], joined, early))
    assert start.turns == (0, 0, 0)
    assert start.live == (True, False, True)
    assert start.primers == ()
    assert start.t_star_s is None

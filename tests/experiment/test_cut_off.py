"""Records that end with a kill: what is on disk is judged, what is not is held against nobody."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from record_cases import dispatch, play, play_table, request_table, response
from small_corpus import Run as LevelRun
from small_corpus import corpus, planned, replay_all, request, session, subagent
from stream_graphs import graph, turn
from virtual_replay import SCENARIO, S, plan_of, replay

from agentx_replay.analysis.fidelity import COLUMNS, Conformity
from agentx_replay.experiment.conformity import (
    conformity,
    cut_off_plays,
    lanes_on_record,
    with_live_plays,
)
from agentx_replay.plan.graph import Join, Spawn, TurnId
from agentx_replay.plan.plan import Plan
from agentx_replay.replay.ports import Dispatch, PlayRecord, Response

# Main 0 spawns the child as it is issued; main 1 joins it, and a third conversation spawned at its
# end.
TREE = graph(
    [turn(0, 0), turn(1, 9, gap_s=1.0, joins=[Join(1, 0.0), Join(2, 0.0)])],
    (Spawn(TurnId(0, 0), at_issue=True, offset_s=0.0), [turn(2, 1), turn(3, 3, gap_s=0.1)]),
    (Spawn(TurnId(0, 0), at_issue=False, offset_s=0.0), [turn(4, 4)]),
)


def requests_table(pairs: list[tuple[Dispatch, Response]]) -> pa.Table:
    return request_table(pairs).select(COLUMNS)


def killed(
    plan: Plan, pairs: list[tuple[Dispatch, Response]], plays: list[PlayRecord], at: int
) -> Conformity:
    """The report of what is on disk where a kill came after ``at`` responses."""
    table = requests_table(pairs[:at])
    last_ns = pairs[at - 1][1].end_ns
    over = [play for play in plays if play.end_ns is not None and play.end_ns <= last_ns]
    return conformity(plan, table, cut_off_plays(table, play_table(over)))


def breaches(found: Conformity) -> tuple[int, int, int, int | None]:
    return found.order, found.joins, found.spawns, found.prefixes


def test_a_kill_at_any_moment_is_no_breach_of_order_joins_or_spawns() -> None:
    # The children are over long before main 0, which is in flight for five seconds.
    run = replay(
        [TREE],
        lanes=2,
        scenario=replace(SCENARIO, window_s=60.0),
        seconds=lambda sent: 0.5 if sent.conversation else 5.0,
    )
    plan = plan_of([TREE], 2, SCENARIO)
    assert len(run.log.requests) > 30
    for at in range(1, len(run.log.requests) + 1):
        found = killed(plan, run.log.requests, run.log.plays, at)
        assert breaches(found) == (0, 0, 0, 0), at


def test_a_whole_play_without_the_request_that_spawned_it_is_a_breach() -> None:
    run = replay([TREE], seconds=lambda sent: 0.5 if sent.conversation else 5.0)
    child = [
        pair for pair in run.log.requests if pair[0].conversation == 1 and pair[0].play_number == 0
    ][:1]
    plan = plan_of([TREE], 1, SCENARIO)
    assert conformity(plan, requests_table(child)).spawns == 1
    assert conformity(plan, requests_table(child), {(0, 0)}).spawns == 0


def test_a_conversation_spawned_at_an_end_that_is_not_on_record_is_a_breach_even_so() -> None:
    # That end would be on record: it came before the child was sent.
    run = replay([TREE])
    child = [
        pair for pair in run.log.requests if pair[0].conversation == 2 and pair[0].play_number == 0
    ]
    assert conformity(plan_of([TREE], 1, SCENARIO), requests_table(child), {(0, 0)}).spawns == 1


def test_what_was_kept_of_a_prompt_in_flight_is_not_judged(tmp_path: Path) -> None:
    recorded = session(
        "x",
        request(0, range(10)),
        # Long, and in flight while the child it spawns shares all of its prompt.
        request(4, range(12), out=4000, api_time=60.0),
        subagent(5, [request(5, [*range(12), 70], out=1)]),
        request(90, range(14)),
    )
    scenario = replace(SCENARIO, window_s=30.0, start_fraction=(0.0, 0.0))
    plan = planned(corpus(tmp_path, recorded), scenario, 1)
    (played,) = replay_all(LevelRun(plan, "salt"))
    order = [(sent.conversation, sent.turn) for sent, _ in played.log.requests]
    at = order.index((1, 0)) + 1
    assert (0, 1) not in order[:at]
    whole = conformity(plan, requests_table(played.log.requests[:at]))
    assert whole.prefixes == 1  # if nothing were missing, the child would have kept two too many
    assert breaches(killed(plan, played.log.requests, played.log.plays, at)) == (0, 0, 0, 0)


# -- plays -------------------------------------------------------------------------------------


def sent(lane: int, play_number: int, at_s: int) -> tuple[Dispatch, Response]:
    return (
        dispatch(lane=lane, play_number=play_number, play_id=f"l{lane}-p{play_number}"),
        response(send_ns=at_s * S, end_ns=(at_s + 1) * S),
    )


def lived(lane: int, play_number: int, start_s: int, end_s: int) -> PlayRecord:
    name = f"l{lane}-p{play_number}"
    at_ns = {"start_ns": start_s * S, "end_ns": end_s * S}
    return play(play_id=name, lane=lane, play_number=play_number, **at_ns)


def test_plays_with_responses_and_no_row_of_their_own_were_cut_off() -> None:
    table = requests_table([sent(0, 0, 1), sent(0, 1, 6), sent(1, 0, 2)])
    assert cut_off_plays(table, play_table([lived(0, 0, 0, 5)])) == {(0, 1), (1, 0)}


LIVES = {
    "a play in mid life starts where the one before it ended": (
        [sent(0, 0, 1), sent(0, 1, 7)],
        [lived(0, 0, 0, 5)],
        [(0, 0, 0, 5), (0, 1, 5, None)],
    ),
    "of two without a row the first ended by the second's first request": (
        [sent(0, 0, 1), sent(0, 1, 7)],
        [],
        [(0, 0, 1, 7), (0, 1, 7, None)],
    ),
    "a lane's last play lives on": (
        [sent(0, 0, 1), sent(1, 0, 2)],
        [lived(0, 0, 0, 5)],
        [(0, 0, 0, None), (1, 0, 2, None)],
    ),
}


@pytest.mark.parametrize(("requests", "plays", "lives"), LIVES.values(), ids=LIVES)
def test_the_lives_of_plays_are_made_out(
    requests: list[tuple[Dispatch, Response]],
    plays: list[PlayRecord],
    lives: list[tuple[int, int, int, int | None]],
) -> None:
    found = with_live_plays(requests_table(requests), play_table(plays))
    assert [
        (
            row["lane"],
            row["play_number"],
            row["start_ns"] // S,
            row["end_ns"] and row["end_ns"] // S,
        )
        for row in found.to_pylist()
    ] == lives
    assert lanes_on_record(found) == len({lane for lane, *_ in lives})

"""What was sent against the recorded graph: clean for a replay, and every breach is found.

Breaches are made by changing one stamp or count in the records of a clean replay.
"""

from collections.abc import Callable
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
from agentx_replay.plan.graph import Join, SessionGraph, Spawn, TurnId
from agentx_replay.plan.plan import Plan
from agentx_replay.replay.ports import Dispatch, PlayRecord, Response, Status
from agentx_replay.scenario import Scenario, load_scenario
from agentx_replay.traces.corpus import read_corpus

Pair = tuple[Dispatch, Response]
Change = Callable[[Dispatch, Response], Pair]

# Main: 0, then a turn that joins the child and follows its first request; 0 spawns the child.
FAMILY = graph(
    [turn(0, 0), turn(1, 9, gap_s=1.0, joins=[Join(1, 0.0)]), turn(2, 20, gap_s=2.0)],
    (Spawn(TurnId(0, 0), at_issue=False, offset_s=0.0), [turn(3, 1), turn(4, 3, gap_s=1.0)]),
)
# Two flattened conversations; the main one's second request follows the other's first.
PAIR = graph(
    [turn(0, 0), turn(1, 5, gap_s=0.5, after=[TurnId(1, 0)]), turn(2, 9, gap_s=1.0)],
    (Spawn(TurnId(0, 0), at_issue=True, offset_s=0.0), [turn(3, 0)]),
)


def table(pairs: list[Pair]) -> pa.Table:
    return request_table(pairs).select(COLUMNS)


def checked(
    of: SessionGraph,
    change: Change = lambda sent, came: (sent, came),
    *,
    scenario: Scenario = SCENARIO,
    status: Callable[[Dispatch], Status] = lambda _: Status.OK,
) -> Conformity:
    """The report of a replay of ``of`` on one lane, with its records changed."""
    scenario = replace(scenario, window_s=30.0)
    run = replay([of], scenario=scenario, status=status)
    pairs = [change(sent, came) for sent, came in run.log.requests]
    return conformity(plan_of([of], 1, scenario), table(pairs))


def at(conversation: int, turn: int, **stamps: int) -> Change:
    """Change the stamps of one turn of the lane's first play."""

    def change(sent: Dispatch, came: Response) -> Pair:
        if (sent.play_number, sent.conversation, sent.turn) != (0, conversation, turn):
            return sent, came
        return sent, replace(came, **stamps)  # type: ignore[arg-type]

    return change


def breaches(found: Conformity) -> tuple[int, int, int, int]:
    """Order, joins, spawns, early requests."""
    assert found.gaps is not None
    return found.order, found.joins, found.spawns, found.gaps.early


@pytest.mark.parametrize("of", [FAMILY, PAIR])
@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.6])
def test_a_replay_keeps_order_joins_spawns_and_gaps(of: SessionGraph, fraction: float) -> None:
    scenario = replace(SCENARIO, start_fraction=(fraction, fraction), warmup_requests=1)
    found = checked(of, scenario=scenario)
    assert breaches(found) == (0, 0, 0, 0)
    assert found.gaps is not None
    assert found.gaps.greatest_ms == 0.0


def test_capped_gaps_are_held_against_what_the_caps_left_of_them() -> None:
    idle = graph([turn(0, 0), turn(1, 60, gap_s=50.0), turn(2, 70, gap_s=3.0)])
    found = checked(idle, scenario=replace(SCENARIO, system_idle_cap_s=10.0))
    assert breaches(found) == (0, 0, 0, 0)
    assert found.gaps is not None
    assert found.gaps.greatest_ms == 0.0


# FAMILY: main 0 takes 0–1, the child 1–2 and 3–4, main 1 starts at 4, main 2 at 7.
# PAIR: main 0 and the other conversation take 0–1, main 1 starts at 1.5, main 2 at 3.5.
BREACHES = {
    "before the conversation's predecessor ended": (FAMILY, at(0, 2, send_ns=4 * S), (1, 0, 0, 1)),
    "before the gap was over": (FAMILY, at(0, 2, send_ns=6 * S), (0, 0, 0, 1)),
    "before the child was over": (FAMILY, at(1, 1, end_ns=5 * S), (0, 1, 0, 0)),
    "before the request that spawns it ended": (FAMILY, at(1, 0, send_ns=S // 2), (0, 0, 1, 0)),
    "before a request of another conversation ended": (PAIR, at(1, 0, end_ns=2 * S), (1, 0, 0, 1)),
    "before the request that spawns it was issued": (PAIR, at(1, 0, send_ns=-1), (0, 0, 1, 0)),
}


@pytest.mark.parametrize(("of", "change", "found"), BREACHES.values(), ids=BREACHES)
def test_a_request_sent_too_early_is_found(
    of: SessionGraph, change: Change, found: tuple[int, int, int, int]
) -> None:
    assert breaches(checked(of, change)) == found


def test_a_request_that_waits_for_one_never_sent_is_found() -> None:
    run = replay([FAMILY], scenario=replace(SCENARIO, window_s=8.0))
    pairs = [p for p in run.log.requests if (p[0].conversation, p[0].turn) != (1, 1)]
    found = conformity(plan_of([FAMILY], 1, SCENARIO), table(pairs))
    assert (found.order, found.joins) == (0, 1)


def test_a_conversation_whose_spawning_request_was_never_sent_is_found() -> None:
    run = replay([FAMILY], scenario=replace(SCENARIO, window_s=1.5))
    pairs = [pair for pair in run.log.requests if pair[0].conversation == 1]
    assert len(pairs) == 1
    assert conformity(plan_of([FAMILY], 1, SCENARIO), table(pairs)).spawns == 1


def test_a_conversation_that_starts_with_the_play_waits_for_no_request() -> None:
    early = graph([turn(0, 0)], (Spawn(None, at_issue=False, offset_s=5.0), [turn(1, 5)]))
    assert checked(early).spawns == 0
    # Sent or not yet: nobody has to have spawned it.
    run = replay([early], scenario=replace(SCENARIO, window_s=2.0))
    found = conformity(plan_of([early], 1, SCENARIO), table(run.log.requests))
    assert (found.requests, found.spawns, found.abandoned_requests) == (1, 0, 0)


def test_lateness_counts_from_the_earliest_instant() -> None:
    found = checked(FAMILY, at(0, 2, send_ns=7 * S + 5_000_000)).gaps
    assert found is not None
    assert found.greatest_ms == 5.0


def test_what_overflowed_ends_its_conversation_and_breaks_nothing() -> None:
    # The child overflows at once: its second request is never sent, and main goes on.
    found = checked(FAMILY, status=lambda d: Status.OVERFLOW if d.conversation == 1 else Status.OK)
    assert (found.order, found.joins, found.spawns) == (0, 0, 0)
    assert found.abandoned_requests > 0


def test_a_main_conversation_that_overflows_takes_with_it_what_it_would_have_spawned() -> None:
    # Of the first play: main 1 and 2, and the child's two, which main 0's end would have spawned.
    run = replay(
        [FAMILY], scenario=replace(SCENARIO, window_s=0.5), status=lambda _: Status.OVERFLOW
    )
    found = conformity(plan_of([FAMILY], 1, SCENARIO), table(run.log.requests))
    assert found.requests == 1
    assert found.abandoned_requests == 4


# -- prefixes, of sessions with blocks ---------------------------------------------------------


def family(directory: Path) -> Plan:
    """A session that forgets most of its prompt at its third request, and says one thing twice."""
    return planned(
        corpus(
            directory,
            session(
                "x",
                request(0, range(10)),
                request(2, range(12)),
                request(4, [*range(3), *range(50, 60)]),
                request(6, [*range(3), *range(50, 60)]),
                request(8, [*range(3), 90]),
                subagent(9, [request(9, [*range(3), 70, 71])]),
                request(14, [*range(3), *range(90, 100)], out=0),
                tools=128,
                system=64,
            ),
        ),
        replace(SCENARIO, window_s=30.0),
        1,
    )


def test_resets_and_prompts_sent_again_are_found_as_recorded(tmp_path: Path) -> None:
    plan = family(tmp_path)
    (played,) = replay_all(LevelRun(plan, "salt"))
    first = [pair for pair in played.log.requests if pair[0].play_number == 0]
    found = conformity(plan, table(first))
    # The third keeps 3 of 12 blocks, and the fifth 3 of 13 of its conversation's last prompt.
    assert (found.resets_recorded, found.resets_sent) == (2, 2)
    assert (found.reset_kept_tokens_recorded, found.reset_kept_tokens_sent) == (2 * 192, 2 * 192)
    assert found.repeated_prompts == 1
    assert (found.prefixes, found.overdeclared) == (0, 0)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"kept_blocks": 9}, (1, 0, 2)),
        ({"conversation_kept_blocks": 4}, (0, 0, 3)),
    ],
)
def test_a_prefix_other_than_the_recorded_is_found(
    tmp_path: Path, changed: dict[str, int], found: tuple[int, int, int]
) -> None:
    plan = family(tmp_path)
    (played,) = replay_all(LevelRun(plan, "salt"))
    pairs = [
        (replace(sent, **changed) if sent.turn == 1 else sent, came)  # type: ignore[arg-type]
        for sent, came in played.log.requests
        if sent.play_number == 0
    ]
    told = conformity(plan, table(pairs))
    # The second request kept all 10 blocks of the first.
    assert (told.prefixes, told.overdeclared, told.resets_sent) == found


def test_more_declared_than_tools_and_system_prompt_is_found(tmp_path: Path) -> None:
    plan = family(tmp_path)
    (played,) = replay_all(LevelRun(plan, "salt"))
    pairs = [
        (replace(sent, prompt=replace(sent.prompt, declared_blocks=4)), came)
        for sent, came in played.log.requests
        if sent.turn == 0 and sent.play_number == 0 and sent.conversation == 0
    ]
    assert conformity(plan, table(pairs)).overdeclared == 1


def test_what_is_odd_in_a_recording_is_counted(tmp_path: Path) -> None:
    odd = session(
        "odd",
        request(9, range(2)),
        # Listed after one that starts later.
        request(3, range(3), api_time=None),
        subagent(4, [], duration_ms=1000),
        # Recorded to end after every main request.
        subagent(5, [request(5, [70])], duration_ms=999_000),
        request(12, range(3)),
    )
    scenario = replace(SCENARIO, window_s=30.0, start_fraction=(0.0, 0.0))
    plan = planned(corpus(tmp_path, odd), scenario, 1)
    (played,) = replay_all(LevelRun(plan, "salt"))
    found = conformity(plan, table(played.log.requests))
    assert (found.negative_gaps, found.missing_durations) == (1, 1)
    assert (found.empty_subagents, found.unawaited_conversations) == (1, 1)


def test_the_recorded_sessions_are_replayed_as_recorded(real_traces: Path) -> None:
    scenario = load_scenario("agentx-faithful").override(window_s=600.0)
    plan = planned(read_corpus(real_traces), scenario, 8)
    (played,) = replay_all(LevelRun(plan, "salt"))
    found = conformity(plan, table(played.log.requests))
    assert found.requests > 100
    assert breaches(found) == (0, 0, 0, 0)
    assert (found.prefixes, found.overdeclared) == (0, 0)
    assert found.resets_sent == found.resets_recorded
    assert found.reset_kept_tokens_sent == found.reset_kept_tokens_recorded
    assert found.gaps is not None
    assert found.gaps.greatest_ms == 0.0


# -- records that end with a kill: what is on disk is judged, what is not is held against nobody

# Main 0 spawns the child as it is issued; main 1 joins it, and a third conversation spawned at its
# end.
TREE = graph(
    [turn(0, 0), turn(1, 9, gap_s=1.0, joins=[Join(1, 0.0), Join(2, 0.0)])],
    (Spawn(TurnId(0, 0), at_issue=True, offset_s=0.0), [turn(2, 1), turn(3, 3, gap_s=0.1)]),
    (Spawn(TurnId(0, 0), at_issue=False, offset_s=0.0), [turn(4, 4)]),
)


def killed(plan: Plan, pairs: list[Pair], plays: list[PlayRecord], at: int) -> Conformity:
    """The report of what is on disk where a kill came after ``at`` responses."""
    found = table(pairs[:at])
    last_ns = pairs[at - 1][1].end_ns
    over = [play for play in plays if play.end_ns is not None and play.end_ns <= last_ns]
    return conformity(plan, found, cut_off_plays(found, play_table(over)))


def unbroken(found: Conformity) -> bool:
    return (found.order, found.joins, found.spawns, found.prefixes) == (0, 0, 0, 0)


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
        assert unbroken(found), at


def test_a_whole_play_without_the_request_that_spawned_it_is_a_breach() -> None:
    run = replay([TREE], seconds=lambda sent: 0.5 if sent.conversation else 5.0)
    child = [
        pair for pair in run.log.requests if pair[0].conversation == 1 and pair[0].play_number == 0
    ][:1]
    plan = plan_of([TREE], 1, SCENARIO)
    assert conformity(plan, table(child)).spawns == 1
    assert conformity(plan, table(child), {(0, 0)}).spawns == 0


def test_a_conversation_spawned_at_an_end_that_is_not_on_record_is_a_breach_even_so() -> None:
    # That end would be on record: it came before the child was sent.
    run = replay([TREE])
    child = [
        pair for pair in run.log.requests if pair[0].conversation == 2 and pair[0].play_number == 0
    ]
    assert conformity(plan_of([TREE], 1, SCENARIO), table(child), {(0, 0)}).spawns == 1


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
    whole = conformity(plan, table(played.log.requests[:at]))
    assert whole.prefixes == 1  # if nothing were missing, the child would have kept two too many
    assert unbroken(killed(plan, played.log.requests, played.log.plays, at))


# -- plays -------------------------------------------------------------------------------------


def sent(lane: int, play_number: int, at_s: int) -> Pair:
    return (
        dispatch(lane=lane, play_number=play_number, play_id=f"l{lane}-p{play_number}"),
        response(send_ns=at_s * S, end_ns=(at_s + 1) * S),
    )


def lived(lane: int, play_number: int, start_s: int, end_s: int) -> PlayRecord:
    name = f"l{lane}-p{play_number}"
    at_ns = {"start_ns": start_s * S, "end_ns": end_s * S}
    return play(play_id=name, lane=lane, play_number=play_number, **at_ns)


def test_plays_with_responses_and_no_row_of_their_own_were_cut_off() -> None:
    found = table([sent(0, 0, 1), sent(0, 1, 6), sent(1, 0, 2)])
    assert cut_off_plays(found, play_table([lived(0, 0, 0, 5)])) == {(0, 1), (1, 0)}


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
    requests: list[Pair],
    plays: list[PlayRecord],
    lives: list[tuple[int, int, int, int | None]],
) -> None:
    found = with_live_plays(table(requests), play_table(plays))
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

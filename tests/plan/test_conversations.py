"""A session's graph: its conversations, when each starts, what waits for what, under both readings.

Prompts are strings, each character one block; times are in seconds.
"""

import pytest
from recordings import Marker, Sent, session

from agentx_replay.plan.conversations import ORPHANED, build_graph
from agentx_replay.plan.graph import (
    FAITHFUL,
    OFFICIAL,
    Conversation,
    GraphRules,
    Join,
    SessionGraph,
    Spawn,
    TurnId,
)

BOTH = pytest.mark.parametrize("rules", [OFFICIAL, FAITHFUL], ids=["official", "faithful"])


def graph(rules: GraphRules, *recorded: Sent | Marker) -> SessionGraph:
    return build_graph(session(*recorded), rules)


def only_child(rules: GraphRules, *recorded: Sent | Marker) -> Conversation:
    _, child = graph(rules, *recorded).conversations
    return child


def starts(conversation: Conversation) -> list[float]:
    return [turn.start_s for turn in conversation.turns]


def joins(of: SessionGraph) -> dict[int, tuple[Join, ...]]:
    """By turn of the main conversation, where there are any."""
    return {
        number: turn.joins for number, turn in enumerate(of.conversations[0].turns) if turn.joins
    }


# -- gaps ------------------------------------------------------------------------------------------

GAPS = {
    # The first names the session while the second already runs:
    # 9 - (3 + 9) = -3; 12 - (9 + 0) = 3; 20 - (12 + 5) = 3; the first has no predecessor.
    "from the recorded end to the next start, never negative": (
        [Sent(3, "t", 9), Sent(9, "ab", None), Sent(12, "abc", 5), Sent(20, "abcd")],
        [0, 0, 3, 3],
        [0, 0, 3, 3],
    ),
    "a recorded think time, faithfully": (
        [Sent(0, "a", 2), Sent(9, "ab", think_time_s=6.5), Sent(20, "abc", think_time_s=-1)],
        [0, 7, 10],
        [0, 6.5, 0],
    ),
    # It was counted from the end before that: 30 - (0 + 2) = 28, of which 20 are a whole turn.
    "no think time after a request of unknown duration": (
        [Sent(0, "a", 2), Sent(20, "ab", None), Sent(30, "abc", think_time_s=28)],
        [0, 18, 10],
        [0, 18, 10],
    ),
    # The list is 0, 5, 30; the conversation of the third request is 0, 30: its gap is 30 - (0 +
    # 10).
    "no think time counted from a request of another conversation": (
        [Sent(0, "ab", 10), Sent(5, "ax", 2), Sent(30, "abc", think_time_s=23)],
        [0, 20],
        [0, 20],
    ),
    "a subagent between two requests does not part them": (
        [Sent(0, "a", 2), Marker(3, [Sent(3, "x")], 2), Sent(9, "ab", think_time_s=7)],
        [0, 7],
        [0, 7],
    ),
}


@pytest.mark.parametrize(("recorded", "official", "faithful"), GAPS.values(), ids=GAPS)
def test_gaps_of_the_main_conversation(
    recorded: list[Sent | Marker], official: list[float], faithful: list[float]
) -> None:
    for rules, expected in ((OFFICIAL, official), (FAITHFUL, faithful)):
        main = graph(rules, *recorded).conversations[0]
        assert [turn.gap_s for turn in main.turns] == expected
        ends_s = [turn.start_s + (turn.request.duration_s or 0) for turn in main.turns]
        assert [turn.end_s for turn in main.turns] == ends_s


# -- subagents: spawn ------------------------------------------------------------------------------


def test_a_marker_at_its_completion_is_officially_read_as_the_spawn() -> None:
    # Recorded: spawned at 8, 126 s long, result at 134, main goes on at 153.
    recorded = (
        Sent(0, "a", 7),
        Marker(134, [Sent(0, "x", 5, start_s=8), Sent(20, "xy", 5, start_s=28)], 126, True),
        Sent(153, "ab"),
        Sent(260, "abc"),
    )
    official = graph(OFFICIAL, *recorded)
    # At the live end, with the inner requests at 134 and 154; 134 + 126 = 260 joins the last one.
    assert official.conversations[1].spawn == Spawn(TurnId(0, 0), at_issue=False, offset_s=0)
    assert starts(official.conversations[1]) == [134, 154]
    assert joins(official) == {2: (Join(1, 0),)}
    faithful = graph(FAITHFUL, *recorded)
    # 8 - 7 = 1 s after the live end; ended at 134, joined 153 - 134 = 19 s later.
    assert faithful.conversations[1].spawn == Spawn(TurnId(0, 0), at_issue=False, offset_s=1)
    assert starts(faithful.conversations[1]) == [8, 28]
    assert joins(faithful) == {1: (Join(1, 19),)}


@BOTH
def test_a_spawn_before_the_spawning_requests_end_is_at_its_issue_as_late_as_recorded(
    rules: GraphRules,
) -> None:
    child = only_child(rules, Sent(10, "a", 5), Marker(14, [Sent(14.5, "x")], 1))
    assert child.spawn == Spawn(TurnId(0, 0), at_issue=True, offset_s=4.5)


@BOTH
@pytest.mark.parametrize(
    ("duration_s", "marker_s"), [(None, 10), (0, 10), (5, 15)], ids=["none", "zero", "touching"]
)
def test_a_spawn_at_the_spawning_requests_end_or_after_it_is_at_the_live_end(
    rules: GraphRules, duration_s: float | None, marker_s: float
) -> None:
    recorded = Sent(10, "a", duration_s), Marker(marker_s, [Sent(marker_s, "x")], 1)
    assert only_child(rules, *recorded).spawn == Spawn(TurnId(0, 0), at_issue=False, offset_s=0)


def test_children_of_a_branch_officially_count_from_its_first_spawn() -> None:
    # Spawned at 6 and 9 by the request that ended at 5, both joined at 20: one branch.
    recorded = (
        Sent(0, "a", 5),
        Marker(6, [Sent(6, "x")], 2, agent_id="one"),
        Marker(9, [Sent(10, "y")], 2, agent_id="two"),
        Sent(20, "ab"),
    )
    official, faithful = graph(OFFICIAL, *recorded), graph(FAITHFUL, *recorded)
    spawns = [conversation.spawn for conversation in official.conversations[1:]]
    assert spawns == [Spawn(TurnId(0, 0), False, 0), Spawn(TurnId(0, 0), False, 4)]
    # Faithfully the wait from the end at 5 is kept: 6 - 5 and 10 - 5.
    spawns = [conversation.spawn for conversation in faithful.conversations[1:]]
    assert spawns == [Spawn(TurnId(0, 0), False, 1), Spawn(TurnId(0, 0), False, 5)]


def test_a_branch_whose_first_spawn_overlaps_is_officially_at_issue_as_a_whole() -> None:
    recorded = (
        Sent(0, "a", 5),
        Marker(4, [Sent(4, "x")], 2, agent_id="one"),
        Marker(9, [Sent(10, "y")], 2, agent_id="two"),
        Sent(20, "ab"),
    )
    official, faithful = graph(OFFICIAL, *recorded), graph(FAITHFUL, *recorded)
    assert official.conversations[2].spawn == Spawn(TurnId(0, 0), at_issue=True, offset_s=10)
    assert faithful.conversations[2].spawn == Spawn(TurnId(0, 0), at_issue=False, offset_s=5)


def test_conversations_go_by_branch_and_branches_by_first_appearance() -> None:
    # one and three are joined at 20, two is not joined.
    of = graph(
        OFFICIAL,
        Sent(0, "a"),
        Marker(2, [Sent(2, "x")], 1, agent_id="one"),
        Marker(3, [Sent(3, "y")], 99, agent_id="two"),
        Marker(4, [Sent(4, "z")], 1, agent_id="three"),
        Sent(20, "ab"),
    )
    assert [conversation.name for conversation in of.conversations] == [
        "main",
        "sa:one",
        "sa:three",
        "sa:two",
    ]
    assert [conversation.index for conversation in of.conversations] == [0, 1, 2, 3]


def test_an_inner_time_before_the_marker_officially_counts_from_it_and_no_other_does() -> None:
    # The file's inner times are relative: 5 is 105 and 150 is 250; officially 150 stays 150.
    recorded = (
        Sent(0, "a"),
        Marker(100, [Sent(5, "x", start_s=105), Sent(150, "xy", start_s=250)]),
    )
    assert starts(only_child(OFFICIAL, *recorded)) == [105, 150]
    assert starts(only_child(FAITHFUL, *recorded)) == [105, 250]


@BOTH
def test_a_subagent_without_requests_has_no_conversation(rules: GraphRules) -> None:
    of = graph(rules, Sent(0, "a"), Marker(2, [], 5), Sent(20, "ab"))
    assert [conversation.name for conversation in of.conversations] == ["main"]
    assert (joins(of), of.dropped_requests) == ({}, 0)


# -- subagents: join -------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("duration_s", "joined"),
    [(3, 1), (5, 1), (5.1, 2), (25, None), (-1, 1)],
    ids=["before", "just then", "after", "later than all", "negative"],
)
def test_the_first_later_request_that_starts_at_the_childs_end_or_after_joins_it(
    rules: GraphRules, duration_s: float, joined: int | None
) -> None:
    of = graph(
        rules,
        Sent(0, "a"),
        Marker(5, [Sent(5, "x")], duration_s),
        Sent(10, "ab"),
        Sent(20, "abc"),
    )
    assert list(joins(of)) == ([] if joined is None else [joined])
    assert of.conversations[1].background == (joined is None)


@BOTH
def test_a_child_of_unknown_duration_ends_with_its_last_request(rules: GraphRules) -> None:
    of = graph(
        rules,
        Sent(0, "a"),
        Marker(5, [Sent(5, "x", 1), Sent(7, "xy", 4)]),
        Sent(10, "ab"),
        Sent(11, "abc"),
    )
    assert list(joins(of)) == [2]


def test_the_recorded_pause_after_a_join_is_kept_in_the_faithful_reading() -> None:
    recorded = Sent(0, "a"), Marker(5, [Sent(5, "x")], 3), Sent(10, "ab")
    assert joins(graph(OFFICIAL, *recorded)) == {1: (Join(1, 0),)}
    assert joins(graph(FAITHFUL, *recorded)) == {1: (Join(1, 2),)}


def test_a_pause_is_never_negative() -> None:
    # The child ends a millionth of a second after the request that joins it starts.
    recorded = Sent(0, "a"), Marker(5, [Sent(5, "x")], 5.000_000_5), Sent(10, "ab")
    assert joins(graph(FAITHFUL, *recorded)) == {1: (Join(1, 0),)}


# -- subagents: before every main request ----------------------------------------------------------


def test_a_subagent_before_every_main_request_is_officially_dropped_and_counted() -> None:
    of = graph(OFFICIAL, Marker(0, [Sent(0, "x"), Sent(1, "xy")], 3), Sent(10, "a"))
    assert [conversation.name for conversation in of.conversations] == ["main"]
    assert (of.dropped_requests, of.drop_reason) == (2, ORPHANED)


def test_a_subagent_before_every_main_request_faithfully_starts_with_the_play() -> None:
    of = graph(
        FAITHFUL,
        Marker(0, [Sent(0, "x")], 3, agent_id="one"),
        Marker(0, [Sent(11, "y")], 12, agent_id="two"),
        Sent(10, "a"),
        Sent(20, "ab"),
    )
    # A play starts with its main conversation at 10: what came before is at once, the other 1 s
    # later.
    assert of.conversations[1].spawn == Spawn(None, at_issue=False, offset_s=0)
    assert of.conversations[2].spawn == Spawn(None, at_issue=False, offset_s=1)
    assert joins(of) == {0: (Join(1, 7),), 1: (Join(2, 8),)}
    assert (of.dropped_requests, of.drop_reason) == (0, "")


def test_a_session_without_main_requests_has_an_empty_main_conversation() -> None:
    recorded = Marker(5, [Sent(6, "x")], 3), Marker(5, [Sent(8, "y")], 3)
    assert graph(OFFICIAL, *recorded).conversations[0].turns == ()
    assert graph(OFFICIAL, *recorded).dropped_requests == 2
    faithful = graph(FAITHFUL, *recorded)
    assert faithful.conversations[0].turns == ()
    offsets = [s.spawn.offset_s for s in faithful.conversations[1:] if s.spawn is not None]
    assert offsets == [0, 2]


# -- flattened agents ------------------------------------------------------------------------------

INTERLEAVED = (
    Sent(0, "ab", 10),
    Sent(5, "axy", 3),
    Sent(12, "abc", 3),
    Sent(13, "axyz", 4),
    Sent(30, "abcd"),
)
"""Two agents in one list: one at 0, 12 and 30, one at 5 and 13 that ends at 17."""


@BOTH
def test_agents_in_one_list_become_conversations_spawned_and_joined_by_the_main_one(
    rules: GraphRules,
) -> None:
    of = graph(rules, *INTERLEAVED)
    assert [(s.name, starts(s)) for s in of.conversations] == [
        ("main", [0, 12, 30]),
        ("fa:000", [5, 13]),
    ]
    # The one at 0 ran until 10 when the other began at 5.
    assert of.conversations[1].spawn == Spawn(TurnId(0, 0), at_issue=True, offset_s=5)
    assert [turn.gap_s for turn in of.conversations[1].turns] == [0, 5]
    assert list(joins(of)) == [2]


@BOTH
def test_order_across_flattened_conversations_is_kept(rules: GraphRules) -> None:
    main, other = graph(rules, *INTERLEAVED).conversations
    # At 12 the one at 5 had ended (8); at 13 the one at 0 had (10); at 30 the one at 13 (17).
    assert [turn.after for turn in main.turns] == [(), (TurnId(1, 0),), (TurnId(1, 1),)]
    assert [turn.after for turn in other.turns] == [(), (TurnId(0, 0),)]


def test_faithfully_the_pause_after_a_flattened_agent_counts_from_its_last_end() -> None:
    assert joins(graph(FAITHFUL, *INTERLEAVED)) == {2: (Join(1, 13),)}
    assert joins(graph(OFFICIAL, *INTERLEAVED)) == {2: (Join(1, 0),)}


def test_conversations_that_never_overlap_are_faithfully_one_agent_that_was_reset() -> None:
    recorded = Sent(0, "abcd"), Sent(10, "aX"), Sent(20, "abcde")
    assert [starts(s) for s in graph(OFFICIAL, *recorded).conversations] == [[0, 20], [10]]
    assert [starts(s) for s in graph(FAITHFUL, *recorded).conversations] == [[0, 10, 20]]


@BOTH
def test_a_list_that_holds_one_agent_stays_in_file_order(rules: GraphRules) -> None:
    assert starts(graph(rules, Sent(10, "ab"), Sent(0, "a")).conversations[0]) == [10, 0]


@BOTH
def test_subagents_and_main_conversation_are_not_ordered_but_by_spawn_and_join(
    rules: GraphRules,
) -> None:
    of = graph(rules, Sent(0, "a"), Marker(5, [Sent(5, "x", 3)], 99), Sent(10, "ab"))
    assert [[turn.after for turn in conversation.turns] for conversation in of.conversations] == [
        [(), ()],
        [()],
    ]


@BOTH
def test_agents_flattened_inside_a_subagent_are_its_siblings(rules: GraphRules) -> None:
    inner = Sent(6, "xy", 10), Sent(8, "xz", 1), Sent(20, "xyw", 1)
    of = graph(rules, Sent(0, "a", 5), Marker(6, inner, 20, agent_id="A"), Sent(40, "ab"))
    assert [(s.name, starts(s)) for s in of.conversations] == [
        ("main", [0, 40]),
        ("sa:A", [6, 20]),
        ("sa:A:fa:000", [8]),
    ]
    offsets = [s.spawn.offset_s for s in of.conversations if s.spawn is not None]
    # Officially from the spawn at 6, faithfully from the end at 5.
    assert offsets == ([0, 2] if rules is OFFICIAL else [1, 3])
    assert [join.conversation for join in of.conversations[0].turns[1].joins] == [1, 2]
    # The one at 8 had ended at 9 when the one at 20 began; main and subagent are not ordered.
    assert [[turn.after for turn in s.turns] for s in of.conversations] == [
        [(), ()],
        [(), (TurnId(2, 0),)],
        [()],
    ]


def test_a_subagent_among_flattened_agents_is_spawned_by_the_main_conversations_last_request() -> (
    None
):
    # Before the marker the list holds 0, 5 (the other agent's) and 12; main's are turns 0 and 1.
    of = graph(OFFICIAL, *INTERLEAVED[:3], Marker(20, [Sent(20, "q")], 1), *INTERLEAVED[3:])
    assert [conversation.name for conversation in of.conversations] == ["main", "sa:a", "fa:000"]
    assert of.conversations[1].spawn == Spawn(TurnId(0, 1), at_issue=False, offset_s=0)


# -- time out of order -----------------------------------------------------------------------------


@BOTH
def test_a_flattened_agent_is_spawned_by_what_was_sent_before_it_whatever_the_file_order(
    rules: GraphRules,
) -> None:
    # By file order the request at 12 would spawn the one at 5, for which it waits.
    swapped = (INTERLEAVED[0], INTERLEAVED[2], INTERLEAVED[1], *INTERLEAVED[3:])
    of = graph(rules, *swapped)
    assert of.conversations[1].spawn == Spawn(TurnId(0, 0), at_issue=True, offset_s=5)

"""How Claude Code's logs become sessions; each expected value is worked out by hand."""

from pathlib import Path
from typing import Any

import pytest
from claude_logs import (
    ZERO,
    answer,
    boundary,
    line,
    rows,
    text,
    told,
    tool_result,
    tool_use,
    usage,
    write_log,
)

from agentx_replay.traces.importing.claude_code import read_claude_code
from agentx_replay.traces.importing.claude_transcript import LOGGED
from agentx_replay.traces.importing.record import ImportedSession, Ledger


def imported(*files: Path) -> tuple[list[ImportedSession], Ledger]:
    ledger = Ledger()
    return list(read_claude_code(files, ledger)), ledger


def session_of(folder: Path, *lines: dict[str, Any]) -> tuple[ImportedSession, Ledger]:
    (session,), ledger = imported(write_log(folder / "s.jsonl", *lines))
    return session, ledger


def test_a_session_with_two_subagents_an_expiry_a_rebuild_and_a_compaction(tmp_path: Path) -> None:
    """Main: 2 + 10,000 + 6,398 = 16,400 tokens first. Its cache then has 16,398, which the second
    reads; after 954 s it reads 0 although the prompt goes on; 11 s later it reads less than the
    19,998 that were cached, so the prompt was rebuilt.
    """
    repeated = {"type": "agent_progress", "agentId": "a"}
    written = tool_use("x", command="y" * 20)
    main = write_log(
        tmp_path / "s.jsonl",
        told(0),
        answer(4, "m1", usage(10_000, 6_398, 200), text(30)),
        answer(5, "m1", usage(10_000, 6_398, 200), tool_use("c1", command="x")),
        tool_result(7, "c1"),
        answer(
            12,
            "m2",
            usage(16_398, 600, 300),
            tool_use("c2", "Task", subagent_type="Explore", prompt="p"),
            tool_use("c3", "Task", subagent_type="Plan", prompt="q"),
        ),
        tool_result(12.5, "c3", agentId="b", status="async_launched", isAsync=True),
        line("progress", 13, data={**repeated, "message": answer(13, "a1", usage(0, 9_000, 1))}),
        tool_result(40, "c2", agentId="a", usage=usage(9_000, 497, 400, fresh=3)),
        answer(46, "m3", usage(16_998, 1_000, 500)),
        line("assistant", 50, isApiErrorMessage=True, message={"model": "<synthetic>"}),
        told(1_000),
        answer(1_010, "m4", usage(0, 19_998, 100), tool_use("c4", command="x")),
        tool_result(1_011, "c4"),
        answer(1_014, "m5", usage(10_000, 10_498, 50)),
        boundary(1_029),
        told(1_030, isCompactSummary=True),
        answer(1_033, "m6", usage(10_000, 2_998, 60)),
    )  # fmt: skip
    write_log(
        tmp_path / "s" / "subagents" / "agent-a.jsonl",
        told(12.1),
        answer(20, "a1", usage(0, 9_000, 1, fresh=3), written, stop_reason=None),
        tool_result(22, "x"),
        answer(39.5, "a2", usage(9_000, 497, 2, fresh=3), text(900), stop_reason=None),
    )  # fmt: skip
    write_log(
        tmp_path / "s" / "subagents" / "agent-b.jsonl",
        told(12.4),
        answer(100, "b1", usage(0, 8_000, 900, fresh=3)),
    )
    (session,), _ = imported(main)
    assert rows(session.requests) == [
        (0, 5, 16_400, 200, 0),
        (7, 5, 17_000, 300, 16_398),
        (40, 6, 18_000, 500, 16_998),
        (1_000, 10, 20_000, 100, 17_998),
        (1_011, 3, 20_500, 50, 10_000),
        (1_030, 3, 13_000, 60, 10_000),
    ]
    awaited, background = session.subagents
    # 0.31 × (4 of "Bash" + 35 of {"command": "y…"}) + 32 + 31 = 75.09; 400 is the result's.
    assert rows(awaited.requests) == [(12.1, 7.9, 9_003, 75, 0), (22, 17.5, 9_500, 400, 9_000)]
    assert (awaited.spawn_ms, awaited.join_ms) == (ZERO * 1000 + 12_000, ZERO * 1000 + 40_000)
    assert rows(background.requests) == [(12.4, 87.6, 8_003, 900, 0)]
    assert (background.join_ms, background.kind) == (None, "Plan")
    assert session.system_tokens == 10_000
    assert session.notes.facts == {LOGGED: 200 + 300 + 500 + 100 + 50 + 60 + 3 + 900}


def test_lines_of_one_response_are_one_request_wherever_they_stand(tmp_path: Path) -> None:
    """A tool's result lies within the response: it bounds the next request, not this one."""
    session, _ = session_of(
        tmp_path,
        told(0),
        answer(2, "m1", usage(0, 1_000, 3), tool_use("c1", command="x"), stop_reason=None),
        tool_result(3, "c1"),
        answer(4, "m1", usage(0, 1_000, 80), tool_use("c2", command="x")),
        tool_result(6, "c2"),
        answer(9, "m2", usage(1_000, 50)),
    )
    assert rows(session.requests) == [(0, 4, 1_002, 80, 0), (6, 3, 1_052, 100, 1_000)]


@pytest.mark.parametrize(
    ("logged", "lines", "expected"),
    [
        ((1,), {"stop_reason": None}, 341),  # 0.31 × 1,000 + 31
        ((171,), {"stop_reason": None}, 171),  # at least half of 341: taken for a count
        ((170,), {"stop_reason": None}, 341),
        ((1,), {"stop_reason": "end_turn"}, 1),  # final, whatever was written
        ((1, 7), {"stop_reason": None}, 7),  # lines that differ: the last one is final
    ],
)
def test_a_placeholder_gives_way_to_an_estimate(
    tmp_path: Path, logged: tuple[int, ...], lines: dict[str, Any], expected: int
) -> None:
    answers = [
        answer(2 + at, "m", usage(0, 10, out), *([text(1_000)] * (not at)), **lines)
        for at, out in enumerate(logged)
    ]
    session, _ = session_of(tmp_path, told(0), *answers)
    assert session.requests[0].output_tokens == expected


@pytest.mark.parametrize(
    ("second", "gap_s", "model", "shared"),
    [
        (usage(10_000, 500), 4, "claude-opus-4-8", 10_000),  # all that was cached: append
        (usage(10_400, 100), 4, "claude-opus-4-8", 10_002),  # more: bounded by the prompt before
        (usage(4_000, 6_500), 299, "claude-opus-4-8", 4_000),  # within 300 s: a rebuild
        (usage(4_000, 6_500), 301, "claude-opus-4-8", 10_000),  # later: expired
        (usage(0, 10_500), 4, "claude-haiku-4-5", 10_000),  # caches are per model
        (usage(0, 3_000), 400, "claude-opus-4-8", 3_002),  # no more than the prompt itself
    ],
)
def test_what_a_prompt_shares_follows_from_what_the_cache_read(
    tmp_path: Path, second: dict[str, Any], gap_s: float, model: str, shared: int
) -> None:
    session, _ = session_of(
        tmp_path,
        told(0),
        answer(1, "m1", usage(4_000, 6_000)),
        told(gap_s),
        answer(gap_s + 1, "m2", second, model=model),
    )
    assert session.requests[1].shared_tokens == shared


def test_a_cache_paid_for_an_hour_lives_an_hour(tmp_path: Path) -> None:
    hour = {"cache_creation": {"ephemeral_1h_input_tokens": 6_000}}
    session, _ = session_of(
        tmp_path,
        told(0),
        answer(1, "m1", usage(4_000, 6_000) | hour),
        told(3_000),
        answer(3_001, "m2", usage(4_000, 6_500)),
    )
    assert session.requests[1].shared_tokens == 4_000


def test_the_call_that_writes_a_summary_stands_in_the_main_list(tmp_path: Path) -> None:
    main = write_log(
        tmp_path / "s.jsonl",
        told(0),
        answer(2, "m1", usage(0, 9_000)),
        boundary(30),
        told(30),
        answer(33, "m2", usage(3_000, 2_000)),
    )
    summary = answer(28, "k", usage(9_000, 40, 700))
    write_log(tmp_path / "s" / "subagents" / "agent-acompact-1.jsonl", told(10), summary)
    (session,), _ = imported(main)
    assert rows(session.requests) == [
        (0, 2, 9_002, 100, 0),
        (10, 18, 9_042, 700, 9_000),
        (30, 3, 5_002, 100, 3_000),
    ]
    assert not session.notes.assumed


def test_a_second_agent_of_a_type_and_model_shares_the_standing_prompt_of_the_first(
    tmp_path: Path,
) -> None:
    task = {"subagent_type": "Explore", "prompt": "p"}
    main = write_log(
        tmp_path / "s.jsonl",
        told(0),
        answer(1, "m", usage(0, 500), tool_use("c", "Task", **task), tool_use("d", "Task", **task)),
        tool_result(9, "c", agentId="a", status="completed"),
        tool_result(9, "d", agentId="b", status="completed"),
    )
    folder = tmp_path / "s" / "subagents"
    write_log(folder / "agent-a.jsonl", told(2), answer(3, "a1", usage(0, 7_000)))
    write_log(folder / "agent-b.jsonl", told(4), answer(5, "b1", usage(6_000, 1_500)))
    (session,), _ = imported(main)
    assert [agent.requests[0].shared_tokens for agent in session.subagents] == [0, 6_000]
    assert session.subagents[1].requests[0].parent is session.subagents[0].requests[0]


def test_a_subagent_whose_file_is_gone_is_read_from_what_the_session_repeats(
    tmp_path: Path,
) -> None:
    repeated = {"type": "agent_progress", "agentId": "a"}
    session, _ = session_of(
        tmp_path,
        told(0),
        answer(1, "m", usage(0, 500), tool_use("c", "Agent", subagent_type="Plan", prompt="p")),
        line("progress", 2, data={**repeated, "message": told(2)}),
        line("progress", 5, data={**repeated, "message": answer(5, "a1", usage(0, 800, 40))}),
        line("progress", 6, data={**repeated, "message": tool_result(6, "x")}),
        tool_result(9, "c", agentId="a", usage=usage(800, 100, 70)),
    )
    (agent,) = session.subagents
    assert rows(agent.requests) == [(2, 3, 802, 40, 0), (6, 3, 902, 70, 800)]
    assert sum(session.notes.assumed.values()) == 1


def test_agents_of_the_oldest_versions_are_lines_of_the_session(tmp_path: Path) -> None:
    side = {"isSidechain": True}
    session, _ = session_of(
        tmp_path,
        told(0),
        answer(1, "m", usage(0, 500), tool_use("c", "Task", subagent_type="Plan", prompt="go")),
        told(2, uuid="s1", parentUuid=None, **side),
        answer(4, "a1", usage(0, 300), uuid="s2", parentUuid="s1", **side),
        tool_result(5, "c"),
        answer(7, "m2", usage(500, 20)),
    )
    assert rows(session.requests) == [(0, 1, 502, 100, 0), (5, 2, 522, 100, 500)]
    (agent,) = session.subagents
    assert (rows(agent.requests), agent.kind) == ([(2, 2, 302, 100, 0)], "Plan")
    assert (agent.spawn_ms, agent.join_ms) == (ZERO * 1000 + 1_000, ZERO * 1000 + 5_000)


def test_a_resumed_file_keeps_only_its_own_requests(tmp_path: Path) -> None:
    first = [told(0), answer(2, "m1", usage(0, 900))]
    older = write_log(tmp_path / "a.jsonl", *first)
    newer = write_log(tmp_path / "b.jsonl", *first, told(60), answer(62, "m2", usage(900, 40)))
    sessions, ledger = imported(newer, older)
    assert [rows(each.requests) for each in sessions] == [
        [(0, 2, 902, 100, 0)],
        [(60, 2, 942, 100, 0)],
    ]
    assert sum(ledger.left_out.values()) == 1


def test_after_a_rewind_a_prompt_goes_on_from_the_last_request_that_it_holds(
    tmp_path: Path,
) -> None:
    session, _ = session_of(
        tmp_path,
        told(0, uuid="u1"),
        answer(1, "m1", usage(0, 1_000), uuid="a1", parentUuid="u1"),
        told(2, uuid="u2", parentUuid="a1"),
        answer(3, "m2", usage(1_000, 500), uuid="a2", parentUuid="u2"),
        told(4, uuid="u3", parentUuid="a1"),
        answer(5, "m3", usage(1_000, 90), uuid="a3", parentUuid="u3"),
    )
    first, _, third = session.requests
    assert (third.parent, third.shared_tokens) == (first, 1_000)


def test_a_clock_that_goes_backwards_is_held_at_the_start_ahead(tmp_path: Path) -> None:
    session, _ = session_of(
        tmp_path,
        told(10),
        answer(12, "m1", usage(0, 1_000)),
        told(5),
        answer(7, "m2", usage(1_000, 50)),
    )
    assert rows(session.requests) == [(10, 2, 1_002, 100, 0), (10, 0, 1_052, 100, 1_000)]
    assert list(session.notes.assumed.values()) == [1]


def test_an_agent_whose_session_is_gone_is_a_session_of_its_own(tmp_path: Path) -> None:
    agent = tmp_path / "s" / "subagents" / "agent-a.jsonl"
    (session,), _ = imported(write_log(agent, told(0), answer(2, "a1", usage(0, 900))))
    assert rows(session.requests) == [(0, 2, 902, 100, 0)]


def test_a_suggestion_is_of_the_main_list_unless_it_overlaps_a_main_request(tmp_path: Path) -> None:
    main = write_log(
        tmp_path / "s.jsonl",
        told(0),
        answer(2, "m1", usage(0, 900)),
        told(30),
        answer(40, "m2", usage(900, 50)),
    )
    folder = tmp_path / "s" / "subagents"
    write_log(folder / "agent-aprompt_suggestion-1.jsonl", told(5), answer(6, "p", usage(900, 9)))
    write_log(folder / "agent-aside_question-1.jsonl", told(31), answer(35, "q", usage(900, 7)))
    (session,), _ = imported(main)
    assert rows(session.requests) == [
        (0, 2, 902, 100, 0),
        (5, 1, 911, 100, 900),
        (30, 10, 952, 100, 900),
    ]
    (beside,) = session.subagents
    assert (rows(beside.requests), beside.join_ms) == ([(31, 4, 909, 100, 900)], None)

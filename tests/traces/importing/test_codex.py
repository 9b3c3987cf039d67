"""How Codex's rollouts become sessions; each expected value is worked out by hand."""

from pathlib import Path
from typing import Any

import pytest
from claude_logs import ZERO, rows, write_log
from codex_logs import PARENT, Counts, context, ended, item, line, meta, person, spawned

from agentx_replay.traces.importing import codex
from agentx_replay.traces.importing.record import ImportedSession, Ledger


def imported(*files: Path) -> tuple[list[ImportedSession], Ledger]:
    ledger = Ledger()
    return list(codex.read_codex(files, ledger)), ledger


def session_of(folder: Path, *lines: dict[str, Any]) -> ImportedSession:
    (session,), _ = imported(write_log(folder / "rollout-1.jsonl", meta(0, "a"), *lines))
    return session


def test_a_request_is_a_running_total_that_changed(tmp_path: Path) -> None:
    session = session_of(tmp_path, *PARENT)
    assert rows(session.requests) == [
        (1, 8, 12_000, 300, 0),
        (10, 4, 12_800, 100, 12_000),
        (60, 5, 12_500, 80, 12_000),
    ]
    assert session.system_tokens == 2_560
    assert session.notes.facts == {
        codex.RATE_LIMITS: 1,
        codex.REEMITTED: 2,
        codex.REPORTED: 26_624,
        codex.STRUCTURE: 24_000,
    }


def test_the_replay_of_a_parent_is_no_request(tmp_path: Path) -> None:
    """Both children begin with the parent's totals; 21,000 - 12,000 = 9,000 are the child's own."""
    parent = write_log(tmp_path / "rollout-1.jsonl", meta(0, "a"), *PARENT)
    child = write_log(
        tmp_path / "rollout-2.jsonl",
        spawned(12, "c", "a"),
        ended(12, (12_000, 2_560, 300)),
        person(12.2),
        context(12.2),
        ended(30, (21_000, 5_120, 1_000), (9_000, 2_560, 700)),
    )
    fork = write_log(
        tmp_path / "rollout-3.jsonl",
        meta(200, "b", forked_from_id="a"),
        *(ended(200, total) for total in ((12_000, 2_560, 300), (24_800, 14_720, 400))),
        ended(200, (37_300, 26_624, 480)),
        person(210),
        ended(216, (51_300, 38_656, 540), (14_000, 12_032, 60)),
    )
    (first, second), _ = imported(parent, child, fork)
    (agent,) = first.subagents
    assert rows(agent.requests) == [(12.2, 17.8, 9_000, 700, 0)]
    assert (agent.spawn_ms, agent.join_ms) == (ZERO * 1000 + 12_000, None)
    assert rows(second.requests) == [(210, 6, 14_000, 60, 0)]
    assert second.notes.facts[codex.FORKED] == 12_032
    assert first.notes.facts[codex.REPLAYED] + second.notes.facts[codex.REPLAYED] == 4


def test_without_its_parent_a_thread_skips_what_comes_within_two_seconds(tmp_path: Path) -> None:
    (session,), _ = imported(
        write_log(
            tmp_path / "rollout-2.jsonl",
            spawned(12, "c", "gone"),
            ended(13.9, (12_000, 0, 300)),
            ended(14.1, (21_000, 0, 1_000), (9_000, 0, 700)),
        )
    )
    assert [each.input_tokens for each in session.requests] == [9_000]


def test_a_subagent_is_joined_by_a_parent_that_waits_for_it(tmp_path: Path) -> None:
    parent = write_log(
        tmp_path / "rollout-1.jsonl",
        meta(0, "a"),
        person(1),
        ended(5, (100, 0, 9)),
        item(6, "function_call", name="wait_agent", call_id="w"),
        item(40, "function_call_output", call_id="w"),
        ended(44, (250, 0, 18), (150, 0, 9)),
    )
    child = write_log(
        tmp_path / "rollout-2.jsonl", spawned(3, "c", "a"), person(4), ended(30, (70, 0, 5))
    )
    (session,), _ = imported(parent, child)
    assert session.subagents[0].join_ms == ZERO * 1000 + 40_000


@pytest.mark.parametrize(
    ("between", "second", "shared"),
    [
        ([], (1_100, 256, 5), 1_000),  # the cache is a lower bound: within a turn prompts grow
        ([], (900, 256, 5), 256),  # shorter within a turn: the context was edited
        ([person(6)], (1_500, 1_280, 5), 1_000),  # no more than the prompt before
        ([line("compacted", 6, message="")], (400, 128, 5), 128),
        ([line("event_msg", 6, type="context_compacted")], (1_400, 128, 5), 128),
    ],
)
def test_what_a_prompt_shares_follows_from_turns(
    tmp_path: Path, between: list[dict[str, Any]], second: Counts, shared: int
) -> None:
    total = (1_000 + second[0], second[1], 10)
    session = session_of(
        tmp_path, person(0), ended(5, (1_000, 0, 5)), *between, ended(9, total, second)
    )
    assert session.requests[1].shared_tokens == shared


def test_a_snapshot_in_place_of_the_last_counts_gives_way_to_the_difference(tmp_path: Path) -> None:
    session = session_of(
        tmp_path, person(0), ended(5, (1_000, 0, 5)), ended(9, (2_100, 0, 9), (2_100, 0, 9))
    )
    assert [each.input_tokens for each in session.requests] == [1_000, 1_100]
    assert [each.output_tokens for each in session.requests] == [5, 4]


def test_a_tool_that_ended_within_a_response_starts_the_next_request(tmp_path: Path) -> None:
    session = session_of(
        tmp_path,
        person(0),
        item(3, "function_call", call_id="c"),
        item(4.6, "function_call_output", call_id="c"),
        ended(5, (1_000, 0, 5)),
        ended(9, (2_100, 0, 9), (1_100, 0, 4)),
    )
    assert [row[:2] for row in rows(session.requests)] == [(0, 5), (4.6, 4.4)]


def test_rollouts_without_counts_are_refused_with_the_reason(tmp_path: Path) -> None:
    old = write_log(tmp_path / "rollout-1.jsonl", {"type": "message", "role": "user"})
    empty = write_log(tmp_path / "rollout-2.jsonl", meta(0, "a"), person(1))
    sessions, ledger = imported(old, empty)
    assert sessions == []
    assert [each.partition(": ")[0] for each in ledger.refused] == [str(old), str(empty)]

"""How rows of public traces and of gateways become sessions; values are worked out by hand."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from claude_logs import instant, write_log
from refusals import refuses
from trace_rows import (
    Row,
    attributes,
    chat,
    chat_span,
    copilot,
    ended,
    litellm,
    mooncake,
    otlp,
    round_,
    span,
)

from agentx_replay.traces.importing.block_rows import NO_DURATION, with_durations
from agentx_replay.traces.importing.formats import named, recognised
from agentx_replay.traces.importing.record import ImportedSession, Ledger, Request
from agentx_replay.traces.importing.writer import Writer
from agentx_replay.traces.weka import read_session


def imported(name: str, folder: Path, *rows: Row) -> tuple[list[ImportedSession], Ledger]:
    ledger = Ledger()
    return list(named(name).read([write_log(folder / "rows.jsonl", *rows)], ledger)), ledger


def known(session: ImportedSession) -> list[tuple[int, int]]:
    """Return the known and all whole blocks of each request, as the reader of traces has them."""
    line = Writer(b"salt", Ledger()).line(session)
    assert line is not None
    return [(each.known_blocks, each.block_count) for each in read_session(line, "s").requests()]


def starts(requests: Sequence[Request]) -> list[int]:
    return [each.start_ms for each in requests]


def test_mooncake_rows_go_on_from_the_prompt_whose_whole_blocks_they_begin_with(
    tmp_path: Path,
) -> None:
    """The third row begins with both first prompts' blocks and goes on from the longer one. A
    partial last block (id 9 and 8) never recurs and is not written.
    """
    sessions, ledger = imported(
        "mooncake",
        tmp_path,
        mooncake(0, 600, 1, 9),
        mooncake(1_000, 1_100, 1, 2, 8),
        mooncake(5_000, 1_600, 1, 2, 3, 7),
        mooncake(6_000, 512, 4),
        mooncake(7_000, 300, 5),
        mooncake(8_000, 400, 6),
    )
    assert [starts(each.requests) for each in sessions] == [
        [0, 1_000, 5_000], [6_000], [7_000], [8_000],
    ]  # fmt: skip
    assert known(sessions[0]) == [(0, 1), (1, 2), (2, 3)]
    assert [known(each) for each in sessions[1:]] == [[(0, 1)], [(0, 0)], [(0, 0)]]
    assert sessions[0].block_tokens == 512
    assert ledger.remarks == []


def test_mooncake_rows_with_a_session_keep_it_and_may_have_a_pause_for_a_time(
    tmp_path: Path,
) -> None:
    sessions, _ = imported(
        "mooncake",
        tmp_path,
        mooncake(100, 512, 1, session_id="a"),
        mooncake(200, 512, 1, session_id="b"),
        mooncake(None, 1_024, 1, 2, session_id="a", delay=30, tool_wait_ms=7),
    )
    assert [starts(each.requests) for each in sessions] == [[100, 137], [200]]
    assert [each.system_tokens for each in sessions] == [512, 512]


def test_what_a_replay_cannot_share_across_sessions_is_remarked_on(tmp_path: Path) -> None:
    """The second session's first block is the first session's: 1 of 3 blocks against 0 of 3."""
    _, ledger = imported("mooncake", tmp_path, mooncake(0, 512, 1), mooncake(1, 1_024, 1, 2))
    assert len(ledger.remarks) == 0  # the second goes on from the first
    _, ledger = imported("mooncake", tmp_path, mooncake(0, 1_024, 1, 3), mooncake(1, 1_024, 1, 2))
    assert "25.00% across sessions and 0.00% within" in ledger.remarks[0]


def test_durations_can_be_assumed(tmp_path: Path) -> None:
    (session,), _ = imported("mooncake", tmp_path, mooncake(0, 512, 1))
    assert session.notes.assumed == {NO_DURATION: 1}
    assert with_durations(session, 3.0).requests[0].end_ms == 4_000  # 1 s + 9 tokens / 3 per s
    assert with_durations(session, None) is session


def test_bailian_chats_stay_with_the_first_of_their_chain(tmp_path: Path) -> None:
    """Chats 3 and 5 answer chat 1, and 4 answers 3; the parent of 6 is not there. Id 11 at another
    place is another block. Whole blocks: 4, 6, 9, 6; then 2; then 2.
    """
    sessions, _ = imported(
        "bailian",
        tmp_path,
        chat(1, -1, 0.5, 70, 10, 11, 12, 13, 14),
        chat(2, -1, 1.0, 40, 10, 11, 20),
        chat(3, 1, 30.0, 110, 10, 11, 12, 13, 15, 16, 17),
        chat(4, 3, 61.0, 150, 10, 11, 12, 13, 15, 16, 18, 19, 21, 22),
        chat(5, 1, 70.0, 100, 10, 11, 12, 13, 30, 31, 32),
        chat(6, 99, 80.0, 33, 40, 11, 41),
    )
    assert [known(each) for each in sessions] == [
        [(0, 4), (4, 6), (6, 9), (4, 6)], [(0, 2)], [(0, 2)],
    ]  # fmt: skip
    assert starts(sessions[0].requests) == [500, 30_000, 61_000, 70_000]


def test_a_row_that_cannot_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    sessions, ledger = imported(
        "mooncake",
        tmp_path,
        mooncake(0, 512, 1),
        {**mooncake(1, 512, 2), "input_length": "512"},
        {**mooncake(2, 512), "hash_ids": ["a"]},
    )
    assert len(sessions) == 1
    assert list(ledger.left_out.values()) == [2]
    (place,) = ledger.places.values()
    assert "rows.jsonl:2: input_length is '512'" in place


def test_tracelab_rounds_follow_the_rule_of_their_provider(tmp_path: Path) -> None:
    """Claude's cache read 900 of 1,000 within its life: a rebuild. Codex's prompt grew."""
    rounds = [
        round_(provider, index, instant(10 * index), counts)
        for provider in ("claude", "codex")
        for index, counts in ((1, (1_100, 900, 0)), (0, (1_002, 0, 1_000)))
    ]
    sessions, _ = imported("tracelab", tmp_path, *rounds)
    assert [[each.shared_tokens for each in of.requests] for of in sessions] == [
        [0, 900], [0, 1_002],
    ]  # fmt: skip
    first, second = sessions[0].requests
    assert (second.start_ms - first.start_ms, (first.end_ms or 0) - first.start_ms) == (10_000, 500)


def test_a_tracelab_round_without_events_starts_at_the_end_ahead(tmp_path: Path) -> None:
    (session,), _ = imported(
        "tracelab",
        tmp_path,
        round_("claude", 0, instant(0), (1_002, 0, 1_000)),
        round_("claude", 1, "", (1_100, 1_000, 50)),
    )
    first, second = session.requests
    assert second.start_ms == first.end_ms


def test_pi_has_true_starts_and_breaks_with_nothing_read(tmp_path: Path) -> None:
    def message(start_s: float, end_s: float, read: int, wrote: int) -> Row:
        usage = {"input": 2, "output": 9, "cacheRead": read, "cacheWrite": wrote}
        told = {
            "role": "assistant",
            "timestamp": round(start_s * 1000),
            "usage": usage,
            "model": "m",
        }
        return {"type": "message", "timestamp": instant(end_s - 1_777_636_800), "message": told}

    (session,), ledger = imported(
        "pi",
        tmp_path,
        {"type": "session", "provider": "anthropic"},
        message(0, 4, 0, 1_000),
        {"type": "message", "message": {"role": "assistant", "usage": {"input": 0}}},
        message(9, 11, 0, 1_100),
        message(400, 402, 0, 1_200),
    )
    assert [(each.start_ms, each.end_ms, each.shared_tokens) for each in session.requests] == [
        (0, 4_000, 0), (9_000, 11_000, 0), (400_000, 402_000, 1_100),
    ]  # fmt: skip
    assert sum(ledger.left_out.values()) == 1


def test_litellm_calls_of_one_trace_are_a_session(tmp_path: Path) -> None:
    sessions, ledger = imported(
        "litellm",
        tmp_path,
        litellm("a", 100, 3_000),
        litellm("b", 101, 800),
        litellm("a", 106, 3_500, 2_944),
        litellm("a", 110, 50, 3_600),  # cached tokens that the prompt leaves out
        litellm("a", 120, 10, status="failure"),
        litellm("a", 121, 10, call_type="aembedding"),
    )
    assert [[each.shared_tokens for each in of.requests] for of in sessions] == [
        [0, 3_000, 3_500], [0],
    ]  # fmt: skip
    assert sessions[0].requests[2].input_tokens == 3_650
    assert list(ledger.left_out.values()) == [1, 1]


def test_copilot_prompts_share_their_equal_leading_parts(tmp_path: Path) -> None:
    """6,000 + 200 of 6,200; then 6,000 of parts that add up to half of the prompt: 12,000."""
    calls = [
        copilot(0, 4, 6_200, 6_000, 200),
        copilot(6, 3, 7_000, 6_000, 200, 100, 700),
        copilot(20, 3, 14_000, 6_000, 1_000, cached=128),
        {**copilot(30, 3, 100), "result": "Failure"},
    ]
    line = {"session_id": "s", "turns": [{"llm_calls": calls}]}
    (session,), ledger = imported("copilot-azure", tmp_path, line)
    assert [each.shared_tokens for each in session.requests] == [0, 6_200, 7_000]
    assert session.requests[1].start_ms - (session.requests[0].end_ms or 0) == 2_000
    assert ledger.left_out == {"failed call": 1}


def test_copilot_timestamps_are_ends_if_they_overlap_less_that_way(tmp_path: Path) -> None:
    line = {"turns": [{"llm_calls": [copilot(4, 4, 100), copilot(7, 2, 100)]}]}
    (session,), _ = imported("copilot-azure", tmp_path, line)
    spans = [((each.end_ms or 0) - each.start_ms, each.start_ms) for each in session.requests]
    assert [span for span, _ in spans] == [4_000, 2_000]
    assert spans[1][1] - spans[0][1] == 5_000


def test_dynamo_children_are_subagents_that_the_next_parent_request_joins(tmp_path: Path) -> None:
    of_root = {"context": {"parent_session_id": "root"}}
    (session,), _ = imported(
        "dynamo",
        tmp_path,
        ended("root", 4_000, 200, 11, 22, 33, 44, total_time_ms=4_000.0),
        ended("child", 12_000, 130, 11, 55, 66, request_received_ms=8_000, **of_root),
        ended("late", 30_000, 64, 77, request_received_ms=9_000, **of_root),
        ended("root", 20_000, 300, 11, 22, 33, 77, 88, request_received_ms=16_000),
        {"event": {"schema": "dynamo.request.trace.v1", "event_type": "tool_end"}},
    )
    assert [(each.start_ms, each.end_ms) for each in session.requests] == [
        (0, 4_000), (16_000, 20_000),
    ]  # fmt: skip
    assert [(each.spawn_ms, each.join_ms) for each in session.subagents] == [
        (8_000, 16_000), (9_000, None),
    ]  # fmt: skip
    assert sorted(known(session)) == [(0, 1), (0, 3), (1, 2), (3, 4)]


def test_dynamo_without_hashes_goes_on_from_the_request_before(tmp_path: Path) -> None:
    rows = [ended("root", 4_000, 200), ended("root", 9_000, 300)]
    for row in rows:
        del row["event"]["request"]["replay"]["input_sequence_hashes"]
    (session,), _ = imported("dynamo", tmp_path, *rows)
    assert [(each.end_ms, each.shared_tokens) for each in session.requests] == [
        (None, 0),
        (None, 200),
    ]
    assert list(session.notes.assumed.values()) == [2, 2]


def test_otel_agents_invoked_by_an_agent_are_subagents(tmp_path: Path) -> None:
    (session,), _ = imported(
        "otel",
        tmp_path,
        otlp(
            span("m", "", 0, 40, "invoke_agent"),
            chat_span("c1", "m", 0, "5000"),
            chat_span("c2", "m", 7, 5_600),
            span("s", "m", 12, 30, "invoke_agent"),
            chat_span("c3", "s", 13, "3000"),
            chat_span("c4", "m", 31, 6_400),
        ),
    )
    assert [each.shared_tokens for each in session.requests] == [0, 5_000, 5_600]
    (agent,) = session.subagents
    assert (agent.spawn_ms, agent.join_ms) == (12_000, 30_000)
    assert [each.input_tokens for each in agent.requests] == [3_000]


def test_otel_input_that_leaves_out_the_cache_is_made_whole(tmp_path: Path) -> None:
    counts = {
        "gen_ai__usage__cache_read__input_tokens": 900,
        "gen_ai__usage__cache_creation__input_tokens": 100,
    }
    (session,), _ = imported("otel", tmp_path, otlp(chat_span("c", "", 0, 3, **counts)))
    assert session.requests[0].input_tokens == 1_003


def test_claude_codes_telemetry_has_true_durations(tmp_path: Path) -> None:
    def event(end_s: int, read: int, wrote: int) -> Row:
        told = attributes(
            session__id="s", model="claude-opus-4-8", duration_ms="2500", input_tokens=2,
            output_tokens=9, cache_read_tokens=read, cache_creation_tokens=str(wrote),
        )  # fmt: skip
        name = {"stringValue": "claude_code.api_request"}
        return {"timeUnixNano": f"{end_s}000000000", "body": name, "attributes": told}

    logs = [event(10, 0, 1_000), event(400, 0, 1_500)]
    line = {"resourceLogs": [{"scopeLogs": [{"logRecords": logs}]}]}
    (session,), _ = imported("otel", tmp_path, line)
    assert [each.start_ms for each in session.requests] == [7_500, 397_500]
    assert [each.input_tokens for each in session.requests] == [1_002, 1_502]
    assert [each.shared_tokens for each in session.requests] == [0, 1_000]


@pytest.mark.parametrize(
    "line",
    [
        {"requests": [], "block_size": 64},
        {"traceId": "t", "usageDetails": {}},
    ],
)
def test_known_formats_that_are_not_for_importing_are_told_apart(tmp_path: Path, line: Row) -> None:
    file = write_log(tmp_path / "x.jsonl", line)
    code = "import-already-trace" if "requests" in line else "import-format-refused"
    with refuses(code):
        recognised([file], [file], Ledger())
    ledger = Ledger()
    assert recognised([file], [tmp_path], ledger) == {}
    assert list(ledger.left_out.values()) == [1]

"""The acceptance figures of real and worked logs, where these are at hand (never committed)."""

from pathlib import Path

import pytest

from agentx_replay.traces.importing.claude_transcript import LOGGED
from agentx_replay.traces.importing.codex import RATE_LIMITS, REEMITTED, REPORTED
from agentx_replay.traces.importing.formats import named
from agentx_replay.traces.importing.importing import Import, Wanted, prepare
from agentx_replay.traces.importing.record import Ledger
from agentx_replay.traces.weka import read_session

SAMPLES = Path(__file__).resolve().parents[3] / ".." / "shared" / "imports"

COMPACTION, EXPIRED = "claude-2.1.39-compaction-2-subagents", "claude-2.1.39-expired-cache"
SMALL = "claude-2.1.38-small/projects/-data-project"
CODEX = "codex-0.104-desktop/sessions/2026/02/23/rollout-2026-02-23T"
FIRST = f"{CODEX}11-40-23-1e657637-d8bf-ae1d-9fb1-ba327b08d859.jsonl"
SECOND = f"{CODEX}19-34-25-915d9778-b7ce-8e54-9640-43e5201d452e.jsonl"
THIRD = f"{CODEX}12-19-38-f94f828c-50b1-7300-a56a-84889f5bfcba.jsonl"
CONVERSATION = "mooncake/conversation_first_600.jsonl"
SYNTHETIC = "mooncake/synthetic_first_300.jsonl"

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs ../shared/imports")


def imported(name: str, *paths: Path) -> tuple[Import, list[bytes]]:
    done = prepare(name, paths, Wanted(), Ledger())
    return done, list(done.lines())


@pytest.mark.parametrize(
    ("name", "sample", "sessions", "requests", "input_tokens", "output_tokens", "known", "blocks"),
    [
        ("claude-code", COMPACTION, 1, 158 + 20, 16_538_109, 64_487, 252_377, 258_320),
        ("claude-code", EXPIRED, 1, 140 + 12, 12_947_261, 62_704, 195_879, 202_228),
        ("claude-code", f"{SMALL}/short.jsonl", 1, 1, 25_353, 209, 0, 396),
        ("claude-code", f"{SMALL}/tool_heavy.jsonl", 1, 4, 105_981, 584, 1_098, 1_655),
        ("claude-code", "claude-2.1.157-segment", 1, 10, 418_193, 9_423, 5_727, 6_529),
        ("codex", FIRST, 1, 81, 7_204_025, 36_075, 108_110, 112_522),
        ("codex", SECOND, 1, 6, 298_373, 1_123, 3_668, 4_659),
        ("codex", THIRD, 1, 1, 34_469, 431, 0, 538),
        ("codex", "codex-0.114-segment", 1, 9, 95_819, 1_912, 1_268, 1_493),
        ("mooncake", CONVERSATION, 460, 600, 8_293_542, 214_274, 1_974, 15_895),
        ("mooncake", SYNTHETIC, 294, 300, 3_853_165, 57_331, 71, 7_421),
        ("tracelab", "tracelab", 2, 19, 514_012, 11_335, 6_995, 8_022),
        ("pi", "pi", 1, 439, 47_526_750, 83_156, 679_599, 742_379),
        ("bailian", "synthetic-bailian", 3, 6, 503, 74, 14, 29),
        ("copilot-azure", "synthetic-copilot-azure", 1, 2, 13_200, 150, 96, 205),
        ("dynamo", "synthetic-dynamo", 1, 3, 630, 60, 4, 9),
        ("litellm", "synthetic-litellm", 2, 4, 11_400, 250, 100, 176),
        ("otel", "synthetic-otel", 1, 4, 20_000, 650, 165, 311),
    ],
)  # fmt: skip
def test_acceptance_figures(
    name: str,
    sample: str,
    sessions: int,
    requests: int,
    input_tokens: int,
    output_tokens: int,
    known: int,
    blocks: int,
) -> None:
    done, lines = imported("auto", SAMPLES / sample)
    totals = done.totals
    assert [each.name for each in done.formats] == [name]
    assert (totals.sessions, totals.requests) == (sessions, requests)
    assert (totals.input_tokens, totals.output_tokens) == (input_tokens, output_tokens)
    assert counted_by_the_reader(lines) == (known, blocks)


@pytest.mark.parametrize(
    ("sample", "facts"),
    [
        (COMPACTION, {LOGGED: 36_307}),
        (EXPIRED, {LOGGED: 28_899}),
        (f"{SMALL}/short.jsonl", {LOGGED: 13}),
        (f"{SMALL}/tool_heavy.jsonl", {LOGGED: 212}),
        ("claude-2.1.157-segment", {LOGGED: 9_423}),
        (FIRST, {REPORTED: 6_836_352, REEMITTED: 80, RATE_LIMITS: 1}),
        (SECOND, {REPORTED: 238_848, REEMITTED: 5, RATE_LIMITS: 1}),
        (THIRD, {REPORTED: 3_456, REEMITTED: 0, RATE_LIMITS: 1}),
        ("codex-0.114-segment", {REPORTED: 79_488, REEMITTED: 0, RATE_LIMITS: 0}),
    ],
)
def test_what_a_log_says_beside_its_requests(sample: str, facts: dict[str, int]) -> None:
    done, _ = imported("auto", SAMPLES / sample)
    assert {name: done.notes.facts[name] for name in facts} == facts


def test_a_claude_code_session_whose_subagent_has_no_file() -> None:
    (session,) = named("claude-code").read([SAMPLES / f"{SMALL}/subagent.jsonl"], Ledger())
    inner = session.subagents[0].requests
    assert (len(session.requests), sum(each.input_tokens for each in session.requests)) == (
        12,
        454_704,
    )
    assert sum(each.output_tokens for each in session.requests) == 5_427
    assert (len(inner), sum(each.input_tokens for each in inner)) == (6, 140_416)
    assert (inner[-1].input_tokens, inner[-1].output_tokens) == (30_764, 3_130)


def test_the_worked_claude_code_sessions() -> None:
    done, lines = imported("claude-code", SAMPLES / "synthetic-claude")
    assert (done.totals.sessions, done.totals.requests) == (2, 10)
    assert (done.totals.input_tokens, done.totals.output_tokens) == (148_906, 2_655)
    assert [counted_by_the_reader([each]) for each in lines] == [(1_254, 2_050), (0, 273)]


def test_the_worked_codex_threads() -> None:
    done, lines = imported("codex", SAMPLES / "synthetic-codex")
    assert (done.totals.sessions, done.totals.requests, done.totals.subagents) == (2, 5, 1)
    assert (done.totals.input_tokens, done.totals.output_tokens) == (60_300, 1_240)
    assert [counted_by_the_reader([each]) for each in lines] == [(374, 722), (0, 218)]


def counted_by_the_reader(lines: list[bytes]) -> tuple[int, int]:
    """Return the known and all blocks of sessions as the reader of traces finds them."""
    requests = [each for line in lines for each in read_session(line, "line").requests()]
    return sum(each.known_blocks for each in requests), sum(each.block_count for each in requests)

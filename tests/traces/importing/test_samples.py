"""The acceptance figures of real and worked logs, where these are at hand (never committed)."""

from pathlib import Path

import pytest

from agentx_replay.traces.importing.formats import named
from agentx_replay.traces.importing.importing import Import, Wanted, prepare
from agentx_replay.traces.importing.record import Ledger
from agentx_replay.traces.weka import read_session

SAMPLES = Path(__file__).resolve().parents[3] / ".." / "shared" / "imports"

COMPACTION, EXPIRED = "claude-2.1.39-compaction-2-subagents", "claude-2.1.39-expired-cache"
SMALL = "claude-2.1.38-small/projects/-data-project"

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs ../shared/imports")


def imported(name: str, *paths: Path) -> tuple[Import, list[bytes]]:
    done = prepare(name, paths, Wanted(), Ledger())
    return done, list(done.lines())


@pytest.mark.parametrize(
    ("sample", "requests", "input_tokens", "output_tokens", "logged", "known", "blocks"),
    [
        (COMPACTION, (158, 20), 16_538_109, 64_487, 36_307, 252_377, 258_320),
        (EXPIRED, (140, 12), 12_947_261, 62_704, 28_899, 195_879, 202_228),
        (f"{SMALL}/short.jsonl", (1, 0), 25_353, 209, 13, 0, 396),
        (f"{SMALL}/tool_heavy.jsonl", (4, 0), 105_981, 584, 212, 1_098, 1_655),
        ("claude-2.1.157-segment", (10, 0), 418_193, 9_423, 9_423, 5_727, 6_529),
    ],
)  # fmt: skip
def test_claude_code(
    sample: str,
    requests: tuple[int, int],
    input_tokens: int,
    output_tokens: int,
    logged: int,
    known: int,
    blocks: int,
) -> None:
    done, lines = imported("claude-code", SAMPLES / sample)
    totals = done.totals
    assert (totals.requests, totals.input_tokens) == (sum(requests), input_tokens)
    assert (totals.output_tokens, done.ledger.facts["output tokens as logged"]) == (
        output_tokens,
        logged,
    )
    assert (totals.known_blocks, totals.blocks) == (known, blocks)
    assert counted_by_the_reader(lines) == (known, blocks)


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


def counted_by_the_reader(lines: list[bytes]) -> tuple[int, int]:
    """Return the known and all blocks of sessions as the reader of traces finds them."""
    requests = [each for line in lines for each in read_session(line, "line").requests()]
    return sum(each.known_blocks for each in requests), sum(each.block_count for each in requests)

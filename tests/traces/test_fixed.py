"""Sessions of fixed lengths: what they hold, and what a server's cache finds of them."""

import json
from pathlib import Path

import pytest
from command_line import finished, refusal

from agentx_replay.traces.fixed import fixed_corpus


def test_every_session_is_one_turn_of_blocks_of_its_own() -> None:
    # 200 tokens are three whole blocks of 64.
    first, second = fixed_corpus(200, 10, 2)
    (a,), (b,) = first["requests"], second["requests"]
    assert (a["in"], a["out"], a["hash_ids"], b["hash_ids"]) == (200, 10, [0, 1, 2], [3, 4, 5])
    assert (first["id"], second["id"], first["system_tokens"]) == ("fixed-1", "fixed-2", 0)


def test_what_is_shared_stands_first_in_whole_blocks() -> None:
    sessions = list(fixed_corpus(256, 10, 3, sharing=0.5))
    ids = [each["requests"][0]["hash_ids"] for each in sessions]
    assert ids == [[0, 1, 2, 3], [0, 1, 4, 5], [0, 1, 6, 7]]
    assert {each["system_tokens"] for each in sessions} == {128}


@pytest.mark.parametrize(("sharing", "hit"), [("0", 0.0), ("0.5", 0.5)])
def test_a_server_finds_what_is_shared_and_nothing_else(
    tmp_path: Path, sharing: str, hit: float
) -> None:
    """Four sessions are played again and again by two lanes, each time in other words."""
    corpus = tmp_path / "fixed.jsonl"
    lengths = ("--fixed", "1k/10", "--sharing", sharing, "--sessions", "4")
    assert finished("traces", "generate", corpus, *lengths).returncode == 0
    run = ("run", "--virtual", "-c", "2", "--traces", corpus, "--scenario", "fixed")
    done = finished(*run, "--window", "5s", "--out", tmp_path / "out", "--json")
    (point,) = json.loads(done.stdout)["points"]
    assert point["valid"]
    assert point["requests"] > 10
    # 1,000 tokens: 15 whole blocks, of which eight are shared.
    assert point["cache_hit"] == pytest.approx(hit * 1.024, abs=0.001)


@pytest.mark.parametrize(
    "lengths", ["8192", "0/5", "a/b", "8192/1024/3", "8192/-1", "1.5/3", "1/99M"]
)
def test_lengths_that_cannot_be_are_refused(tmp_path: Path, lengths: str) -> None:
    said = refusal("traces", "generate", tmp_path / "x.jsonl", "--fixed", lengths)
    assert "[lengths-unfit]" in said


def test_sharing_is_of_fixed_sessions(tmp_path: Path) -> None:
    said = refusal("traces", "generate", tmp_path / "x.jsonl", "--sharing", "0.5")
    assert "[sharing-without-fixed]" in said

"""``agentx-replay plan``: the whole plan, without a server, the same everywhere."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_corpus import corpus, request, session

ROOT = Path(__file__).resolve().parents[2]


def planned(*arguments: str, hash_seed: str = "0") -> str:
    """The standard output of a plan made in a process of its own."""
    result = subprocess.run(
        [sys.executable, "-m", "agentx_replay", "plan", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return result.stdout


def document(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(planned("--json", *arguments))
    return found


def test_a_plan_is_the_same_twice_and_whatever_the_hash_seed() -> None:
    arguments = ("--scenario", "agentx", "--concurrency", "8,64", "--json")
    first = planned(*arguments, hash_seed="0")
    assert planned(*arguments, hash_seed="0") == first
    assert planned(*arguments, hash_seed="4321") == first


@pytest.mark.parametrize(
    ("scenario", "fingerprint"),
    [("agentx", "9eb7855e98e2ffad"), ("agentx-faithful", "e4a63c721531a5ad")],
)
def test_the_plan_of_the_bundled_sessions_is_this_one(scenario: str, fingerprint: str) -> None:
    # Not worked out by hand: pinned, so that whatever changes what is sent and when is noticed.
    found = document("--scenario", scenario, "--concurrency", "8")
    assert [level["fingerprint"] for level in found["levels"]] == [fingerprint]


def write(directory: Path) -> str:
    """Two sessions that repeat one another and a third; t* lies halfway through each."""
    twice = [request(10.0 * n, range(n + 1), out=5) for n in range(5)]
    corpus(
        directory,
        session("one", *twice),
        session("again", *twice),
        session("other", *(request(10.0 * n, range(n + 7), out=9) for n in range(5))),
    )
    return str(directory)


HALFWAY = ("--override", "start_fraction=[0.5, 0.5]", "--override", "primer_lead_s=30.0")


def test_a_lane_names_its_session_t_star_primers_and_first_requests(tmp_path: Path) -> None:
    found = document("--traces", write(tmp_path), "--concurrency", "1", *HALFWAY)
    (level,) = found["levels"]
    # 0, 10, 20, 30, 40 s: t* is 20, the third request's start; the second, 128 tokens, is primed.
    assert level["lanes"] == [
        {
            "lane": 0,
            "session_id": "one",
            "t_star_s": 20.0,
            "primers": [["main", 1, 128]],
            "first": [["main", 2, 192]],
        }
    ]


def test_a_level_has_its_totals(tmp_path: Path) -> None:
    found = document("--traces", write(tmp_path), "--concurrency", "4", *HALFWAY)
    (level,) = found["levels"]
    assert (level["primers"], level["warmup_requests"]) == (4, 4)
    # one, again, other, one again: 128 + 128 + 8 · 64 + 128.
    assert level["primer_tokens"] == 896
    assert level["wrapping"] == "3 sessions over 4 lanes"
    assert level["primer_spread_s"] == 0.0
    # quick: 20 s, 10 s of grace, and a warm-up of 1,800 s at most.
    assert (level["least_s"], level["most_s"]) == (20.0, 1830.0)
    # Peaks of 11 · 64 + 9 and twice 5 · 64 + 5 tokens, the largest again for the fourth lane; at
    # 5 bytes a token, three copies.
    assert level["text_bytes"] == (713 + 325 + 325 + 713) * 15


def test_the_corpus_has_its_totals(tmp_path: Path) -> None:
    found = document("--traces", write(tmp_path))["corpus"]
    assert (found["sessions"], found["requests"]) == (3, 15)
    # Twice 1 + 2 + 3 + 4 + 5 blocks, once 7 + 8 + 9 + 10 + 11: 75, of which 5 + 5 + 11 are new.
    assert (found["input_tokens"], found["output_tokens"]) == (75 * 64, 5 * (5 + 5 + 9))
    assert found["reuse"] == pytest.approx(54 / 75)


def test_near_duplicates_are_named_and_left_out_on_demand(tmp_path: Path) -> None:
    traces = write(tmp_path)
    assert "near-duplicates, all played" in planned("--traces", traces)
    assert document("--traces", traces)["near_duplicates"] == [["one", "again"]]
    kept = document("--traces", traces, "--keep-one-of-duplicates")
    assert kept["near_duplicates"] == []
    assert kept["corpus"]["sessions"] == 2
    assert kept["left_out"] == [
        {
            "cause": "duplicate",
            "reason": "near-duplicates of another",
            "sessions": 1,
            "requests": 5,
        }
    ]


def test_the_text_says_what_the_json_does(tmp_path: Path) -> None:
    text = planned("--traces", write(tmp_path), "--concurrency", "4", *HALFWAY)
    assert "3 sessions over 4 lanes" in text
    assert "warm-up: 4 primers over 0.0 s, 896 tokens; then 4 requests" in text
    assert "in all 20 s and the server's warm-up, at most 30.5 min" in text
    assert "primer main" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_simulated_plan_has_the_table_of_its_run(tmp_path: Path) -> None:
    arguments = ("--traces", write(tmp_path), "--concurrency", "2", "--simulate")
    text = planned(*arguments)
    assert "tok/s/user" in text
    assert "kept: prompt lengths exact; output lengths exact" in text
    assert planned(*arguments) == text
    (point,) = document(*arguments)["simulated"]
    assert (point["concurrency"], point["valid"]) == (2, True)

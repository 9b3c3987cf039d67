"""``agentx-replay plan``: the whole plan, without a server, the same everywhere."""

import hashlib
import re
import struct
from pathlib import Path

import pytest
from command_line import finished, finished_alone, told
from golden_files import Goldens
from small_corpus import corpus, request, session, subagent


def planned(*arguments: str) -> str:
    """The standard output of a plan."""
    result = finished("plan", *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_plan_is_the_same_twice_and_whatever_the_hash_seed() -> None:
    arguments = ("--scenario", "agentx", "--concurrency", "8", "--json")
    first = finished_alone("plan", *arguments, PYTHONHASHSEED="4321").stdout
    assert planned(*arguments) == planned(*arguments) == first


# What enters the fingerprints of the plan below, by hand from docs/protocol.md.
RULES = (
    '{"comparable":false,"grace_s":10.0,"max_sessions":null,"name":"quick","primer_lead_s":0.2,'
    '"reading":"official","seed":42,"session_idle_cap_s":0.5,"session_idle_from":"last_end",'
    '"shared_prefix":"session","start_fraction":[0.5,0.5],"system_idle_cap_s":0.2,'
    '"warmup_requests":1,"warmup_timeout_s":1800.0,'
    '"window_s":20.0}'
)
# Blocks 5; 5 9 (the subagent's); 5 6; 5 6 7. In the order they were sent 5, 9, 6 and 7 are blocks
# 0 to 3, and follow none, 0, 0 and 2.
SESSION = (
    '[["one",64,40,24],['
    '{"index":0,"recorded_order":0,"t_s":0.0,"start_s":0.0,"duration_s":1.0,"think_time_s":null,'
    '"model":"m","input_tokens":64,"output_tokens":5,"tip_block":0,"block_count":1,'
    '"known_blocks":0,"first_new_block":0},'
    '{"agent_id":"a","kind":"Explore","status":"completed","marker_t_s":1.0,'
    '"marker_is_completion":false,"spawn_s":1.0,"duration_s":null,"tool_tokens":0,'
    '"system_tokens":0,"requests":['
    '{"index":1,"recorded_order":1,"t_s":1.0,"start_s":1.0,"duration_s":1.0,"think_time_s":null,'
    '"model":"m","input_tokens":128,"output_tokens":3,"tip_block":1,"block_count":2,'
    '"known_blocks":1,"first_new_block":1}]},'
    '{"index":2,"recorded_order":2,"t_s":10.0,"start_s":10.0,"duration_s":1.0,"think_time_s":null,'
    '"model":"m","input_tokens":128,"output_tokens":5,"tip_block":2,"block_count":2,'
    '"known_blocks":1,"first_new_block":2},'
    '{"index":3,"recorded_order":3,"t_s":20.0,"start_s":20.0,"duration_s":1.0,"think_time_s":null,'
    '"model":"m","input_tokens":192,"output_tokens":5,"tip_block":3,"block_count":3,'
    '"known_blocks":2,"first_new_block":3}]]'
)
PARENTS = struct.pack("<4i", -1, 0, 0, 2)
# Starts span 0 to 20 s, so t* is 10, where the main stream resumes at its second request; the
# subagent's one request lies before. That waits for it, 9 s after its predecessor's end at 1 s; the
# third comes 9 s after the second's at 11 s. The subagent starts when the first has ended.
STREAMS = (
    '[["main",null,[[0,0.0,[],[]],[2,9.0,[[1,0.0]],[]],[3,9.0,[],[]]]],'
    '["sa:a",[[0,0],false,0.0],[[1,0.0,[],[]]]]]'
)


def digits(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def test_the_fingerprint_of_a_plan_is_of_what_the_documentation_says(tmp_path: Path) -> None:
    corpus(
        tmp_path,
        session(
            "one",
            request(0, [5], out=5),
            subagent(1, [request(1, [5, 9], out=3)]),
            request(10, [5, 6], out=5),
            request(20, [5, 6, 7], out=5),
            tools=40,
            system=24,
        ),
    )
    halfway = ("--override", "start_fraction=[0.5, 0.5]")
    found = told(
        "plan", "--traces", str(tmp_path), "--scenario", "quick", "--concurrency", "2", *halfway
    )
    rules, recorded = digits(RULES.encode()), digits(SESSION.encode(), PARENTS)
    lane = '["one",10.0,[1,1]]'
    facts = f'["{rules}","{recorded}",2,["one"],[4],[{lane},{lane}],[{STREAMS}]]'
    assert [level["fingerprint"] for level in found["levels"]] == [digits(facts.encode())]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two sessions that repeat one another and a third; t* lies halfway through each."""
    directory = tmp_path_factory.mktemp("plan") / "traces"
    twice = [request(10.0 * n, range(n + 1), out=5) for n in range(5)]
    corpus(
        directory,
        session("one", *twice),
        session("again", *twice),
        session("other", *(request(10.0 * n, range(n + 7), out=9) for n in range(5))),
    )
    return str(directory)


HALFWAY = ("--override", "start_fraction=[0.5, 0.5]", "--override", "primer_lead_s=30.0")


def test_a_lane_names_its_session_t_star_primers_and_first_requests(traces: str) -> None:
    found = told("plan", "--traces", traces, "--concurrency", "1", *HALFWAY)
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


def test_a_level_has_its_totals(traces: str) -> None:
    found = told("plan", "--traces", traces, "--concurrency", "4", *HALFWAY)
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


def test_the_corpus_has_its_totals(traces: str) -> None:
    found = told("plan", "--traces", traces)["corpus"]
    assert (found["sessions"], found["requests"]) == (3, 15)
    # Twice 1 + 2 + 3 + 4 + 5 blocks, once 7 + 8 + 9 + 10 + 11: 75, of which 5 + 5 + 11 are new.
    assert (found["input_tokens"], found["output_tokens"]) == (75 * 64, 5 * (5 + 5 + 9))
    assert found["reuse"] == pytest.approx(54 / 75)


def test_near_duplicates_are_named_and_left_out_on_demand(traces: str) -> None:
    assert told("plan", "--traces", traces)["near_duplicates"] == [["one", "again"]]
    kept = told("plan", "--traces", traces, "--keep-one-of-duplicates")
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


def test_the_text_says_what_the_json_does(traces: str, goldens: Goldens) -> None:
    text = planned("--traces", traces, "--concurrency", "4", *HALFWAY)
    # Of the five requests of one, again, other and one again the last three: three times
    # 3 + 4 + 5 blocks and 9 + 10 + 11; outputs of 5, 5, 9 and 5 tokens.
    assert " 12 4,224 72.0 " in " ".join(text.split())
    goldens.check_text("words/plan", text.replace(traces, "PLACE"))
    assert max(map(len, text.splitlines())) <= 100


def test_a_simulated_plan_has_the_table_of_its_run(traces: str) -> None:
    arguments = ("--traces", traces, "--concurrency", "2", "--simulate", "--starts", "2")
    text = planned(*arguments)
    assert " 5% apart" in " ".join(text.split())
    points = told("plan", *arguments)["simulated"]
    assert [(point["concurrency"], point["valid"]) for point in points] == [(2, True)] * 2


def test_a_simulated_level_that_is_not_valid_says_why(tmp_path: Path) -> None:
    corpus(tmp_path, session("s", *(request(t, range(2), out=100_000) for t in (0, 900, 1_800))))
    text = planned("--traces", str(tmp_path), "--concurrency", "2", "--simulate")
    assert re.search(r"^2 +NO ", text, re.M)
    assert "2 agents: not valid: no request succeeded" in text


def test_levels_and_starts_are_in_the_time_and_the_totals(traces: str, goldens: Goldens) -> None:
    levels = ("--traces", traces, "--concurrency", "1,2,4", *HALFWAY)
    found = told("plan", *levels)
    # 20 s at least and 30.5 min at most each.
    assert (found["starts"], found["least_s"], found["most_s"]) == (1, 60.0, 5_490.0)
    found = told("plan", *levels, "--starts", "3")
    assert (found["starts"], found["least_s"], found["most_s"]) == (3, 180.0, 16_470.0)
    text = planned("--traces", traces, "--concurrency", "4", "--starts", "2", *HALFWAY)
    # Of the level above twice: 4 primers and 4 requests without pauses, 12 requests, 4,224 tokens.
    assert re.search(r"\nall +16 +24 +8,448 .* 40 s\b", text)
    assert "40 s to 61 min in all" in " ".join(text.split())
    goldens.check_text("words/plan-starts", text.replace(traces, "PLACE"))
    assert max(map(len, text.splitlines())) <= 100


def test_a_plan_with_live_history_says_so_and_counts_the_text_that_is_kept(tmp_path: Path) -> None:
    corpus(tmp_path, session("s", request(0, range(2), out=100), request(9, range(6), out=20)))
    arguments = ("--traces", str(tmp_path), "--concurrency", "2")
    fed = told("plan", "--live-history", *arguments)
    words = told("plan", *arguments)
    assert (fed["live_history"], words["live_history"]) == (True, False)
    (fed_level,), (level,) = fed["levels"], words["levels"]
    # Two plays: 6 blocks and the ends of 2 prompts, 5 bytes a word; answers, 16 bytes a token.
    kept_bytes = 2 * ((6 + 2) * 64 * 5 + 120 * 16)
    assert fed_level["text_bytes"] - level["text_bytes"] == kept_bytes
    assert fed_level["fingerprint"] == level["fingerprint"]
    assert "not comparable" in planned("--live-history", *arguments)


def test_a_plan_says_what_its_starts_would_show(traces: str) -> None:
    # t of 4 degrees 2.776 · 0.04 · √(2/3) = 0.0907 and 0.3173, sinh 0.3227; five: 2.306 · √(2/5).
    one = " ".join(planned("--traces", traces, "--concurrency", "2").split())
    assert re.search(r" 9% to 32% [^,]*\b3 [^,]*, 6% to 21% [^,]*\b5 ", one)


def test_a_plan_has_tool_messages_as_its_config_file_says(tmp_path: Path, traces: str) -> None:
    config = tmp_path / "mine.toml"
    config.write_text("tool-messages = true")
    assert told("plan", "--config", str(config), "--traces", traces)["tool_messages"] is True

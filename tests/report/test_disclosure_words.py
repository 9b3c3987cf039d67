"""What the page's disclosure says of ``sweep.json``."""

from agentx_replay.report.disclosure_words import (
    client_words,
    plainly,
    prompts_words,
    rules_words,
    server_words,
)

QUICK = {
    "name": "quick", "window_s": 20.0, "grace_s": 10.0, "warmup_requests": 1,
    "warmup_timeout_s": 1800.0, "seed": 42, "start_fraction": [0.25, 0.75], "primer_lead_s": 0.2,
    "system_idle_cap_s": 0.2, "tree_idle_cap_s": 0.5,
    "tree_idle_from": "last_end", "reading": "official", "comparable": False,
    "max_sessions": None, "shared_prefix": "session", "overridden": [], "fingerprint": "a0",
}  # fmt: skip
CALIBRATION = {
    "format": 1, "words": 1234, "opening": "able",
    "cost": {
        "with_system": 3, "without_system": 3, "system": 6, "user": 6, "assistant": 1,
        "takes_system": True, "assumed": False,
    },
    "verification": {
        "probes": 40, "exact": 40, "largest_error_tokens": 0, "longest_tokens": 15942,
        "most_messages": 60,
    },
    "source": "built-in words", "counted_by": "/tokenize", "model": "m", "api": "chat", "ids": 0,
    "warnings": [],
}  # fmt: skip
TARGET = {
    "kind": "server", "model": "m", "max_model_len": 131072, "served_models": ["m"],
    "server": None, "max_tokens_field": "max_tokens", "ignore_eos": True, "usage_reported": True,
    "cached_tokens_reported": False, "keep_alive_s": None,
    "url": ["http://a:1/v1", "http://b:1/v1"], "metrics": [],
}  # fmt: skip


def test_rules_in_words() -> None:
    assert rules_words(QUICK) == (
        "window 20 s; drain up to 10 s; 1 pressure request a lane in the warm-up; warm-up given up "
        "after 1800 s; seed 42; first sessions begin between 25% and 75% of their length; primers "
        "sent over at most 0.2 s; idle time of all lanes together skipped past 0.2 s; that of a "
        "single session past 0.5 s; counted from each one's own last end; recordings read the "
        "official way; all sessions that fit; system prompts shared within one session; for a "
        "quick look only; no rule changed"
    )


def test_a_calibration_in_words() -> None:
    assert prompts_words(CALIBRATION) == (
        "1,234 words; from built-in words; each prompt opened by 'able'; a message costs beside "
        "its words: system 6 tokens, user 6 tokens, assistant 1 token, a prompt with a system "
        "message 3 tokens, a prompt without one 3 tokens; 40 of 40 probes exact, the largest error "
        "0 tokens, the longest 15,942 tokens, up to 60 messages; counted by /tokenize; for the "
        "model m; by the chat API"
    )


def test_tool_messages_are_said_with_their_costs() -> None:
    cost = {"tool_messages": True, "call": 12, "result": 13, "first_call": -1}
    assert prompts_words({"cost": cost}) == (
        "answers are sent as tool calls and what follows as their results: a call costs 12 tokens "
        "(the first 11), a result 13 tokens"
    )


def test_what_a_server_told_in_words() -> None:
    assert server_words(TARGET) == (
        "server; model m; at http://a:1/v1, http://b:1/v1; does not name itself; context limit "
        "131,072 tokens; serves m; output limited by max_tokens; generates up to the limit asked; "
        "reports usage; reports no cached tokens; announces no keep-alive; no metrics page"
    )


def test_the_client_in_words() -> None:
    assert client_words({"platform": "Linux", "cpus": 1}, {"python": "3.11"}) == (
        "Linux; 1 CPU; Python 3.11"
    )


def test_a_field_that_is_not_known_or_of_another_kind_is_shown_as_it_stands() -> None:
    assert rules_words({"new": [1, 2], "window_s": "long"}) == "window_s long; new 1, 2"
    assert plainly({"a": True, "b": None, "c": [], "d": {}}) == "a yes, b none, c none, d nothing"

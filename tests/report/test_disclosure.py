"""What the page's disclosure says of ``sweep.json``."""

from golden_files import Goldens

from agentx_replay.report.disclosure import CLIENT, PROMPTS, RULES, SERVER, in_words, plainly

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


def test_what_sweep_json_holds_in_words(goldens: Goldens) -> None:
    tools = {"cost": {"tool_messages": True, "call": 12, "result": 13, "first_call": -1}}
    words = [
        in_words(QUICK, RULES), in_words(CALIBRATION, PROMPTS), in_words(tools, PROMPTS),
        in_words(TARGET, SERVER),
    ]  # fmt: skip
    goldens.check_text("words/disclosure", "\n".join(words) + "\n")


def test_the_client_in_words() -> None:
    host = {"platform": "Linux", "cpus": 2, "python": "3.11"}
    assert in_words(host, CLIENT) == "Linux; CPUs: 2; Python 3.11"


def test_a_field_that_is_not_known_or_of_another_kind_is_shown_as_it_stands() -> None:
    assert in_words({"new": [1, 2], "window_s": "long"}, RULES) == "window long s; new 1, 2"
    assert in_words({"start_fraction": 1, "tree_idle_from": "x"}, RULES) == (
        "first sessions begin between 1 of their length; tree_idle_from x"
    )
    assert plainly({"a": True, "b": None, "c": [], "d": {}}) == "a yes, b none, c none, d nothing"

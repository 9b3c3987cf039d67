"""A secret is found in whatever form a server says it back, and words that are none stay."""

import pytest

from agentx_replay.secret_texts import (
    hidden_fields,
    is_secret_field,
    secret_fields,
    without_credentials,
    without_secrets,
    worth_hiding,
)

KEY = "sk-Ab/9.z"


@pytest.mark.parametrize(
    "said",
    [
        "sk-Ab/9.z",
        "SK-AB/9.Z",
        "sk-Ab\n/9.z",
        "s k - A b / 9 . z",
        "sk-Ab\r\n  /9.z",
        r"sk-Ab\n/9.z",
        r"\u0073k-Ab/9.z",
        r"sk-Ab\u002F9.z",
        r"sk-Ab\/9.z",
        r"\x73k-Ab/9.z",
        "sk%2dAb%2F9.z",
        "sk&#45;Ab&#x2F;9.z",
        "&#x0073;k-Ab/9.z",
    ],
)
def test_a_secret_is_cut_out_however_it_is_written(said: str) -> None:
    assert without_secrets(f"key {said}, {said}!", [KEY]) == "key ***, ***!"


@pytest.mark.parametrize("said", ["sk-Ab/9-z", "sk-Ab/9", "k-Ab/9.z", "sk.Ab/9.z", ""])
def test_what_is_another_text_stays(said: str) -> None:
    assert without_secrets(said, [KEY]) == said


def test_a_mark_is_taken_as_it_stands_and_no_secret_changes_nothing() -> None:
    assert without_secrets("a sk-Ab/9.z", [KEY], r"(\1)") == r"a (\1)"
    assert without_secrets("a sk-Ab/9.z", ["", *worth_hiding(["EMPTY", ""])]) == "a sk-Ab/9.z"


def test_a_scheme_and_its_value_are_one_secret() -> None:
    assert (
        without_secrets("Authorization: Bearer  abcdef", ["Bearer abcdef"]) == "Authorization: ***"
    )


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("api_key", True), ("apiKey", True), ("hf_token", True), ("access-token", True),
        ("client_secret", True), ("password", True), ("Authorization", True), ("token", True),
        ("max_tokens", False), ("min_tokens", False), ("stop_token_ids", False),
        ("skip_special_tokens", False), ("tokenizer", False), ("top_k", False),
    ],
)  # fmt: skip
def test_a_body_field_is_known_by_its_name(name: str, is_secret: bool) -> None:
    assert is_secret_field(name) == is_secret


def test_secret_fields_are_hidden_at_any_depth_and_numbers_stay() -> None:
    body = {"a": [{"api_key": "x", "n": 1}], "token": "y", "token_budget": 7, "keys": ["z"],
            "headers": ["Authorization: Bearer w", "Accept: v"]}  # fmt: skip
    shown = {"a": [{"api_key": "***", "n": 1}], "token": "***", "token_budget": 7, "keys": ["z"],
             "headers": ["Authorization: ***", "Accept: v"]}  # fmt: skip
    assert hidden_fields(body) == shown
    assert sorted(secret_fields(body)) == ["Bearer w", "x", "y"]


def test_credentials_of_urls_are_hidden_and_the_rest_stays() -> None:
    assert without_credentials("see https://a:b@c/d?e") == "see https://***@c/d?e"
    assert without_credentials("http://h/a@b") == "http://h/a@b"

"""Prompts as tokens and blocks."""

import numpy as np
import pytest

from agentx_replay.prompts.chat_messages import chat_message
from agentx_replay.prompts.template import CHATML, CHATML_TOOLS, Role
from agentx_replay.simulator.tokens import WordRenderer, block_ids, message_text, word_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("   \n", 0),
        ("able", 1),
        ("able body", 2),
        (" able body", 2),
        ("able  body", 2),
        ("able\nbody", 2),
        ("able bo y abcd", 4),
        ("a much longer sentence, with extraordinarily long words", 8),
        ("été 東京 \ud800", 3),
    ],
)
def test_a_word_is_a_token(text: str, tokens: int) -> None:
    assert len(word_tokens(text)) == tokens


def test_a_word_is_the_same_token_whatever_stands_around_it() -> None:
    equal_width = word_tokens("able body able")
    any_width = word_tokens("able  body able internationally x")
    assert equal_width.tolist() == any_width[:3].tolist()
    assert equal_width[0] == equal_width[2] != equal_width[1]
    # the letters themselves, first letter lowest: a=0x61 b=0x62 l=0x6c e=0x65
    assert int(equal_width[0]) == 0x656C6261


def test_long_words_differ_by_their_ends() -> None:
    one, other, same = word_tokens("internationally internationales internationally").tolist()
    assert one == same != other


def test_a_conversation_costs_what_chatml_does() -> None:
    messages = [
        {"role": "system", "content": "able body"},
        {"role": "user", "content": "able body able"},
        {"role": "assistant", "content": "able"},
        {"role": "user", "content": "able"},
    ]
    # the opening word of each message is in the message's cost: 7 words, 4 of them opening
    expected = CHATML.with_system + CHATML.system + 2 * CHATML.user + CHATML.assistant + 7 - 4
    assert expected == 30
    assert len(WordRenderer().chat(messages, [])) == 30


def test_calls_and_results_cost_what_is_assumed_of_them_in_virtual_time() -> None:
    said: list[tuple[Role, str]] = [
        ("user", "able body"),
        ("assistant", "able body acid"),
        ("user", "able"),
        ("assistant", "able"),
        ("user", "able acid"),
    ]
    messages = [
        chat_message(role, place, text, tool_messages=True)
        for place, (role, text) in enumerate(said)
    ]
    # 4 words past the opening ones; a message is 6, and a call or a result has one word more.
    assert CHATML_TOOLS.messages([role for role, _ in said]) + 4 == 3 + 6 + 4 * 7 + 4
    assert len(WordRenderer().chat(messages, [])) == 3 + 6 + 4 * 7 + 4


def test_tools_are_a_message_of_their_own() -> None:
    renderer = WordRenderer()
    messages = [{"role": "user", "content": "able"}]
    tools = [{"type": "function", "function": {"description": "one two three"}}]
    # 3 + 2 around three words, the first and last with their JSON attached
    assert len(renderer.chat(messages, tools)) == len(renderer.chat(messages, [])) + 8


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "able"}, "able"),
        ({"content": None}, ""),
        ({}, ""),
        ({"content": [{"type": "text", "text": "able"}, {"text": "body"}, "odd"]}, "able\nbody"),
        ({"content": None, "tool_calls": [{"id": "1"}]}, '\n[{"id":"1"}]'),
    ],
)
def test_what_a_message_says(message: dict[str, object], text: str) -> None:
    assert message_text(message) == text


def test_roles_are_in_the_tokens() -> None:
    one, other = (
        WordRenderer().chat([{"role": role, "content": "able"}], []) for role in ("user", "system")
    )
    assert one.tolist() != other.tolist()


def test_only_whole_blocks_have_ids() -> None:
    tokens = np.arange(130, dtype=np.uint64)
    assert len(block_ids(tokens, 64)) == 2
    assert len(block_ids(tokens[:63], 64)) == 0


def test_equal_blocks_have_equal_ids_and_others_do_not() -> None:
    tokens = np.arange(64, dtype=np.uint64)
    swapped = tokens.copy()
    swapped[[3, 4]] = swapped[[4, 3]]
    changed = tokens.copy()
    changed[63] += 1
    same, again, third, fourth = block_ids(np.concatenate((tokens, tokens, swapped, changed)), 64)
    assert same == again
    assert len({int(same), int(third), int(fourth)}) == 3


def test_a_hundred_thousand_blocks_that_differ_in_one_token_have_as_many_ids() -> None:
    tokens = np.zeros((100_000, 64), np.uint64)
    tokens[:, 17] = np.arange(100_000)
    assert len(set(block_ids(tokens.ravel(), 64).tolist())) == 100_000

"""Answers as calls of a tool and what follows as their results: shapes, ids, shared beginnings."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from agentx_replay.prompts.chat_messages import call_id, chat_message
from agentx_replay.prompts.compose import PlayComposer
from agentx_replay.prompts.keys import LevelKeys
from agentx_replay.prompts.layout import lay_out
from agentx_replay.prompts.template import CHATML_TOOLS, Role
from agentx_replay.prompts.text import chat_wording
from agentx_replay.prompts.vocabulary import Vocabulary, builtin_vocabulary
from agentx_replay.traces.model import Session

Record = Callable[..., Session]
TWO = Vocabulary(("acid", "army"), "able")

CALL: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "call00001",
            "type": "function",
            "function": {"name": "bash", "arguments": '{"command":"able acid able"}'},
        }
    ],
}
RESULT = {"role": "tool", "tool_call_id": "call00001", "content": "able acid able"}


@pytest.mark.parametrize(
    ("role", "place", "expected"),
    [
        ("system", -1, {"role": "system", "content": "able acid"}),
        ("user", 0, {"role": "user", "content": "able acid"}),
        ("assistant", 1, CALL),
        ("user", 2, RESULT),
    ],
)
def test_an_answer_is_a_call_and_the_next_message_its_result(
    role: Role, place: int, expected: object
) -> None:
    assert chat_message(role, place, "able acid", tool_messages=True) == expected


def test_ids_are_nine_letters_and_digits_by_the_number_of_the_pair() -> None:
    assert [call_id(place) for place in (1, 2, 3, 4, 1999)] == [
        "call00001", "call00001", "call00002", "call00002", "call01000"
    ]  # fmt: skip


def test_what_stands_around_words_is_as_long_wherever_a_message_of_its_shape_stands() -> None:
    wording = chat_wording(TWO, tool_messages=True)
    assert wording.around("user", 0) == (b'{"role":"user","content":"able', b'"}')
    assert wording.around("user", 4) == (
        b'{"role":"tool","tool_call_id":"call00002","content":"able',
        b' able"}',
    )
    assert wording.around("assistant", 3) == (
        b'{"role":"assistant","content":null,"tool_calls":[{"id":"call00002","type":"function",'
        b'"function":{"name":"bash","arguments":"{\\"command\\":\\"able',
        b' able\\"}"}}]}',
    )


# A prompt that grows twice, is cut back inside its first answer, grows, and is sent again.
LINES = [
    (200, 64, "abc"),
    (390, 64, "abcdef"),
    (580, 64, "abcdefghi"),
    (390, 64, "abcdXY"),
    (580, 64, "abcdXYvwz"),
    (580, 64, "abcdXYvwz"),
]
ROLES = {
    200: ["system", "user"],
    390: ["system", "user", "assistant", "tool"],
    580: ["system", "user", "assistant", "tool", "assistant", "tool"],
}


def sent(session: Session) -> list[bytes]:
    wording = chat_wording(builtin_vocabulary(), tool_messages=True)
    layout = lay_out(session, CHATML_TOOLS)
    play = PlayComposer(layout, wording, LevelKeys("salt", 8, 1), lane=0, ordinal=0)
    return [play.prompt(0, request).messages_json() for request in session.requests()]


def words_of(message: dict[str, Any]) -> list[str]:
    if calls := message.get("tool_calls"):
        (call,) = calls
        said = json.loads(call["function"]["arguments"])["command"]
    else:
        said = message["content"]
    return str(said).split()


def test_every_prompt_has_the_recorded_length(record: Record) -> None:
    # 3 a conversation, 5 around a message and its words, opening and closing ones included.
    for (tokens, _, _), prompt in zip(LINES, sent(record(LINES, tool_tokens=64)), strict=True):
        messages = json.loads(prompt)
        assert [message["role"] for message in messages] == ROLES[tokens]
        assert 3 + sum(5 + len(words_of(message)) for message in messages) == tokens


def test_a_call_keeps_its_id_its_words_and_its_result_in_every_later_prompt(
    record: Record,
) -> None:
    first, second, third, cut, _, _ = map(json.loads, sent(record(LINES, tool_tokens=64)))
    assert first == second[:2]
    assert second[:3] == third[:3]
    # The last message goes on: its words, but for the one that closes it, are the first of it.
    assert words_of(third[3])[: len(words_of(second[3])) - 1] == words_of(second[3])[:-1]
    assert [call["tool_calls"][0]["id"] for call in third[2::2]] == ["call00001", "call00002"]
    assert [result["tool_call_id"] for result in third[3::2]] == ["call00001", "call00002"]
    # Cut inside the answer: what is kept of it begins as before, and is closed again.
    kept = words_of(cut[2])
    assert kept[:-1] == words_of(third[2])[: len(kept) - 1]
    assert kept[-1] == "able"


def test_a_prompt_sent_again_and_a_play_of_the_same_salt_are_the_same_bytes(
    record: Record,
) -> None:
    prompts = sent(record(LINES, tool_tokens=64))
    assert prompts[4] == prompts[5]
    assert sent(record(LINES, tool_tokens=64)) == prompts

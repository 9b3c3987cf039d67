"""Words of blocks, and how they are written as messages, as plain text and as token ids."""

import json
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from agentx_replay.prompts.chat_messages import call_id, chat_message
from agentx_replay.prompts.compose import PlayComposer
from agentx_replay.prompts.keys import LevelKeys
from agentx_replay.prompts.layout import lay_out
from agentx_replay.prompts.template import CHATML, Role, TemplateCost
from agentx_replay.prompts.template_cost import flat_cost
from agentx_replay.prompts.text import BlockText, Wording, chat_wording, ids_wording, text_wording
from agentx_replay.prompts.vocabulary import Vocabulary, builtin_vocabulary, opening_words
from agentx_replay.traces.model import Session

Record = Callable[..., Session]
TWO = Vocabulary(("acid", "army"), "able")
FOUR = Vocabulary(("able", "acid", "army", "away"), "able")


# --- words --------------------------------------------------------------------------------------


def ids(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


def test_the_builtin_words_are_1234_different_ones_of_letters() -> None:
    words = builtin_vocabulary().words
    assert len(set(words)) == len(words) == 1234
    assert all(len(word) == 4 and word.isascii() and word.isalpha() for word in words)
    assert builtin_vocabulary().opening == opening_words()[0] == "able"
    assert set(opening_words()) <= set(words)


def test_a_word_is_a_16_bit_draw_scaled_to_the_vocabulary() -> None:
    # Block 0 draws splitmix64's first two outputs from 0, low bits first:
    # E220A8397B1DCDAF: CDAF 7B1D A839 E220, whose top two bits are 3 1 2 3;
    # 6E789E6AA1B965F4: 65F4 A1B9 9E6A 6E78, whose top two bits are 1 2 2 1.
    text = BlockText(FOUR.table, 8)
    assert text.word_indices(ids(0)).tolist() == [[3, 1, 2, 3, 1, 2, 2, 1]]
    assert bytes(text.of(ids(0))) == b" away acid army away acid army army acid"
    assert bytes(BlockText(FOUR.table, 6).of(ids(0))) == b" away acid army away acid army"


def test_blocks_are_the_same_together_and_alone() -> None:
    text = BlockText(builtin_vocabulary().table, 64)
    five, six = bytes(text.of(ids(5))), bytes(text.of(ids(6)))
    assert bytes(text.of(ids(5, 6, 5))) == five + six + five
    assert bytes(text.of(ids())) == b""


def long_text() -> list[str]:
    """The words of 1,000 blocks of 64."""
    blocks = np.random.default_rng(5).integers(0, 2**63, 1_000, dtype=np.uint64)
    return bytes(BlockText(builtin_vocabulary().table, 64).of(blocks)).decode().split()


def test_no_two_blocks_coincide_and_lookup_finds_no_more_than_chance() -> None:
    words = long_text()
    assert len({tuple(words[at : at + 64]) for at in range(0, len(words), 64)}) == 1_000
    # Lookup decoding matches runs of words. Three words repeat by chance only: 64,000² / 2 pairs of
    # places over 1,234³ triples is 1.09 expected repeats; a Poisson variable of that mean is over 8
    # once in 500,000 times. Four agree at one pair in 1,234**4 = 2.3e12: expected 9e-4.
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    assert sum(times - 1 for times in triples.values()) <= 8
    fours = Counter(zip(words, words[1:], words[2:], words[3:], strict=False))
    assert max(fours.values()) == 1


def test_every_word_is_about_as_frequent_as_any_other() -> None:
    # 64,000 draws over 1,234 words: 51.9 each, standard deviation 7.2; six of them are 43.
    times = Counter(long_text()).values()
    assert len(times) == 1_234
    assert max(times) < 52 + 43
    assert min(times) > 52 - 43


# --- messages -----------------------------------------------------------------------------------

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


# --- text and token ids -------------------------------------------------------------------------

LINES = [
    (200, 10, "abc"),
    (330, 20, "abcde"),
    (460, 40, "abcdefg"),
    (150, 9, "ab"),
    (330, 1, "abcde"),
]
IDS = ids_wording([9, 7, 12_345])


def prompts(session: Session, wording: Wording, cost: TemplateCost) -> list[bytes]:
    """Compose one after the other by one composer, and check each against one made alone."""
    layout, keys, found = lay_out(session, cost), LevelKeys("salt", 1, 0), []
    grown = PlayComposer(layout, wording, keys, lane=0, play_number=0)
    for request in session.requests():
        alone = PlayComposer(layout, wording, keys, lane=0, play_number=0)
        found.append(grown.prompt(0, request).messages_json())
        assert found[-1] == alone.prompt(0, request).messages_json()
    return found


def test_text_and_ids_have_as_many_words_as_recorded_tokens_and_the_same(record: Record) -> None:
    assert (IDS.width, IDS.start) == (6, b"[9")
    session, id_of = record(LINES), {"able": 9, "acid": 7, "army": 12_345}
    texts = [json.loads(prompt) for prompt in prompts(session, text_wording(TWO), flat_cost(1))]
    assert [len(text.split()) for text in texts] == [200, 330, 460, 150, 330]
    assert all(text.startswith("able a") for text in texts)
    as_ids = [json.loads(prompt) for prompt in prompts(session, IDS, flat_cost(1))]
    assert [[id_of[word] for word in text.split()] for text in texts] == as_ids


def test_parts_rendered_again_are_the_same_messages_as_from_nothing(record: Record) -> None:
    assert len(set(prompts(record(LINES), chat_wording(TWO), CHATML))) == 4


def test_begin_of_text_takes_a_words_place(record: Record) -> None:
    (text,) = prompts(record(LINES[:1]), text_wording(TWO), flat_cost(2))
    assert len(json.loads(text).split()) == 199


def test_prompts_without_messages_share_exactly_the_recorded_blocks(record: Record) -> None:
    # Blocks a b c; then d e; then f g; then cut back to a b; then the second prompt again.
    wording = ids_wording(list(range(100, 1335)))
    tokens = [json.loads(text) for text in prompts(record(LINES), wording, flat_cost(1))]
    shared = [
        next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 10**9)
        for one, other in pairwise(tokens)
    ]
    # 3, 5 and 2 blocks of 64, the opening id in place of the first block's first word.
    assert shared[:3] == [192, 320, 128]
    assert tokens[4] == tokens[1]

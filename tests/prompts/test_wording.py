"""The same words as messages, as plain text and as token ids; and how diverse they are."""

import json
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from agentx_replay.prompts.compose import PlayComposer
from agentx_replay.prompts.keys import LevelKeys
from agentx_replay.prompts.layout import lay_out
from agentx_replay.prompts.template import CHATML
from agentx_replay.prompts.template_cost import flat_cost
from agentx_replay.prompts.text import BlockText, Wording, chat_wording, ids_wording, text_wording
from agentx_replay.prompts.vocabulary import Vocabulary, builtin_vocabulary
from agentx_replay.traces.model import Session

Record = Callable[..., Session]
TWO = Vocabulary(("acid", "army"), "able")
KEYS = LevelKeys("salt", 1, 0)
LINES = [
    (200, 10, "abc"),
    (330, 20, "abcde"),
    (460, 40, "abcdefg"),
    (150, 9, "ab"),
    (330, 1, "abcde"),
]


def composer(session: Session, wording: Wording, opening_tokens: int = 1) -> PlayComposer:
    return PlayComposer(
        lay_out(session, flat_cost(opening_tokens)), wording, KEYS, lane=0, ordinal=0
    )


def prompts(session: Session, wording: Wording, opening_tokens: int = 1) -> list[bytes]:
    play = composer(session, wording, opening_tokens)
    return [play.prompt(0, request).messages_json() for request in session.requests()]


def test_text_is_one_string_of_as_many_words_as_recorded_tokens(record: Record) -> None:
    texts = [json.loads(prompt) for prompt in prompts(record(LINES), text_wording(TWO))]
    assert [len(text.split()) for text in texts] == [200, 330, 460, 150, 330]
    assert all(text.startswith("able a") for text in texts)


def test_begin_of_text_takes_a_words_place(record: Record) -> None:
    (text,) = prompts(record(LINES[:1]), text_wording(TWO), opening_tokens=2)
    assert len(json.loads(text).split()) == 199


def test_ids_are_one_list_padded_to_one_width(record: Record) -> None:
    wording = ids_wording([9, 7, 12_345])
    assert (wording.width, wording.start) == (6, b"[9")
    lists = [json.loads(prompt) for prompt in prompts(record(LINES), wording)]
    assert [len(ids) for ids in lists] == [200, 330, 460, 150, 330]
    assert all(ids[0] == 9 and set(ids[1:]) == {7, 12_345} for ids in lists)


def test_ids_stand_for_the_words_of_the_same_prompt(record: Record) -> None:
    id_of = {"able": 9, "acid": 7, "army": 12_345}
    session = record(LINES)
    for text, ids in zip(
        prompts(session, text_wording(TWO)),
        prompts(session, ids_wording([9, 7, 12_345])),
        strict=True,
    ):
        assert [id_of[word] for word in json.loads(text).split()] == json.loads(ids)


def test_prompts_without_messages_share_exactly_the_recorded_blocks(record: Record) -> None:
    # Blocks a b c; then d e; then f g; then cut back to a b; then the second prompt again.
    texts = prompts(record(LINES), ids_wording(list(range(100, 1335))))
    tokens = [json.loads(text) for text in texts]
    shared = [
        next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 10**9)
        for one, other in pairwise(tokens)
    ]
    # 3, 5 and 2 blocks of 64, the opening id in place of the first block's first word.
    assert shared[:3] == [192, 320, 128]
    assert tokens[4] == tokens[1]


def test_parts_rendered_again_are_the_same_bytes_as_from_nothing(record: Record) -> None:
    session = record(LINES)
    for wording in (text_wording(TWO), ids_wording([9, 7, 12_345]), chat_wording(TWO)):
        cost = CHATML if wording.between else flat_cost(1)
        layout = lay_out(session, cost)
        grown = PlayComposer(layout, wording, KEYS, lane=0, ordinal=0)
        for request in session.requests():
            alone = PlayComposer(layout, wording, KEYS, lane=0, ordinal=0)
            assert (
                grown.prompt(0, request).messages_json() == alone.prompt(0, request).messages_json()
            )


# --- diversity ----------------------------------------------------------------------------------


def long_text() -> list[str]:
    """The words of 1,000 blocks of 64."""
    wording = text_wording(builtin_vocabulary())
    blocks = np.random.default_rng(5).integers(0, 2**63, 1_000, dtype=np.uint64)
    return bytes(BlockText(wording.table, 64).of(blocks)).decode().split()


def test_no_two_blocks_coincide() -> None:
    words = long_text()
    blocks = {tuple(words[at : at + 64]) for at in range(0, len(words), 64)}
    assert len(blocks) == 1_000


def test_prompt_lookup_finds_no_more_than_chance() -> None:
    # Three words repeat by chance only: 64,000² / 2 pairs of places over 1,234³ triples is 1.09
    # expected repeats; a Poisson variable of that mean is over 8 once in 500,000 times.
    words = long_text()
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    assert sum(times - 1 for times in triples.values()) <= 8


def test_every_word_is_about_as_frequent_as_any_other() -> None:
    # 64,000 draws over 1,234 words: 51.9 each, standard deviation 7.2; six of them are 43.
    times = Counter(long_text()).values()
    assert len(times) == 1_234
    assert max(times) < 52 + 43
    assert min(times) > 52 - 43

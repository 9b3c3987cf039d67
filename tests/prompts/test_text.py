"""Words are drawn by a counter: any block alone, in any order, is the same text."""

import numpy as np

from agentx_replay.prompts.text import BlockText, chat_wording
from agentx_replay.prompts.vocabulary import Vocabulary, builtin_vocabulary, opening_words

FOUR_WORDS = Vocabulary(("able", "acid", "army", "away"), "able")


def ids(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


def test_a_word_is_a_16_bit_draw_scaled_to_the_vocabulary() -> None:
    # Block 0 draws splitmix64's first two outputs from 0, low bits first:
    # E220A8397B1DCDAF: CDAF 7B1D A839 E220, whose top two bits are 3 1 2 3;
    # 6E789E6AA1B965F4: 65F4 A1B9 9E6A 6E78, whose top two bits are 1 2 2 1.
    text = BlockText(FOUR_WORDS.table, 8)
    assert text.word_indices(ids(0)).tolist() == [[3, 1, 2, 3, 1, 2, 2, 1]]
    assert bytes(text.of(ids(0))) == b" away acid army away acid army army acid"


def test_a_block_may_have_any_number_of_words() -> None:
    assert bytes(BlockText(FOUR_WORDS.table, 6).of(ids(0))) == b" away acid army away acid army"


def test_blocks_are_the_same_together_and_alone() -> None:
    text = BlockText(builtin_vocabulary().table, 64)
    five, six = bytes(text.of(ids(5))), bytes(text.of(ids(6)))
    assert bytes(text.of(ids(5, 6, 5))) == five + six + five


def test_no_blocks_are_no_text() -> None:
    assert bytes(BlockText(FOUR_WORDS.table, 64).of(ids())) == b""


def test_every_word_is_drawn() -> None:
    # 1,234 words in 64 * 2,000 draws: a word left out has probability e**-103.
    text = BlockText(builtin_vocabulary().table, 64)
    draws = text.word_indices(np.arange(2000, dtype=np.uint64))
    assert np.unique(draws).tolist() == list(range(1234))


def test_no_four_words_follow_each_other_twice_in_a_long_prompt() -> None:
    # Lookup decoding matches runs of words. 64,000 words hold 2e9 pairs of places, and four words
    # agree at one pair in 1,234**4 = 2.3e12: expected 9e-4 pairs under chance; none here.
    indices = BlockText(builtin_vocabulary().table, 64).word_indices(
        np.arange(1000, dtype=np.uint64)
    )
    row = indices.ravel().astype(np.int64)
    runs = ((row[:-3] * 1234 + row[1:-2]) * 1234 + row[2:-1]) * 1234 + row[3:]
    assert len(np.unique(runs)) == len(runs)


def test_a_message_opens_with_its_word_and_needs_no_escaping() -> None:
    wording = chat_wording(FOUR_WORDS)
    assert wording.around("user", 0) == (b'{"role":"user","content":"able', b'"}')


def test_the_builtin_words_are_1234_different_ones_of_letters() -> None:
    words = builtin_vocabulary().words
    assert len(set(words)) == len(words) == 1234
    assert all(len(word) == 4 and word.isascii() and word.isalpha() for word in words)
    assert builtin_vocabulary().opening == opening_words()[0] == "able"
    assert set(opening_words()) <= set(words)


def test_a_table_row_is_a_space_and_four_letters() -> None:
    assert Vocabulary(("able", "zone"), "able").table.tolist() == [
        [32, 97, 98, 108, 101],
        [32, 122, 111, 110, 101],
    ]

"""Words are one width, and a vocabulary says where it comes from."""

from agentx_replay.prompts.vocabulary import builtin_vocabulary, opening_words, word_table


def test_a_table_row_is_a_space_and_four_letters() -> None:
    assert word_table(["able", "zone"]).tolist() == [
        [32, 97, 98, 108, 101],
        [32, 122, 111, 110, 101],
    ]


def test_the_builtin_words_are_1234_different_ones_and_say_they_are_assumed() -> None:
    vocabulary = builtin_vocabulary()
    assert len(vocabulary) == 1234
    assert len({row.tobytes() for row in vocabulary.table}) == 1234
    assert vocabulary.assumed
    assert vocabulary.source == "1,234 built-in words, assumed to be one token each"


def test_the_builtin_words_need_no_escaping_in_json() -> None:
    text = builtin_vocabulary().table.tobytes().decode("ascii")
    assert text.replace(" ", "").isalpha()


def test_the_opening_word_is_among_those_that_are_a_token_without_a_space() -> None:
    assert builtin_vocabulary().opening == "able"
    assert "able" in opening_words()

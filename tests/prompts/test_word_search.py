"""Which words are one token each, found by counting texts of many at once."""

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from asked_probes import answered, words_of

from agentx_replay.prompts.probes import Count, Probe
from agentx_replay.prompts.vocabulary import common_words
from agentx_replay.prompts.word_search import MOST_PROBES, UncountedError, Words, find_words

CANDIDATES = common_words()


def found(
    count: Callable[[list[str]], Count], most_words: int = 2_048, seed: int = 1
) -> tuple[Words, int]:
    """Find words where ``count`` counts a text's words, the opening one first."""

    def counted(probe: Probe) -> Count:
        return count(words_of(probe))

    return answered(find_words(CANDIDATES, "able", random.Random(seed), most_words), counted)


def two_tokens(bad: set[str]) -> Callable[[list[str]], Count]:
    return lambda words: len(words) + sum(word in bad for word in words)


def test_words_that_are_one_token_each_cost_five_probes() -> None:
    # The opening word alone, one text to see that it fits, and three orders of all.
    words, probes = found(two_tokens(set()))
    assert words == Words(tuple(CANDIDATES), opening_tokens=1, words_a_text=1_234)
    assert probes == 5


def test_words_of_two_tokens_are_left_out() -> None:
    bad = set(CANDIDATES[:7])
    words, probes = found(two_tokens(bad))
    assert words.exact
    assert not bad & set(words.words)
    assert len(words.words) >= 1_000
    assert probes <= 5 + MOST_PROBES + 1


def test_words_that_merge_into_one_token_are_not_taken_for_exact() -> None:
    # Two of these in a row are one token: texts come out too short.
    pairs = set(CANDIDATES[:600])

    def merging(words: list[str]) -> int:
        count, after_one = 0, False
        for word in words:
            after_one = word in pairs and not after_one
            count += not (word in pairs and not after_one)
        return count

    words, _ = found(merging)
    assert words.exact == (words.excess_per_word == 0.0)
    assert len(words.words) >= 256


def test_errors_that_cancel_in_one_order_are_seen_in_another() -> None:
    # One word is two tokens, another none where it follows a word of its own first letter: the
    # sum is right in some orders only.
    def fickle(words: list[str]) -> int:
        after = {b: a for a, b in pairwise(words)}
        merged = CANDIDATES[5] in after and after[CANDIDATES[5]] < CANDIDATES[600]
        return len(words) + (CANDIDATES[3] in words) - merged

    words, _ = found(fickle)
    assert CANDIDATES[3] not in words.words or not words.exact


def test_where_no_word_is_one_token_the_excess_is_told() -> None:
    # Bytes as tokens: a space and four letters are five.
    words, probes = found(lambda words: 4 + 5 * (len(words) - 1))
    assert not words.exact
    assert words.excess_per_word == 4.0
    assert len(words.words) >= 256
    assert probes <= 5 + MOST_PROBES + 1


def test_a_short_context_is_asked_in_several_texts() -> None:
    # 1,234, 617, 308 words are refused, 154 are not: nine texts an order.
    words, probes = found(lambda words: len(words) if len(words) <= 200 else None)
    assert words.exact
    assert words.words_a_text == 154
    assert len(words.words) == 1_234
    assert probes == 1 + 4 + 3 * 9


@pytest.mark.parametrize("most", [0, 10])
def test_a_server_that_takes_no_text_is_told(most: int) -> None:
    with pytest.raises(UncountedError):
        found(lambda words: len(words) if len(words) <= most else None)


@pytest.mark.parametrize("seed", range(5))
def test_the_number_of_probes_is_bounded_whatever_is_wrong(seed: int) -> None:
    chance = random.Random(seed)
    _, probes = found(lambda words: len(words) + chance.randint(0, 3), seed=seed)
    assert probes <= 5 + MOST_PROBES + 1

"""Words out of a tokenizer's file: one token each between any others, or they are not used."""

import json
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
from refusals import refuses

from agentx_replay.prompts.tokenizer_file import vocabulary_from_tokenizer

tokenizers = pytest.importorskip("tokenizers", reason="needs the extra: tokenizers")

# 300 words that are in no list: consonants and vowels in turn, "baba" to "vovi".
NEW_WORDS = ["".join(letters) for letters in product("bcdfgjkmpv", "aeiou", "bd", "aei")]


def write_tokenizer(path: Path, entries: Sequence[str]) -> Path:
    """Write a byte-level BPE whose whole-word entries are ``entries`` (Ġ is a space)."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {entry: place for place, entry in enumerate(dict.fromkeys([*letters, *entries]))}
    model = models.BPE(vocab=vocabulary, merges=[], ignore_merges=True)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save(str(path))
    return path


def spaced(words: Sequence[str]) -> list[str]:
    return [f"Ġ{word}" for word in words]


def test_words_are_those_of_the_file(tmp_path: Path) -> None:
    path = write_tokenizer(tmp_path / "tokenizer.json", [*spaced(NEW_WORDS), "bada"])
    assert list(vocabulary_from_tokenizer(path).words) == sorted(NEW_WORDS)


def test_the_opening_word_is_one_token_with_a_space_and_without(tmp_path: Path) -> None:
    # "able" heads the list of opening words but is a token only without its space here.
    entries = [*spaced(NEW_WORDS), "able", "bade"]
    path = write_tokenizer(tmp_path / "tokenizer.json", entries)
    assert vocabulary_from_tokenizer(path).opening == "bade"


def test_only_a_space_and_four_lower_case_letters_make_a_word(tmp_path: Path) -> None:
    others = ["Ġbadab", "Ġbad", "bada", "ĠBada", "Ġb4da", "Ġbadé"]
    path = write_tokenizer(tmp_path / "tokenizer.json", [*spaced(NEW_WORDS), *others])
    assert len(vocabulary_from_tokenizer(path).words) == 300


def test_a_word_that_merges_with_its_neighbour_is_left_out(tmp_path: Path) -> None:
    """Here "bada" is one token alone, but one with any word that follows it."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = [f"▁{word}" for word in NEW_WORDS]
    entries = [*words, *(f"▁bada{word}" for word in words), "bade", "\n"]
    model = models.Unigram([("<unk>", -100.0), *((entry, -1.0) for entry in entries)], 0, False)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    found = vocabulary_from_tokenizer(path).words
    assert list(found) == sorted(set(NEW_WORDS) - {"bada"})


def test_a_file_with_too_few_words_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = write_tokenizer(tmp_path / "tokenizer.json", [*spaced(NEW_WORDS[:100]), "bada"])
    with refuses("tokenizer-of-few-words") as refusal:
        vocabulary_from_tokenizer(path)
    assert f"{path} has only 100 " in refusal.value.what
    assert "leave --tokenizer out" in refusal.value.what_to_do


def test_a_file_with_no_opening_word_is_refused(tmp_path: Path) -> None:
    path = write_tokenizer(tmp_path / "tokenizer.json", spaced(NEW_WORDS))
    with refuses("tokenizer-without-opening-word", "four-letter"):
        vocabulary_from_tokenizer(path)


@pytest.mark.parametrize("text", ["", "{", json.dumps({"version": "1.0"}), "\x00\xff"])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    with refuses("tokenizer-unreadable"):
        vocabulary_from_tokenizer(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with refuses("file-unreadable", "none.json"):
        vocabulary_from_tokenizer(tmp_path / "none.json")


def test_without_the_extra_it_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with refuses("tokenizers-not-installed") as refusal:
        vocabulary_from_tokenizer(tmp_path / "tokenizer.json")
    assert "agentx-replay[tokenizers]" in refusal.value.what_to_do

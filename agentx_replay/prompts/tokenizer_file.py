"""A vocabulary out of a model's ``tokenizer.json``: the words that are one token each in it.

Needs the extra ``tokenizers``, imported only when a file is read. The words are tried in running
text, not just looked up: a tokenizer need not make an entry of its vocabulary out of a word that
stands between others.
"""

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentx_replay.errors import UsageError
from agentx_replay.given_files import refuse_unfit
from agentx_replay.prompts.vocabulary import (
    FEWEST_WORDS,
    WORD_BYTES,
    Vocabulary,
    common_words,
    opening_words,
)

_GIVE = "give the model's tokenizer.json"
_LEAVE_OUT = "leave --tokenizer out and the built-in words are used"
_MOST_BYTES = 256 * 2**20
"""The largest vocabularies take 35 MB."""

_ORDERS = 3
# How byte-level BPE (Ġ) and SentencePiece (▁) write a space before four letters.
_SPACE_AND_FOUR_LETTERS = re.compile("[Ġ▁]([a-z]{4})")


def vocabulary_from_tokenizer(path: Path) -> Vocabulary:
    """Return the words that are one token each in the ``tokenizer.json`` at ``path``.

    Raises UsageError if the extra is not installed, the file cannot be read as a tokenizer, or it
    has too few such words.
    """
    tokenizer = _load(path)
    shaped = (_SPACE_AND_FOUR_LETTERS.fullmatch(entry) for entry in tokenizer.get_vocab())
    candidates = sorted({*common_words(), *(match[1] for match in shaped if match)})
    opening = _opening(tokenizer, [*opening_words(), *candidates], path)
    words = _one_token_in_text(tokenizer, opening, _one_token_alone(tokenizer, opening, candidates))
    if len(words) < FEWEST_WORDS:
        raise UsageError(
            "tokenizer-of-few-words",
            f"{path} has only {len(words)} four-letter words that are one token each, and prompts "
            f"need {FEWEST_WORDS}",
            _LEAVE_OUT,
        )
    return Vocabulary(tuple(words), opening)


def _load(path: Path) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise UsageError(
            "tokenizers-not-installed",
            "reading a tokenizer file needs the package tokenizers",
            "install it with: pip install 'agentx-replay[tokenizers]'",
        ) from error
    refuse_unfit(path, str(path), _GIVE, most_bytes=_MOST_BYTES)
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise UsageError(
            "tokenizer-unreadable", f"{path} cannot be read as a tokenizer ({error})", _GIVE
        ) from error


def _lengths(tokenizer: Any, texts: Sequence[str]) -> list[int]:
    return [len(e.ids) for e in tokenizer.encode_batch(texts, add_special_tokens=False)]


def _opening(tokenizer: Any, candidates: Sequence[str], path: Path) -> str:
    """Return the first word that is one token first in a text, after a space, after a newline."""
    [newline] = _lengths(tokenizer, ["\n"])
    for word in candidates:
        if _lengths(tokenizer, [word, f"{word} {word}", f"\n{word}"]) == [1, 2, newline + 1]:
            return word
    raise UsageError(
        "tokenizer-without-opening-word",
        f"{path} has no four-letter word that is one token with a space before it and without",
        _LEAVE_OUT,
    )


def _one_token_alone(tokenizer: Any, opening: str, words: Sequence[str]) -> list[str]:
    lengths = _lengths(tokenizer, [f"{opening} {word}" for word in words])
    return [word for word, tokens in zip(words, lengths, strict=True) if tokens == 2]


def _one_token_in_text(tokenizer: Any, opening: str, words: list[str]) -> list[str]:
    """Return the words that are one token in every order tried, with none of the others left."""
    settled, seed = 0, 0
    while settled < _ORDERS and words:
        order = random.Random(seed).sample(words, len(words))
        bad = _split_or_merged(tokenizer, opening, order)
        words = [word for word in words if word not in bad]
        settled = 0 if bad else settled + 1
        seed += 1
    return words


def _split_or_merged(tokenizer: Any, opening: str, words: Sequence[str]) -> set[str]:
    """Return the words at whose end, and nowhere else in them, no token ends in a text of all."""
    text = " ".join([opening, *words])
    offsets = tokenizer.encode(text, add_special_tokens=False).offsets
    ends = np.array([end for _, end in offsets]) - len(opening)
    ends = ends[ends > 0]
    tokens = np.bincount((ends - 1) // WORD_BYTES, minlength=len(words))
    whole = np.bincount(ends[ends % WORD_BYTES == 0] // WORD_BYTES - 1, minlength=len(words))
    return {word for word, n, w in zip(words, tokens, whole, strict=True) if (n, w) != (1, 1)}

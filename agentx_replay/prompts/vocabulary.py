"""The words that prompts are made of: each one token, all of one width, and the built-in list.

A vocabulary is injected wherever text is made. Reading one out of a tokenizer's file is in
``tokenizer.py``; asking a server for one is no part of this module either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

WORD_BYTES = 5
"""A space and four ASCII letters."""

FEWEST_WORDS = 256
"""Below this, prompts would repeat so much that lookup decoding could guess them."""

_WORDS = files("agentx_replay.prompts") / "words"


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Words that are one token each wherever they stand in running text.

    ``table`` (uint8, shape ``(K, 5)``) has a row a word: a space and four ASCII letters, so token
    p of a text is its bytes 5·p to 5·p + 4. ``opening`` (four letters) opens every message and is
    one token with a space before it and without. ``source`` says where the words come from, for
    people to read; ``assumed`` is true where no tokenizer and no server was asked.
    """

    table: NDArray[np.uint8]
    opening: str
    source: str
    assumed: bool = True

    def __len__(self) -> int:
        return len(self.table)


def word_table(words: Sequence[str]) -> NDArray[np.uint8]:
    """Return the table of four-letter ASCII ``words``: uint8, shape ``(len(words), 5)``."""
    text = "".join(f" {word}" for word in words).encode("ascii")
    return np.frombuffer(text, np.uint8).reshape(len(words), WORD_BYTES)


def common_words() -> list[str]:
    """Return the four-letter words that are one token in every vocabulary they were checked in.

    They were computed from the tokenizer files of DeepSeek V3 and V4, Gemma 3, gpt-oss, Llama 2,
    Llama 3.1, Qwen 3 and SmolLM2.
    """
    return (_WORDS / "one-token.txt").read_text("ascii").split()


def opening_words() -> list[str]:
    """Return those of ``common_words`` that are also one token without a space before them."""
    return (_WORDS / "opening.txt").read_text("ascii").split()


def builtin_vocabulary() -> Vocabulary:
    """Return the built-in words, assumed to be one token each in the server's vocabulary too."""
    words = common_words()
    return Vocabulary(
        table=word_table(words),
        opening=opening_words()[0],
        source=f"{len(words):,} built-in words, assumed to be one token each",
    )

"""The words that prompts are made of: each one token, all of one width; and the built-in ones."""

from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

WORD_BYTES = 5
"""A space and four ASCII letters."""

FEWEST_WORDS = 256
"""Below this, prompts would repeat so much that lookup decoding could guess them."""

_WORDS = files("agentx_replay.prompts") / "words"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words of four ASCII letters that are one token each wherever they stand in running text.

    ``opening`` opens every message and is one token with a space before it and without.
    """

    words: tuple[str, ...]
    opening: str

    @property
    def table(self) -> NDArray[np.uint8]:
        """A row a word, a space and its letters, so token p of a text is its bytes 5·p to 5·p + 4:
        uint8, shape ``(len(words), 5)``.
        """
        text = "".join(f" {word}" for word in self.words).encode("ascii")
        return np.frombuffer(text, np.uint8).reshape(len(self.words), WORD_BYTES)


def common_words() -> tuple[str, ...]:
    """Return the four-letter words that are one token in every vocabulary they were checked in.

    They were computed from the tokenizer files of DeepSeek V3 and V4, Gemma 3, gpt-oss, Llama 2,
    Llama 3.1, Qwen 3 and SmolLM2.
    """
    return tuple((_WORDS / "one-token.txt").read_text("ascii").split())


def opening_words() -> tuple[str, ...]:
    """Return those of ``common_words`` that are also one token without a space before them."""
    return tuple((_WORDS / "opening.txt").read_text("ascii").split())


def builtin_vocabulary() -> Vocabulary:
    """Return the built-in words, which a server's vocabulary need not have as one token each."""
    return Vocabulary(common_words(), opening_words()[0])

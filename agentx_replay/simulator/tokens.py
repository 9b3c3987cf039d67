"""What a prompt is to the simulator: a row of tokens, and content ids for its blocks of tokens.

The default tokenizer counts a word (what stands between white space) as one token, and the default
template is ChatML's in its cost. Any other pair is a ``Renderer``. Message bodies are megabytes
and there is one event loop, so equal-width text (four letters and a space, what this project's
replays send) is read as an array; other text word by word, with the same tokens for the same
words. This module knows nothing of HTTP and nothing of the cache that uses the ids.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import orjson
from numpy.typing import NDArray

Tokens = NDArray[np.uint64]
Message = Mapping[str, Any]

_SPECIAL = 1 << 62
_WORD_BYTES = 4
_SPACE = 0x20
_EXACT_BYTES = 8


class Renderer(Protocol):
    """A chat template and a tokenizer: what a request's prompt is in tokens (uint64)."""

    def chat(self, messages: Sequence[Message], tools: Sequence[Any]) -> Tokens:
        """Return the tokens of a conversation, generation prompt included."""

    def text(self, text: str) -> Tokens:
        """Return the tokens of plain text, without any template."""


@dataclass(frozen=True, slots=True)
class WordRenderer:
    """Words as tokens, under a template that costs what ChatML's does.

    A message is ``head_tokens`` (``<|im_start|>role\\n``), its words, and ``tail_tokens``
    (``<|im_end|>\\n``); ``generation_tokens`` open the answer. Tools are one more message.
    """

    head_tokens: int = 3
    tail_tokens: int = 2
    generation_tokens: int = 3

    def chat(self, messages: Sequence[Message], tools: Sequence[Any]) -> Tokens:
        parts: list[Tokens] = []
        if tools:
            parts += self._message("tools", orjson.dumps(tools).decode())
        for message in messages:
            parts += self._message(str(message.get("role", "")), message_text(message))
        parts.append(_special("assistant", self.generation_tokens))
        return np.concatenate(parts)

    def text(self, text: str) -> Tokens:
        return word_tokens(text)

    def _message(self, role: str, text: str) -> list[Tokens]:
        return [
            _special(role, self.head_tokens),
            word_tokens(text),
            _special("end", self.tail_tokens),
        ]


def message_text(message: Message) -> str:
    """Return what a message says: its content (text, or the text of its parts), its calls."""
    content = message.get("content")
    if isinstance(content, list):
        said = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    else:
        said = "" if content is None else str(content)
    calls = message.get("tool_calls")
    return f"{said}\n{orjson.dumps(calls).decode()}" if calls else said


def word_tokens(text: str) -> Tokens:
    """Return one token a word, uint64: equal for equal words, whatever stands around them."""
    data = text.encode("utf-8", "surrogatepass")
    tokens = _equal_width_tokens(data)
    return _any_width_tokens(data) if tokens is None else tokens


def block_ids(tokens: Tokens, block_tokens: int) -> NDArray[np.uint64]:
    """Return a content id for each whole block, uint64, shape ``(len(tokens) // block_tokens,)``.

    A multilinear hash of mixed tokens: two different blocks have equal ids with a probability of
    about 2⁻⁶⁴. The id says nothing of what stands before the block.
    """
    blocks = len(tokens) // block_tokens
    mixed = tokens[: blocks * block_tokens] * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    weights = np.random.default_rng(block_tokens).integers(
        0, 1 << 63, block_tokens, dtype=np.uint64
    )
    ids: NDArray[np.uint64] = mixed.reshape(blocks, block_tokens) @ (weights * 2 + 1)
    ids ^= ids >> np.uint64(32)
    return ids


def _special(kind: str, count: int) -> Tokens:
    """Return the tokens of a piece of the template, which no word has."""
    first = _SPECIAL + (int.from_bytes(kind.encode()[:4]) << 8)
    return np.arange(first, first + count, dtype=np.uint64)


def _equal_width_tokens(data: bytes) -> Tokens | None:
    """Return the tokens of four-letter words one space apart, None for any other text."""
    words, rest = divmod(len(data) + 1, _WORD_BYTES + 1)
    if rest or not words:
        return None
    octets = np.frombuffer(data, np.uint8)
    spaces_between = (octets[_WORD_BYTES :: _WORD_BYTES + 1] == _SPACE).all()
    if not spaces_between or np.count_nonzero(octets <= _SPACE) != words - 1:
        return None
    letters: NDArray[np.uint32] = np.ndarray(
        (words,), np.dtype("<u4"), buffer=data, strides=(_WORD_BYTES + 1,)
    )
    return letters.astype(np.uint64)


def _any_width_tokens(data: bytes) -> Tokens:
    """Return a token a word: its bytes, or a hash of them where they are more than eight.

    The hash is Python's, different in every process: ids are compared within one only.
    """
    words = data.split()
    tokens = np.array(words, dtype=f"S{_EXACT_BYTES}").view("<u8").astype(np.uint64)
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    for index in np.flatnonzero(lengths > _EXACT_BYTES).tolist():
        tokens[index] = hash(words[index]) & (2**64 - 1)
    return tokens

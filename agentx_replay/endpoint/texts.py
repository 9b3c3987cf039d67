"""What the texts of a stream's token events say of the tokens in them, where no usage does.

Computed once a response, after its end, and only where it is needed. Not for: usage
(completion_stream.py).
"""

import re
from collections.abc import Iterable, Sequence

import numpy as np
import orjson
from numpy.typing import NDArray

Text = str | bytes
"""A decoded text, or the inside of a JSON string as it came, in ASCII."""

_PIECE = re.compile(r"(?:[^\r\n\w]|_)?[^\W\d_]+|\d{1,3}| ?[^\s\w]+[\r\n/]*|_+|\s*[\r\n]+|\s+")
"""A word with the mark or space before it, up to three digits, marks, line ends, spaces: the cuts
that the tokenizers of GPT, Llama 3, Qwen and DeepSeek make before they merge bytes into tokens.
"""


def needs_texts(completion: int | None, events: int) -> bool:
    """Whether completion tokens exceed token events by over 2 and over 1 %: some event has several,
    or some token came in none.
    """
    return completion is not None and completion > events + 2 and completion > 1.01 * events


def text_bytes(texts: Sequence[Text]) -> NDArray[np.int32]:
    """Return the length of each text in UTF-8."""
    return np.array([len(_decoded(text).encode("utf-8", "replace")) for text in texts], np.int32)


def pieces(texts: Iterable[Text]) -> int:
    """Return how many pieces the texts have, each text by itself.

    No token spans two pieces, so it is the least number of tokens that can have said the texts.
    """
    return sum(len(_PIECE.findall(_decoded(text))) for text in texts)


def _decoded(text: Text) -> str:
    return text if isinstance(text, str) else str(orjson.loads(b'"' + text + b'"'))

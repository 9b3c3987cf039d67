"""One prompt as a value: how long it is, which blocks it holds, and its bytes when asked for; and
what was answered to one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """What one request says.

    ``tokens`` is the length the server should count, chat template included. ``block_ids``
    (uint64, shape ``(whole blocks,)``) identifies each whole block of ``block_tokens``: two prompts
    hold the same block at the same place if and only if the ids are equal, so an engine that has
    no wire needs no text. ``reusable_tokens`` is how many leading tokens an unlimited prefix
    cache would already hold, given what the same play sent before. The first ``declared_blocks``
    of the blocks, ``declared_tokens`` in all, may be in other plays' prompts too; the rest never.
    ``says_answer`` is whether the prompt says what the server answered to the one it goes on from
    (``live.py``), False where that had ended without an answer, None where none was to be said.

    ``messages_json()`` builds, on the first call, the JSON array of chat messages (ASCII,
    nothing to escape), or the text or token ids of a prompt made for the completions API; a
    replay in virtual time never calls it.
    """

    tokens: int
    reusable_tokens: int
    block_ids: NDArray[np.uint64]
    messages_json: Callable[[], bytes]
    block_tokens: int = 64
    declared_blocks: int = 0
    declared_tokens: int = 0
    says_answer: bool | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered: ``text``, of ``tokens`` (at least 1), and what it counted of the
    prompt, chat template included (None: not told).

    ``whole`` says that the text is all that the server generated: no reasoning and no tool call
    stands before or between in its cache, and ``tokens`` is its own count.
    """

    text: str
    tokens: int
    prompt_tokens: int | None = None
    whole: bool = True

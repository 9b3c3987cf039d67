"""What a server is asked when prompts are calibrated against it: tiny prompts to be counted.

A calibration is a conversation of its own: it yields batches of probes and is sent one count for
each, so whoever drives it does the I/O and everything decided here can be tested without any. A
count of None means that the server would not take the prompt. Not for: what to ask in which order
(word_search.py, calibration.py) or how a server counts (the endpoint room).
"""

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from agentx_replay.prompts.chat_messages import chat_message
from agentx_replay.prompts.template import Role

Count = int | None
"""Tokens of a prompt as the server counts them, None where it refused it."""


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text, without a template: an opening word and ``words`` more."""

    text: str
    words: int
    has_system: ClassVar[bool] = False
    message_count: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Ids:
    """Token ids, without a template: an opening one and ``words`` more."""

    ids: tuple[int, ...]
    words: int
    has_system: ClassVar[bool] = False
    message_count: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages as role and text, each an opening word and more; ``words`` counts those more.

    With ``tool_messages`` answers and what follows them are sent as calls and their results.
    """

    messages: tuple[tuple[Role, str], ...]
    words: int
    tool_messages: bool = False

    @property
    def has_system(self) -> bool:
        return self.messages[0][0] == "system"

    @property
    def message_count(self) -> int:
        return len(self.messages)

    def as_sent(self) -> list[dict[str, Any]]:
        return [
            chat_message(role, depth - self.has_system, text, tool_messages=self.tool_messages)
            for depth, (role, text) in enumerate(self.messages)
        ]


Probe = Text | Ids | Conversation

_T = TypeVar("_T")
Asking = Generator[Sequence[Probe], Sequence[Count], _T]
"""Yields batches of probes, is sent their counts, returns what it found out."""


def sentence(opening: str, words: Sequence[str]) -> str:
    return " ".join((opening, *words))


@dataclass(frozen=True, slots=True)
class ProbeMaker:
    """Makes probes out of ``words`` drawn by ``rng``, so that a cache knows none of them.

    Its conversations have answers and questions, or with ``tool_messages`` calls and results.
    """

    opening: str
    words: Sequence[str]
    rng: random.Random
    tool_messages: bool = False

    def drawn(self, count: int) -> list[str]:
        return self.rng.choices(self.words, k=count)

    def conversation(self, messages: Sequence[tuple[Role, int]]) -> Conversation:
        said = tuple((role, sentence(self.opening, self.drawn(count))) for role, count in messages)
        words = sum(count for _, count in messages)
        return Conversation(said, words, self.tool_messages)

    def text(self, count: int) -> Text:
        return Text(sentence(self.opening, self.drawn(count)), count)


def roles(pairs: int, *, has_system: bool) -> list[Role]:
    """Return the roles of a user's message and ``pairs`` of an answer and one more."""
    pair: list[Role] = ["assistant", "user"]
    opening: list[Role] = ["system", "user"] if has_system else ["user"]
    return opening + pair * pairs

"""The JSON of an answer: stream events and whole bodies, of both APIs. Pure.

How events are framed and written is in ``wire.py``.
"""

from dataclasses import dataclass
from typing import Any, Literal

import orjson

WORD = " word"
"""What every token says."""

DONE = b"data: [DONE]\n\n"
"""The event that ends a stream."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Usage:
    """What was counted, as the ``usage`` object says it."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int

    def as_json(self) -> Json:
        """Return the ``usage`` object."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "completion_tokens": self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


@dataclass(frozen=True, slots=True)
class Events:
    """The events of one response: what is the same in all of them."""

    response_id: str
    model: str
    created_s: int
    chat: bool

    def role(self) -> bytes:
        """Return the event that only says who speaks (chat only)."""
        return self._event([_choice({"delta": {"role": "assistant", "content": ""}})])

    def tokens(
        self,
        count: int,
        *,
        finish: Literal["length"] | None = None,
        usage: Usage | None = None,
    ) -> bytes:
        """Return an event of ``count`` tokens; ``usage`` is for streams that tell it always."""
        text = WORD * count
        choice = _choice({"delta": {"content": text}} if self.chat else {"text": text})
        choice["finish_reason"] = finish
        return self._event([choice], usage)

    def usage(self, usage: Usage) -> bytes:
        """Return the event after the last token that has usage and no choice."""
        return self._event([], usage)

    def whole(self, usage: Usage) -> bytes:
        """Return the body of a response that is not streamed."""
        text = WORD * usage.completion_tokens
        said: Json = {"message": {"role": "assistant", "content": text}}
        choice = _choice(said if self.chat else {"text": text})
        choice["finish_reason"] = "length"
        kind = "chat.completion" if self.chat else "text_completion"
        return orjson.dumps(self._object(kind, [choice], usage))

    def _event(self, choices: list[Json], usage: Usage | None = None) -> bytes:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return b"data: " + orjson.dumps(self._object(kind, choices, usage)) + b"\n\n"

    def _object(self, kind: str, choices: list[Json], usage: Usage | None) -> Json:
        answer: Json = {
            "id": self.response_id,
            "object": kind,
            "created": self.created_s,
            "model": self.model,
            "choices": choices,
        }
        if usage is not None:
            answer["usage"] = usage.as_json()
        return answer


def _choice(said: Json) -> Json:
    return {"index": 0, **said, "logprobs": None, "finish_reason": None}

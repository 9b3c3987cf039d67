"""The JSON of an answer: stream events and whole bodies, of both APIs. Pure.

How events are framed and written is in ``wire.py``.
"""

from dataclasses import dataclass
from typing import Any, Literal

import orjson

from agentx_replay.simulator.faults import Shape

WORD = " word"
"""What every token says."""
_YEAR_2100_S = 4_102_444_800

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
    """The events of one response: what is the same in all of them, and its shape."""

    response_id: str
    model: str
    created_s: int
    chat: bool
    shape: Shape

    def role(self) -> bytes:
        """Return the event that only says who speaks (chat only)."""
        content = None if self.shape.role == "null_content" else ""
        return self._event([_choice({"delta": {"role": "assistant", "content": content}})])

    def tokens(
        self,
        count: int,
        *,
        first: bool = False,
        finish: Literal["length"] | None = None,
        usage: Usage | None = None,
    ) -> bytes:
        """Return an event of ``count`` tokens; ``usage`` is for streams that tell it always."""
        said = self._delta(count, first=first) if self.chat else {"text": self._text(count)}
        choice = _choice(said)
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

    def _text(self, count: int) -> str:
        return "" if self.shape.delta == "empty" else WORD * count

    def _delta(self, count: int, *, first: bool) -> Json:
        field = "content" if self.shape.delta == "empty" else self.shape.delta
        said: Json = {field: self._text(count)}
        if first and self.shape.role == "merged":
            said["role"] = "assistant"
        return {"delta": said}

    def _event(self, choices: list[Json], usage: Usage | None = None) -> bytes:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        end = self.shape.line_end.encode()
        return b"data: " + orjson.dumps(self._object(kind, choices, usage)) + end + end

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
        if self.shape.odd_fields:
            answer |= {"created": _YEAR_2100_S, "x_trace": {"spans": [1, None]}, "choice": "odd"}
        return answer


def done(shape: Shape) -> bytes:
    """Return the event that ends a stream."""
    end = shape.line_end.encode()
    return b"data: [DONE]" + end + end


def _choice(said: Json) -> Json:
    return {"index": 0, **said, "logprobs": None, "finish_reason": None}

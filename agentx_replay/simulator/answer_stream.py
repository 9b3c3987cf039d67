"""What an answer says, and when: its JSON, its events, and their bytes on a connection."""

import time
from dataclasses import dataclass
from typing import Any

import orjson

from agentx_replay.simulator.api import Completion
from agentx_replay.simulator.http_connection import (
    LAST_CHUNK,
    Connection,
    chunk,
    http_response,
    stream_head,
)
from agentx_replay.simulator.truth import ResponseTruth

WORD = " word"
"""What every token says."""

DONE = b"data: [DONE]\n\n"
"""The event that ends a stream."""

Json = dict[str, Any]


def usage(prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> Json:
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
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

    def tokens(self, count: int, *, finish: str | None = None, used: Json | None = None) -> bytes:
        """Return an event of ``count`` tokens; ``used`` is for streams that tell it always."""
        text = WORD * count
        said: Json = {"delta": {"content": text}} if self.chat else {"text": text}
        return self._event([_choice(said, finish)], used)

    def usage(self, used: Json) -> bytes:
        """Return the event after the last token that has usage and no choice."""
        return self._event([], used)

    def whole(self, used: Json) -> bytes:
        text = WORD * used["completion_tokens"]
        said: Json = {"message": {"role": "assistant", "content": text}}
        choice = _choice(said if self.chat else {"text": text}, "length")
        kind = "chat.completion" if self.chat else "text_completion"
        return orjson.dumps(self._object(kind, [choice], used))

    def _event(self, choices: list[Json], used: Json | None = None) -> bytes:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return b"data: " + orjson.dumps(self._object(kind, choices, used)) + b"\n\n"

    def _object(self, kind: str, choices: list[Json], used: Json | None) -> Json:
        told = {
            "id": self.response_id,
            "object": kind,
            "created": self.created_s,
            "model": self.model,
            "choices": choices,
        }
        return told if used is None else {**told, "usage": used}


def _choice(said: Json, finish: str | None = None) -> Json:
    return {"index": 0, **said, "logprobs": None, "finish_reason": finish}


class Wire:
    """Where one response goes: each event is one write, made at once.

    An event is framed once where it is the one before again: the tokens of a response are the same
    bytes over and over.
    """

    __slots__ = ("_frame", "_payload", "connection", "keep_alive", "truth")

    def __init__(
        self, connection: Connection, *, keep_alive: bool, truth: ResponseTruth | None
    ) -> None:
        self.connection = connection
        self.keep_alive = keep_alive
        self.truth = truth
        self._payload = self._frame = b""

    def whole(self, body: bytes) -> None:
        self.connection.send(http_response(200, body, keep_alive=self.keep_alive))
        self.connection.finish(keep_alive=self.keep_alive)

    def head(self) -> None:
        self.connection.send(stream_head(keep_alive=self.keep_alive))

    def event(self, payload: bytes, tokens: int = 0) -> None:
        """Send an event that holds so many tokens, its time taken just before the system call."""
        if payload is not self._payload:
            self._payload = payload
            self._frame = chunk(payload)
        if tokens and self.truth is not None:
            self.truth.sent(time.monotonic_ns(), tokens)
        self.connection.send(self._frame)

    def end(self) -> None:
        self.connection.send(LAST_CHUNK)
        self.connection.finish(keep_alive=self.keep_alive)


class Answer:
    """An answer in flight, streamed or in one piece: what it says as its sequence goes on.

    ``tokens_per_step`` is the engine's: an event of so many tokens is built once.
    """

    __slots__ = ("_asked", "_cached_tokens", "_events", "_said_tokens", "_steady", "_steady_tokens",
                 "wire")  # fmt: skip

    def __init__(self, asked: Completion, events: Events, wire: Wire, tokens_per_step: int) -> None:
        self.wire = wire
        self._asked = asked
        self._events = events
        self._cached_tokens = self._said_tokens = 0
        self._steady_tokens = 0 if asked.usage_in_every_event else tokens_per_step
        self._steady = events.tokens(self._steady_tokens)

    def accepted(self) -> None:
        """The engine has the request."""
        if self._asked.stream:
            self.wire.head()

    def started(self, cached_tokens: int) -> None:
        """The prefill is complete, with so many tokens of it found in the cache."""
        self._cached_tokens = cached_tokens
        if self.wire.truth is not None:
            self.wire.truth.cached_tokens = cached_tokens
        if self._asked.stream and self._asked.chat:
            self.wire.event(self._events.role())

    def step(self, tokens: int) -> None:
        """So many tokens came, not the last."""
        self._said_tokens += tokens
        if self._asked.stream:
            steady = tokens == self._steady_tokens
            payload = self._steady if steady else self._events.tokens(tokens, used=self._running())
            self.wire.event(payload, tokens)

    def last(self, tokens: int) -> None:
        """The last tokens came: say so, the usage if asked for, and ``[DONE]``."""
        self.ended("complete")
        self._said_tokens += tokens
        if not self._asked.stream:
            self.wire.whole(self._events.whole(self._used()))
            return
        payload = self._events.tokens(tokens, finish="length", used=self._running())
        self.wire.event(payload, tokens)
        if self._asked.include_usage:
            self.wire.event(self._events.usage(self._used()))
        self.wire.event(DONE)
        self.wire.end()

    def ended(self, end: str) -> None:
        if self.wire.truth is not None:
            self.wire.truth.end = end

    def _used(self) -> Json:
        return usage(len(self._asked.tokens), self._cached_tokens, self._said_tokens)

    def _running(self) -> Json | None:
        return self._used() if self._asked.usage_in_every_event else None

"""The answers in flight: what each says when its sequence starts, steps and finishes.

The server drives them; where their bytes go is a ``Wire``'s business.
"""

from agentx_replay.simulator.api import Completion
from agentx_replay.simulator.events import DONE, Events, Usage
from agentx_replay.simulator.wire import Wire


class Reply:
    """An answer in one piece."""

    __slots__ = ("_cached_tokens", "_completion", "_events", "_said_tokens", "_wire")

    def __init__(self, completion: Completion, events: Events, wire: Wire) -> None:
        self._completion = completion
        self._events = events
        self._wire = wire
        self._cached_tokens = 0
        self._said_tokens = 0

    def accepted(self) -> None:
        """The engine has the request."""

    def started(self, cached_tokens: int) -> None:
        """The prefill is complete, with so many tokens of it found in the cache."""
        self._cached_tokens = cached_tokens

    def step(self, tokens: int) -> None:
        """So many tokens came, not the last."""
        self._said_tokens += tokens

    def last(self, tokens: int) -> None:
        """The last tokens came."""
        self._said_tokens += tokens
        self._wire.whole(self._events.whole(self._usage()))

    def _usage(self) -> Usage:
        return Usage(len(self._completion.tokens), self._cached_tokens, self._said_tokens)


class StreamReply(Reply):
    """An answer as server-sent events.

    ``tokens_per_step`` is the engine's: an event of so many tokens is built once.
    """

    __slots__ = ("_steady", "_steady_tokens")

    def __init__(
        self, completion: Completion, events: Events, wire: Wire, tokens_per_step: int
    ) -> None:
        super().__init__(completion, events, wire)
        self._steady_tokens = 0 if completion.usage_in_every_event else tokens_per_step
        self._steady = events.tokens(self._steady_tokens)

    def accepted(self) -> None:
        self._wire.head()

    def started(self, cached_tokens: int) -> None:
        super().started(cached_tokens)
        if self._completion.chat:
            self._wire.event(self._events.role())

    def step(self, tokens: int) -> None:
        self._said_tokens += tokens
        steady = tokens == self._steady_tokens
        payload = self._steady if steady else self._events.tokens(tokens, usage=self._running())
        self._wire.event(payload, tokens)

    def last(self, tokens: int) -> None:
        """Say the last words, why they are the last, the usage if asked for, and ``[DONE]``."""
        self._said_tokens += tokens
        payload = self._events.tokens(tokens, finish="length", usage=self._running())
        self._wire.event(payload, tokens)
        if self._completion.include_usage:
            self._wire.event(self._events.usage(self._usage()))
        self._wire.event(DONE)
        self._wire.end()

    def _running(self) -> Usage | None:
        return self._usage() if self._completion.usage_in_every_event else None

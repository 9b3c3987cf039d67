"""The answers in flight: what each says when its sequence starts, steps and finishes.

The server drives them; where their bytes go is a ``Wire``'s business.
"""

from typing import Protocol

from agentx_replay.simulator.api import Completion
from agentx_replay.simulator.events import Events, Usage, done
from agentx_replay.simulator.wire import Wire


class Reply(Protocol):
    """An answer in flight."""

    def accepted(self) -> None:
        """The engine has the request."""

    def started(self, cached_tokens: int) -> None:
        """The prefill is complete, with so many tokens of it found in the cache."""

    def step(self, tokens: int) -> None:
        """So many tokens came, not the last."""

    def last(self, tokens: int) -> None:
        """The last tokens came."""


class WholeReply:
    """An answer in one piece."""

    def __init__(self, completion: Completion, events: Events, wire: Wire) -> None:
        self._completion = completion
        self._events = events
        self._wire = wire
        self._cached_tokens = 0
        self._tokens = 0

    def accepted(self) -> None:
        """Say nothing yet."""

    def started(self, cached_tokens: int) -> None:
        """Remember what was cached."""
        self._cached_tokens = cached_tokens

    def step(self, tokens: int) -> None:
        """Count."""
        self._tokens += tokens

    def last(self, tokens: int) -> None:
        """Say everything."""
        prompt_tokens = len(self._completion.tokens)
        usage = Usage(prompt_tokens, self._cached_tokens, self._tokens + tokens)
        self._wire.whole(200, self._events.whole(usage))


class StreamReply:
    """An answer as server-sent events.

    ``tokens_per_step`` is the engine's: an event of so many tokens is built once.
    """

    __slots__ = (
        "_cached_tokens",
        "_completion",
        "_events",
        "_said_tokens",
        "_steady",
        "_steady_tokens",
        "_steps",
        "_steps_per_event",
        "_unsaid_tokens",
        "_usage_always",
        "_wire",
    )

    def __init__(
        self, completion: Completion, events: Events, wire: Wire, tokens_per_step: int
    ) -> None:
        shape = events.shape
        self._completion = completion
        self._events = events
        self._wire = wire
        self._usage_always = completion.usage_in_every_event or shape.usage == "every"
        self._steps_per_event = shape.steps_per_event
        self._steady_tokens = tokens_per_step * shape.steps_per_event
        self._steady = events.tokens(self._steady_tokens)
        self._cached_tokens = 0
        self._said_tokens = 0
        self._unsaid_tokens = 0
        self._steps = 0

    def accepted(self) -> None:
        """Send the headers."""
        self._wire.head()
        if self._completion.chat and self._events.shape.role == "at_once":
            self._wire.event(self._events.role())

    def started(self, cached_tokens: int) -> None:
        """Say who speaks."""
        self._cached_tokens = cached_tokens
        if self._completion.chat and self._events.shape.role in ("first_token", "null_content"):
            self._wire.event(self._events.role())

    def step(self, tokens: int) -> None:
        """Say a word for each token, when the tokens of enough steps are together."""
        self._unsaid_tokens += tokens
        self._steps += 1
        if self._steps < self._steps_per_event:
            return
        first = not self._said_tokens
        if self._unsaid_tokens == self._steady_tokens and not first and not self._usage_always:
            self._send(self._steady)
            return
        said = self._said_tokens + self._unsaid_tokens
        self._send(self._events.tokens(self._unsaid_tokens, first=first, usage=self._usage(said)))

    def last(self, tokens: int) -> None:
        """Say the last words, why they are the last, the usage if asked for, and ``[DONE]``."""
        first = not self._said_tokens
        self._unsaid_tokens += tokens
        said = self._said_tokens + self._unsaid_tokens
        self._send(
            self._events.tokens(
                self._unsaid_tokens, first=first, finish="length", usage=self._usage(said)
            )
        )
        shape = self._events.shape
        if self._completion.include_usage and shape.usage != "never":
            self._wire.tail(self._events.usage(self._counted(said)))
        if shape.done:
            self._wire.tail(done(shape))
        self._wire.end()

    def _send(self, payload: bytes) -> None:
        tokens = self._unsaid_tokens
        self._said_tokens += tokens
        self._unsaid_tokens = 0
        self._steps = 0
        self._wire.event(payload, tokens)

    def _usage(self, said_tokens: int) -> Usage | None:
        return self._counted(said_tokens) if self._usage_always else None

    def _counted(self, said_tokens: int) -> Usage:
        return Usage(len(self._completion.tokens), self._cached_tokens, said_tokens)

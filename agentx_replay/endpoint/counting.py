"""Asking a server how long prompts are, in its own tokens: through ``/tokenize``, or its usage.

vLLM's ``/tokenize`` counts messages and text, SGLang's text only; llama.cpp's counts text, and its
``/apply-template`` makes text of messages. Where none is offered, a request for one token is made
and its usage read. Not for: what is asked and what the answers mean (the prompts room).
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agentx_replay.endpoint.asking import Asker, Limits, json_of
from agentx_replay.endpoint.requests import fixed_fields
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.prompts.probes import Conversation, Count, Ids, Probe, Text

CONNECTIONS = 8
_OK = 200


class Way(StrEnum):
    """How a server is made to count."""

    TOKENIZE = "/tokenize"
    TEMPLATE_AND_TOKENIZE = "/apply-template and /tokenize"
    USAGE = "usage"
    WHOLE_USAGE = "usage, not streamed"

    @property
    def requests(self) -> int:
        return 2 if self is Way.TEMPLATE_AND_TOKENIZE else 1


class UncountedError(Exception):
    """The server counts prompts in none of the ways known."""


@dataclass(frozen=True, slots=True)
class Ways:
    """How conversations and plain text are counted; ``usage`` is None where none is reported."""

    conversations: Way
    texts: Way
    usage: Way | None

    def of(self, probe: Probe) -> Way:
        """Return how a probe is counted: ids have no other way than usage."""
        if isinstance(probe, Ids):
            return self.usage or Way.USAGE
        return self.conversations if isinstance(probe, Conversation) else self.texts


@dataclass(frozen=True, slots=True)
class Enough:
    """When to begin no further probe: after ``within_s``, with ``at_least`` so many begun."""

    within_s: float
    at_least: int

    def reached(self, begun: int, passed_s: float) -> bool:
        return begun >= self.at_least and passed_s > self.within_s


class Counter:
    """Counts prompts at one server. Make it inside a running loop, and close it after."""

    def __init__(self, settings: EndpointSettings, limits: Limits | None = None) -> None:
        self._asker = Asker(settings, limits, answered=True)
        self._settings = settings

    async def close(self) -> None:
        await self._asker.close()

    @property
    def requests(self) -> int:
        return self._asker.requests

    async def ways(self, conversation: Conversation, text: Text) -> Ways:
        """Return the ways that count, each the first that does; raises UncountedError for none."""
        usage = await self._first(text, (Way.USAGE, Way.WHOLE_USAGE))
        rest = () if usage is None else (usage,)
        texts = await self._first(text, (Way.TOKENIZE, *rest))
        conversations = texts
        if self._settings.api == "chat":
            templated = (Way.TOKENIZE, Way.TEMPLATE_AND_TOKENIZE, *rest)
            conversations = await self._first(conversation, templated)
        if texts is None or conversations is None:
            raise UncountedError
        return Ways(conversations, texts, usage)

    async def _first(self, probe: Probe, ways: Sequence[Way]) -> Way | None:
        for way in ways:
            if await self.count(probe, way) is not None:
                return way
        return None

    async def counts(
        self, probes: Sequence[Probe], ways: Ways, enough: Enough | None = None
    ) -> list[Count]:
        """Return the count of each probe, over at most ``CONNECTIONS`` connections.

        Probes that are not begun when there is ``enough`` have no count.
        """
        found: list[Count] = [None] * len(probes)
        waiting = iter(enumerate(probes))
        begun_s = time.monotonic()

        async def lane(number: int) -> None:
            for place, probe in waiting:
                if enough is not None and enough.reached(place, time.monotonic() - begun_s):
                    return
                found[place] = await self.count(probe, ways.of(probe), number)

        try:
            async with asyncio.TaskGroup() as group:
                for number in range(min(CONNECTIONS, len(probes))):
                    group.create_task(lane(number))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return found

    async def count(self, probe: Probe, way: Way, connection: int = 0) -> Count:
        """Return the tokens of one prompt, None where the server refuses it or this way.

        Raises UsageError (exit code 3) where no answer can be had.
        """
        name = f"calibration-{connection}"
        if isinstance(probe, Ids) or way in (Way.USAGE, Way.WHOLE_USAGE):
            return await self._used(name, probe, streamed=way is Way.USAGE)
        if way is Way.TOKENIZE:
            return await self._tokenized(name, probe)
        asked = {**self._settings.sent_extras, "messages": _messages(probe)}
        answer = await self._asker.ask_root("/apply-template", asked, connection=name)
        prompt = answer.get("prompt") if isinstance(answer, dict) else None
        return await self._tokenized(name, Text(prompt, 0)) if isinstance(prompt, str) else None

    async def token_ids(self, text: Text) -> list[int] | None:
        """Return the ids of a text without any that the server adds, None where it tells none."""
        asked = self._tokenize(text) | {"add_special": False, "add_special_tokens": False}
        return _ids(await self._asker.ask_root("/tokenize", asked))

    # --- the requests -------------------------------------------------------------------------

    async def _tokenized(self, name: str, probe: Text | Conversation) -> Count:
        answer = await self._asker.ask_root("/tokenize", self._tokenize(probe), connection=name)
        ids = _ids(answer)
        told = _positive(answer.get("count")) if isinstance(answer, dict) else None
        return told or (len(ids) if ids else None)  # one of nothing was not of our prompt

    def _tokenize(self, probe: Text | Conversation) -> dict[str, Any]:
        """Return a body with the fields of all three servers: each reads its own."""
        model = {"model": self._settings.model}
        if isinstance(probe, Conversation):
            asked = {"messages": _messages(probe), "add_generation_prompt": True}
            return {**self._settings.sent_extras, **model, **asked}
        special = {"add_special": True, "add_special_tokens": True, "parse_special": True}
        return {**model, "prompt": probe.text, "content": probe.text, **special}

    async def _used(self, name: str, probe: Probe, *, streamed: bool) -> Count:
        settings = self._settings
        body = fixed_fields(settings) | self._prompt(probe)
        body |= {settings.limit_field: 1, "stream": streamed}
        body.pop("ignore_eos", None)
        if not streamed:
            body.pop("stream_options", None)
        exchange = await self._asker.ask(settings.completions_path, body, connection=name)
        if exchange.http_status != _OK or exchange.body is None:
            return None
        if exchange.body.stream is not None:
            return exchange.body.stream.prompt_tokens
        answer = json_of(exchange)
        usage = answer.get("usage") if isinstance(answer, dict) else None
        return _positive(usage.get("prompt_tokens")) if isinstance(usage, dict) else None

    def _prompt(self, probe: Probe) -> dict[str, Any]:
        if isinstance(probe, Ids):
            return {"prompt": probe.ids}
        if isinstance(probe, Text) and self._settings.api == "completions":
            return {"prompt": probe.text}
        return {"messages": _messages(probe)}


def _messages(probe: Text | Conversation) -> list[dict[str, Any]]:
    if isinstance(probe, Conversation):
        return probe.as_sent()
    return [{"role": "user", "content": probe.text}]


def _ids(answer: Any) -> list[int] | None:
    ids = answer.get("tokens") if isinstance(answer, dict) else None
    if not isinstance(ids, list) or not ids or not all(isinstance(each, int) for each in ids):
        return None
    return ids


def _positive(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None

"""Asking a server how long prompts are, in its own tokens: through ``/tokenize``, or its usage.

vLLM's ``/tokenize`` counts messages and text, SGLang's text only; llama.cpp's counts text, and its
``/apply-template`` makes text of messages. Where none is offered, a request for one token is made
and its usage read. Not for: what is asked and what the answers mean (the prompts room).
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import orjson

from agentx_replay.endpoint.chat import head_start, post
from agentx_replay.endpoint.client import Client, ConnectError
from agentx_replay.endpoint.completion_stream import read_json
from agentx_replay.endpoint.connection import Exchange
from agentx_replay.endpoint.outcome import short
from agentx_replay.endpoint.patience import LIMITS, Limits, Patience
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.errors import UsageError
from agentx_replay.prompts.probes import Conversation, Count, Ids, Probe, Text

CONNECTIONS = 8
MOST_BUSY_ANSWERS = 5
LONGEST_WAIT_S = 10.0
_DEFAULT_WAIT_S = 1.0
_OK, _UNAUTHORIZED = 200, (401, 403)
_BUSY = (429, 503)
_UNUSABLE = 3


class Way(StrEnum):
    """How a server is made to count."""

    TOKENIZE = "/tokenize"
    TEMPLATE_AND_TOKENIZE = "/apply-template and /tokenize"
    USAGE = "usage"
    WHOLE_USAGE = "usage, not streamed"

    @property
    def requests(self) -> int:
        """How many requests one count takes."""
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
        match probe:
            case Conversation():
                return self.conversations
            case Text():
                return self.texts
            case Ids():
                return self.usage or Way.USAGE


@dataclass(frozen=True, slots=True)
class Enough:
    """When to begin no further probe: after ``within_s``, with ``at_least`` so many begun."""

    within_s: float
    at_least: int

    def reached(self, begun: int, passed_s: float) -> bool:
        """Whether it is enough."""
        return begun >= self.at_least and passed_s > self.within_s


class Counter:
    """Counts prompts at one server. Make it inside a running loop, and close its client after."""

    def __init__(self, client: Client, settings: EndpointSettings, limits: Limits = LIMITS) -> None:
        self._client = client
        self._settings = settings
        self._patience = Patience(settings.url, limits)
        url = settings.url
        self._root = replace(settings, url=replace(url, path=url.path.removesuffix("/v1")))
        self.requests = 0

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
        stream = f"calibration-{connection}"
        if isinstance(probe, Ids):
            return await self._used(stream, probe, streamed=way is Way.USAGE)
        match way:
            case Way.TOKENIZE:
                return _length(await self._post_root(stream, "/tokenize", self._tokenize(probe)))
            case Way.TEMPLATE_AND_TOKENIZE:
                return await self._templated(stream, probe)
            case _:
                return await self._used(stream, probe, streamed=way is Way.USAGE)

    async def token_ids(self, text: Text) -> list[int] | None:
        """Return the ids of a text without any that the server adds, None where it tells none."""
        asked = self._tokenize(text) | {"add_special": False, "add_special_tokens": False}
        return _ids(await self._post_root("calibration-0", "/tokenize", asked))

    # --- the requests -------------------------------------------------------------------------

    def _tokenize(self, probe: Text | Conversation) -> dict[str, Any]:
        """Return a body with the fields of all three servers: each reads its own."""
        body: dict[str, Any] = {"model": self._settings.model}
        if isinstance(probe, Conversation):
            return {
                **self._settings.extra_body,
                **body,
                "messages": _messages(probe),
                "add_generation_prompt": True,
            }
        both = {"add_special": True, "add_special_tokens": True, "parse_special": True}
        return {**body, "prompt": probe.text, "content": probe.text, **both}

    async def _templated(self, stream: str, probe: Text | Conversation) -> Count:
        asked = {**self._settings.extra_body, "messages": _messages(probe)}
        answer = await self._post_root(stream, "/apply-template", asked)
        prompt = answer.get("prompt") if isinstance(answer, dict) else None
        if not isinstance(prompt, str):
            return None
        rendered = Text(prompt, 0)
        return _length(await self._post_root(stream, "/tokenize", self._tokenize(rendered)))

    async def _used(self, stream: str, probe: Probe, *, streamed: bool) -> Count:
        settings = self._settings
        body = {**settings.extra_body, **self._prompt(probe), "model": settings.model}
        field = "max_tokens" if settings.api == "completions" else settings.max_tokens_field
        body |= {field: 1, "stream": streamed}
        if streamed:
            body["stream_options"] = {"include_usage": True}
        path = "/completions" if settings.api == "completions" else "/chat/completions"
        exchange = _answered(await self._post(stream, settings, path, body), settings)
        if exchange.http_status != _OK or exchange.body is None:
            return None
        if exchange.body.stream is not None:
            return exchange.body.stream.prompt_tokens
        answer = _json(exchange)
        usage = answer.get("usage") if isinstance(answer, dict) else None
        return _positive(usage.get("prompt_tokens")) if isinstance(usage, dict) else None

    def _prompt(self, probe: Probe) -> dict[str, Any]:
        if isinstance(probe, Ids):
            return {"prompt": probe.ids}
        if isinstance(probe, Text) and self._settings.api == "completions":
            return {"prompt": probe.text}
        return {"messages": _messages(probe)}

    async def _post_root(self, stream: str, path: str, body: dict[str, Any]) -> Any:
        """Return the JSON that a path outside the API answers, None where it does not."""
        exchange = await self._post(stream, self._root, path, body)
        return _json(exchange) if exchange.http_status == _OK else None

    async def _post(
        self, stream: str, settings: EndpointSettings, path: str, body: dict[str, Any]
    ) -> Exchange:
        """Return a whole exchange; one that is told to come back later does, a few times."""
        request = _request(settings, path, orjson.dumps(body))
        streamed = bool(body.get("stream"))
        for _ in range(MOST_BUSY_ANSWERS):
            self.requests += 1
            try:
                async with self._patience.at_most(self._patience.limits.request_s):
                    exchange, _, _ = await self._client.exchange(stream, request, streamed=streamed)
            except ConnectError as error:
                raise _unusable("server-gone", error.text, "check that the server is up") from error
            if exchange.http_status not in _BUSY:
                return exchange
            await asyncio.sleep(wait_s(exchange.headers.get(b"retry-after")))
        raise _unusable(
            "server-busy",
            f"the server is too busy to be calibrated against (HTTP {exchange.http_status}, "
            f"{MOST_BUSY_ANSWERS} times)",
            "try again when it is idle, or give --calibration FILE of an earlier run",
        )


def wait_s(retry_after: bytes | None) -> float:
    """Return for how many seconds to wait, as the server asks (a number), at most ten."""
    try:
        asked_s = float(retry_after or _DEFAULT_WAIT_S)
    except ValueError:
        asked_s = _DEFAULT_WAIT_S
    return min(max(asked_s, 0.0), LONGEST_WAIT_S)


def _answered(exchange: Exchange, settings: EndpointSettings) -> Exchange:
    if exchange.http_status is None:
        raise _unusable(
            "server-closed-tiny-prompt",
            "the server closed the connection on a tiny prompt",
            "see its log",
        )
    if exchange.http_status in _UNAUTHORIZED:
        raise _unusable(
            "api-key-refused-midway",
            "the server refuses the API key",
            f"check {settings.api_key_env}",
        )
    return exchange


def _request(settings: EndpointSettings, path: str, body: bytes) -> bytes:
    return b"".join(post(head_start(settings, "POST", path), {}, (body,)))


def _messages(probe: Text | Conversation) -> list[dict[str, Any]]:
    if isinstance(probe, Conversation):
        return probe.as_sent()
    return [{"role": "user", "content": probe.text}]


def _json(exchange: Exchange) -> Any:
    return read_json(exchange.body.text) if exchange.body is not None else None


def _length(answer: Any) -> Count:
    """Return the count of a ``/tokenize`` answer; one of nothing was not of our prompt."""
    if not isinstance(answer, dict):
        return None
    ids = _ids(answer)
    return _positive(answer.get("count")) or (len(ids) if ids else None)


def _ids(answer: Any) -> list[int] | None:
    ids = answer.get("tokens") if isinstance(answer, dict) else None
    if not isinstance(ids, list) or not ids or not all(isinstance(each, int) for each in ids):
        return None
    return ids


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _unusable(code: str, what: str, what_to_do: str) -> UsageError:
    return UsageError(code, short(what), what_to_do, exit_code=_UNUSABLE)

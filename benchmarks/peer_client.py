"""The peers that are libraries, each as the plain client its documentation shows.

    PYTHON peer_client.py LIBRARY URL MODEL STREAMS ROUNDS TOKENS

Runs in the library's own environment, so it imports nothing else. STREAMS tasks send ROUNDS
streamed chat requests each, one after the other, and stamp every token as the library hands it
over. Prints ``{"response_itl_p90_s": …}``: P90 over responses of the mean gap between tokens.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from statistics import quantiles
from typing import Any

Stamps = list[int]
Ask = Callable[[int], Awaitable[Stamps]]
"""Streams one response on the stream of that number; returns when each token was there, in ns."""

MESSAGES = [{"role": "user", "content": "word " * 56}]


def with_httpx(url: str, body: dict[str, Any]) -> Ask:
    """Lines as httpx splits them, JSON as the standard library reads it."""
    httpx = import_module("httpx")
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    client = httpx.AsyncClient(base_url=url, limits=limits, timeout=None)
    body = body | {"stream": True, "stream_options": {"include_usage": True}}

    async def ask(_: int) -> Stamps:
        stamps = []
        async with client.stream("POST", "/v1/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    choices = json.loads(line[6:])["choices"]
                    if choices and choices[0]["delta"].get("content"):
                        stamps.append(time.monotonic_ns())
        return stamps

    return ask


def with_openai(url: str, body: dict[str, Any]) -> Ask:
    """The SDK's own stream of chunk objects."""
    openai = import_module("openai")
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", timeout=None)
    options = {"stream": True, "stream_options": {"include_usage": True}}

    async def ask(_: int) -> Stamps:
        return [
            time.monotonic_ns()
            async for chunk in await client.chat.completions.create(**body, **options)
            if chunk.choices and chunk.choices[0].delta.content
        ]

    return ask


def with_agentx_replay(url: str, body: dict[str, Any]) -> Ask:
    """Our client alone, on the event loop it is used with: no plan, no prompts, no records."""
    chat, client, settings, urls = (
        import_module(f"agentx_replay.endpoint.{name}")
        for name in ("chat", "client", "settings", "url")
    )
    of_run = settings.EndpointSettings(urls.parse_base_url(url), body["model"])
    messages = json.dumps(body["messages"]).encode()
    request = chat.Requests(of_run).build({}, body["max_tokens"], messages)
    ours = client.Client(of_run)

    async def ask(stream: int) -> Stamps:
        stamps: Stamps = (await ours.request(str(stream), request)).arrival_ns.tolist()
        return stamps

    return ask


CLIENTS = {"httpx": with_httpx, "openai": with_openai, "agentx_replay": with_agentx_replay}


async def drive(library: str, url: str, model: str, streams: int, rounds: int, tokens: int) -> None:
    """Send all requests; print what was seen."""
    ask = CLIENTS[library](url, {"model": model, "messages": MESSAGES, "max_tokens": tokens})

    async def one_stream(number: int) -> list[Stamps]:
        return [await ask(number) for _ in range(rounds)]

    seen = [
        each for done in await asyncio.gather(*map(one_stream, range(streams))) for each in done
    ]
    short = sum(len(stamps) != tokens for stamps in seen)
    if short:
        sys.exit(f"{short} of {len(seen)} responses did not have {tokens} tokens")
    mean_gaps_s = [(stamps[-1] - stamps[0]) / (len(stamps) - 1) / 1e9 for stamps in seen]
    print(json.dumps({"response_itl_p90_s": quantiles(mean_gaps_s, n=10, method="inclusive")[-1]}))


if __name__ == "__main__":
    loop = import_module("uvloop" if sys.argv[1] == "agentx_replay" else "asyncio")
    library, url, model = sys.argv[1:4]
    streams, rounds, tokens = map(int, sys.argv[4:])
    loop.run(drive(library, url, model, streams, rounds, tokens))

"""A client on a real socket against a scripted server, for the tests of both."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import uvloop
from scripted_server import Answer, ScriptedServer, scripted

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.prompts.prompt import Prompt
from agentx_replay.replay.ports import Dispatch, Phase, Response

KEY = "sk-secret"
LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


async def until(condition: Callable[[], bool]) -> int:
    """Return after how many turns of the loop it is so; the test's time limit is the end of one in
    which it never is.
    """
    turns = 0
    while not condition():
        turns += 1
        await asyncio.sleep(0)
    return turns


def dispatch(stream: str = "s", content: bytes = b"hello") -> Dispatch:
    messages = b'[{"role":"user","content":"%b"}]' % content
    prompt = Prompt(5, 0, np.empty(0, np.uint64), lambda: messages)
    return Dispatch(
        request_id="r-1", play_id="p-1", conversation_id=stream, concurrency=1, lane=0,
        play_number=0, session_id="x", conversation=0, turn=0, request_index=0, phase=Phase.WINDOW,
        intended_start_ns=0, gap_s=0.0, recorded_input_tokens=5, recorded_output_tokens=2,
        shared_blocks=0, max_tokens=2, prompt=prompt,
    )  # fmt: skip


def settings(port: int, **more: Any) -> EndpointSettings:
    return EndpointSettings(BaseUrl("http", "127.0.0.1", port, "/v1"), "m", api_key=KEY, **more)


@asynccontextmanager
async def client_of(server: ScriptedServer, **more: Any) -> AsyncIterator[Client]:
    client = Client(settings(server.port, **more))
    try:
        yield client
    finally:
        await client.close()


Run = Callable[[Awaitable[None]], None]


async def answered(steps: Answer) -> Response:
    """Return the response to one request that is answered with these steps."""
    async with scripted([steps]) as server, client_of(server) as client:
        return await client.send(dispatch())


def one(steps: Answer) -> Response:
    """The same, on a loop of its own."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(answered(steps))

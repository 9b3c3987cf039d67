"""When responses are parsed: in turn, in slices, between polls, and how much may wait."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop
from client_cases import client_of, dispatch
from scripted_server import HEAD, LAST_CHUNK, Answer, Move, chunk, scripted, token, usage

from agentx_replay.endpoint.between_polls import SLICE_NS, ParseQueue
from agentx_replay.endpoint.client import Client
from agentx_replay.replay.ports import Status


class Job:
    """Something to parse that takes so many slices, and tells when it is done."""

    def __init__(self, name: str, slices: int, told: Callable[[str], None]) -> None:
        self._name = name
        self._slices = slices
        self._told = told

    def parse(self, until_ns: int) -> bool:
        self._slices -= 1
        return self._slices > 0

    def parsed(self) -> None:
        self._told(self._name)


def test_responses_are_parsed_first_come_first_served() -> None:
    async def test() -> list[str]:
        queue = ParseQueue(asyncio.get_running_loop())
        told: list[str] = []
        queue.push(Job("first", 3, told.append), 1)
        queue.push(Job("second", 1, told.append), 1)
        assert told == []
        while len(told) < 2:
            await asyncio.sleep(0)
        return told

    assert asyncio.run(test()) == ["first", "second"]


def test_the_loop_polls_its_sockets_between_slices() -> None:
    async def test() -> int:
        told: list[str] = []
        ParseQueue(asyncio.get_running_loop()).push(Job("long", 5, told.append), 1)
        turns = 0
        while not told:
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert asyncio.run(test()) >= 5


def test_a_job_is_asked_to_stop_half_a_millisecond_later() -> None:
    asked: list[int] = []

    class Asked(Job):
        def parse(self, until_ns: int) -> bool:
            asked.append(until_ns)
            return False

    async def test() -> None:
        before_ns = round(asyncio.get_running_loop().time() * 1e9)
        queue = ParseQueue(asyncio.get_running_loop())
        told: list[str] = []
        queue.push(Asked("a", 1, told.append), 1)
        while not told:
            await asyncio.sleep(0)
        assert asked[0] >= before_ns + SLICE_NS

    asyncio.run(test())


def test_beyond_the_bound_a_response_is_parsed_at_once_and_counted() -> None:
    async def test() -> None:
        queue = ParseQueue(asyncio.get_running_loop(), limit_bytes=100)
        told: list[str] = []
        queue.push(first := Job("first", 2, told.append), 60)
        assert (queue.held_bytes, queue.parsed_at_once) == (60, 0)
        queue.push(second := Job("second", 7, told.append), 60)
        assert (queue.held_bytes, queue.parsed_at_once) == (60, 1)
        assert (first._slices, second._slices) == (2, 0)
        while len(told) < 2:
            await asyncio.sleep(0)
        assert queue.held_bytes == 0

    asyncio.run(test())


@pytest.mark.parametrize("tokens", [100, 4_000])
def test_a_long_response_is_parsed_before_it_ends(tokens: int) -> None:
    """4,000 tokens are 312,000 bytes: over 64 KB of them have been parsed while it hangs."""
    came = asyncio.Event()
    text = chunk(token("a") * 50)
    hangs: Answer = [HEAD, *[text] * (tokens // 50), came.set, Move.HANG]

    async def test() -> None:
        async with scripted([hangs]) as server, client_of(server) as client:
            sending = asyncio.ensure_future(client.send(dispatch()))
            await came.wait()
            for _ in range(200):
                await asyncio.sleep(0)
            assert client.wire.parses.held_bytes == 0
            client.cut()
            response = await sending
        assert (response.status, len(response.arrival_ns)) == (Status.CUT, tokens)

    uvloop.run(test())


def test_a_response_that_ends_while_it_is_parsed_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice is over at once, so that the end comes before most has been parsed."""
    monkeypatch.setattr("agentx_replay.endpoint.between_polls.SLICE_NS", 0)
    steps: Answer = [HEAD, *[chunk(token("a") * 100)] * 30, chunk(token("", "stop") + usage(1, 3)),
                     LAST_CHUNK]  # fmt: skip

    async def test() -> None:
        async with scripted([steps]) as server:
            client: Client
            async with client_of(server) as client:
                response = await client.send(dispatch())
        assert (response.status, len(response.arrival_ns)) == (Status.OK, 3000)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())

"""What a loop does between polls: parse in slices, compose ahead, and look for silence."""

import asyncio
from collections.abc import Callable

import pytest
from client_cases import client_of, dispatch
from scripted_server import HEAD, LAST_CHUNK, Answer, Move, chunk, scripted, token, usage

from agentx_replay.endpoint import between_polls
from agentx_replay.endpoint.between_polls import SLICE_NS, ComposeAhead, EverySecond, ParseQueue
from agentx_replay.replay.ports import Status


class Job:
    """Something to parse that takes so many slices, and says when it is done."""

    def __init__(self, name: str, slices: int, done: list[str]) -> None:
        self.name, self.slices, self.done = name, slices, done
        self.asked_ns: list[int] = []

    def parse(self, until_ns: int) -> bool:
        self.asked_ns.append(until_ns)
        self.slices -= 1
        return self.slices > 0

    def parsed(self) -> None:
        self.done.append(self.name)


async def until(condition: Callable[[], bool]) -> int:
    """Return after how many turns of the loop it is so."""
    turns = 0
    while not condition():
        turns += 1
        await asyncio.sleep(0)
    return turns


async def test_responses_are_parsed_first_come_first_served_half_a_millisecond_at_a_time() -> None:
    loop, done = asyncio.get_running_loop(), list[str]()
    before_ns = round(loop.time() * 1e9)
    queue = ParseQueue(loop)
    queue.push(first := Job("first", 5, done), 1)
    queue.push(Job("second", 1, done), 1)
    assert done == []
    assert await until(lambda: len(done) == 2) >= 5  # polls in between
    assert done == ["first", "second"]
    assert first.asked_ns[0] >= before_ns + SLICE_NS


async def test_beyond_the_bound_a_response_is_parsed_at_once_and_counted() -> None:
    done: list[str] = []
    queue = ParseQueue(asyncio.get_running_loop(), limit_bytes=100)
    queue.push(first := Job("first", 2, done), 60)
    assert (queue.held_bytes, queue.parsed_at_once) == (60, 0)
    queue.push(second := Job("second", 7, done), 60)
    assert (queue.held_bytes, queue.parsed_at_once) == (60, 1)
    assert (first.slices, second.slices) == (2, 0)
    await until(lambda: len(done) == 2)
    assert queue.held_bytes == 0


@pytest.mark.parametrize("tokens", [100, 4_000])
async def test_a_long_response_is_parsed_before_it_ends(tokens: int) -> None:
    """4,000 tokens are 312,000 bytes: over 64 KB of them have been parsed while it hangs."""
    came = asyncio.Event()
    hangs: Answer = [HEAD, *[chunk(token("a") * 50)] * (tokens // 50), came.set, Move.HANG]
    async with scripted([hangs]) as server, client_of(server) as client:
        sending = asyncio.ensure_future(client.send(dispatch()))
        await came.wait()
        for _ in range(200):
            await asyncio.sleep(0)
        assert client.wire.parses.held_bytes == 0
        client.cut()
        response = await sending
    assert (response.status, len(response.arrival_ns)) == (Status.CUT, tokens)


async def test_a_response_that_ends_while_it_is_parsed_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each slice is over at once, so that the end comes before most has been parsed."""
    monkeypatch.setattr(between_polls, "SLICE_NS", 0)
    steps: Answer = [HEAD, *[chunk(token("a") * 100)] * 30, chunk(token("", "stop") + usage(1, 3)),
                     LAST_CHUNK]  # fmt: skip
    async with scripted([steps]) as server, client_of(server) as client:
        response = await client.send(dispatch())
    assert (response.status, len(response.arrival_ns)) == (Status.OK, 3000)


async def test_one_timer_makes_all_calls_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between_polls, "SILENCE_S", 0.001)
    made: list[str] = []
    calls = {name: lambda name=name: made.append(name) for name in "ab"}
    every = EverySecond(asyncio.get_running_loop())
    for call in calls.values():
        every.begin(call)
    await until(lambda: len(made) >= 4)
    assert sorted(made[:4]) == ["a", "a", "b", "b"]
    every.end(calls["a"])
    made.clear()
    await until(lambda: len(made) >= 2)
    assert set(made) == {"b"}
    every.end(calls["b"])
    await until(lambda: every._timer is None)


# --- prompts composed ahead -----------------------------------------------------------------------


class Composer:
    """Prompts of 10 bytes, and which of them were composed, in order."""

    def __init__(self, limit_bytes: int, *due: tuple[int, str]) -> None:
        self.done: list[str] = []
        self.ahead = ComposeAhead(asyncio.get_running_loop(), limit_bytes)
        for due_ns, name in due:
            self.ahead.add(due_ns, name, lambda name=name: self.done.append(name) or 10)  # type: ignore

    async def turns(self, turns: int = 20) -> list[str]:
        for _ in range(turns):
            await asyncio.sleep(0)
        return self.done


async def test_the_earliest_is_composed_first_and_none_before_the_loop_has_polled() -> None:
    composer = Composer(1_000, (30, "c"), (10, "a"), (20, "b"))
    assert composer.done == []
    for composed in ("a", "ab", "abc"):
        assert await composer.turns(1) == list(composed)


async def test_one_that_is_sent_before_is_not_composed() -> None:
    composer = Composer(1_000, (10, "a"), (20, "b"))
    composer.ahead.sent("a")
    assert await composer.turns() == ["b"]


async def test_no_more_than_the_bound_waits_and_sending_makes_room() -> None:
    """Of 20 bytes two prompts; when one has been sent, a third."""
    composer = Composer(20, *enumerate("abcd"))
    assert await composer.turns() == ["a", "b"]
    assert composer.ahead.composed_bytes == 20
    composer.ahead.sent("a")
    assert await composer.turns() == ["a", "b", "c"]
    assert composer.ahead.composed_bytes == 20

"""What a loop does between polls: parse in slices, compose ahead, and look for silence."""

import asyncio

import pytest
from client_cases import client_of, dispatch, until
from scripted_server import HEAD, LAST_CHUNK, Answer, Move, chunk, scripted, token, usage

from agentx_replay.endpoint import between_polls, kernel_stamps
from agentx_replay.endpoint.between_polls import (
    LONG_BYTES,
    MAX_OF_ONE_BYTES,
    SLICE_NS,
    ComposeAhead,
    EverySecond,
    ParseQueue,
)
from agentx_replay.endpoint.socket_polls import SocketPolls, Times
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


@pytest.mark.parametrize(("size", "order"), [(LONG_BYTES, "ab"), (LONG_BYTES + 1, "ba")])
async def test_responses_are_parsed_in_order_and_long_ones_in_turn(size: int, order: str) -> None:
    """Half a millisecond at a time; a long one does not keep one of a single slice from its end."""
    loop, done = asyncio.get_running_loop(), list[str]()
    before_ns = round(loop.time() * 1e9)
    queue = ParseQueue(loop)
    queue.push(first := Job("a", 5, done), size)
    queue.push(Job("b", 1, done), 1)
    assert done == []
    assert await until(lambda: len(done) == 2) >= 5  # polls in between
    assert done == list(order)
    assert first.asked_ns[0] >= before_ns + SLICE_NS


async def test_who_brings_too_much_is_told_and_nothing_is_parsed_on_the_spot() -> None:
    done: list[str] = []
    queue = ParseQueue(asyncio.get_running_loop(), limit_bytes=2 * MAX_OF_ONE_BYTES)
    first, second = Job("first", 1, done), Job("second", 7, done)
    assert not queue.push(first, MAX_OF_ONE_BYTES)
    assert queue.push(first, 1)  # too much of its own
    assert queue.push(second, MAX_OF_ONE_BYTES)  # too much of all together
    assert (first.slices, second.slices) == (1, 7)
    await until(lambda: len(done) == 2)
    assert queue.held_bytes == 0
    assert not queue.push(first, 1)


async def test_a_flood_is_read_no_faster_than_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 MB of events that are no data, parsed in slices of one step: no more than a receive buffer
    beyond the limit waits at any time, and a response beside it comes to its end.
    """
    monkeypatch.setattr(between_polls, "SLICE_NS", 0)
    monkeypatch.setattr(between_polls, "MAX_OF_ONE_BYTES", 100_000)
    monkeypatch.setattr(kernel_stamps, "RECEIVE_BUFFER_BYTES", 65_536)
    bounds: list[int | None] = []  # up to which instant ticks bound the timestamps of a response
    ticks_ns = SocketPolls.ticks_ns

    def noted(polls: SocketPolls, since_ns: int, until_ns: int | None = None) -> Times:
        bounds.append(until_ns)
        return ticks_ns(polls, since_ns, until_ns)

    monkeypatch.setattr(SocketPolls, "ticks_ns", noted)
    buffer_bytes = kernel_stamps.granted_buffer_bytes()
    flood: Answer = [HEAD, *[chunk((b"data: " + b"x" * 992 + b"\n\n") * 100)] * 40, Move.HANG]
    short: Answer = [HEAD, chunk(token("a", "stop") + usage(1, 1)), LAST_CHUNK]
    most = 0
    async with scripted([flood], [short]) as server, client_of(server) as client:
        flooded = asyncio.ensure_future(client.send(dispatch()))
        while client.wire.parses.held_bytes <= 100_000:
            await asyncio.sleep(0)
        beside = asyncio.ensure_future(client.send(dispatch("beside")))
        for _ in range(300):
            most = max(most, client.wire.parses.held_bytes)
            await asyncio.sleep(0)
        assert (await beside).status is Status.OK
        client.cut()
        assert (await flooded).status is Status.CUT
    assert most <= 100_000 + buffer_bytes
    assert [until for until in bounds if until is not None]


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

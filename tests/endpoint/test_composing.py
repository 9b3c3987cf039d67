"""Prompts composed ahead: in which order, how many, and between polls of the loop."""

import asyncio
from collections.abc import Callable

from agentx_replay.endpoint.between_polls import ComposeAhead


def composing(limit_bytes: int, play: Callable[[ComposeAhead, list[str]], None]) -> list[str]:
    """Play with a composer of prompts of 10 bytes; return what it had composed, in order."""
    done: list[str] = []

    async def test() -> None:
        ahead = ComposeAhead(asyncio.get_running_loop(), limit_bytes)
        play(ahead, done)
        assert done == []  # not before the loop has polled
        for _ in range(20):
            await asyncio.sleep(0)

    asyncio.run(test())
    return done


def prompt(name: str, done: list[str]) -> Callable[[], int]:
    def compose() -> int:
        done.append(name)
        return 10

    return compose


def test_the_earliest_is_composed_first() -> None:
    def play(ahead: ComposeAhead, done: list[str]) -> None:
        for due_ns, name in ((30, "c"), (10, "a"), (20, "b")):
            ahead.add(due_ns, name, prompt(name, done))

    assert composing(1_000, play) == ["a", "b", "c"]


def test_one_that_is_sent_before_is_not_composed() -> None:
    def play(ahead: ComposeAhead, done: list[str]) -> None:
        ahead.add(10, "a", prompt("a", done))
        ahead.add(20, "b", prompt("b", done))
        ahead.sent("a")

    assert composing(1_000, play) == ["b"]


def test_no_more_than_the_bound_waits_and_sending_makes_room() -> None:
    """Of 20 bytes two prompts; when one has been sent, a third."""
    done: list[str] = []

    async def test() -> None:
        ahead = ComposeAhead(asyncio.get_running_loop(), 20)
        for number, name in enumerate("abcd"):
            ahead.add(number, name, prompt(name, done))
        for _ in range(20):
            await asyncio.sleep(0)
        assert (done, ahead.composed_bytes) == (["a", "b"], 20)
        ahead.sent("a")
        for _ in range(20):
            await asyncio.sleep(0)
        assert (done, ahead.composed_bytes) == (["a", "b", "c"], 20)

    asyncio.run(test())


def test_the_loop_polls_between_two_prompts() -> None:
    async def test() -> None:
        done: list[str] = []
        ahead = ComposeAhead(asyncio.get_running_loop())
        for number, name in enumerate("abc"):
            ahead.add(number, name, prompt(name, done))
        for composed in (1, 2, 3):
            await asyncio.sleep(0)
            assert len(done) == composed

    asyncio.run(test())

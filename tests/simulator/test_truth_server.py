"""The truth server in its own process: tokens leave on their schedule, and it says when."""

import asyncio
import subprocess
import time
from collections.abc import Iterator

import pytest
from raw_http import connected, get, post

from agentx_replay.simulator.process import SimulatorProcess
from agentx_replay.simulator.truth import ResponseTruth, TruthLog
from agentx_replay.simulator.truth_server import launch_truth_server

MS = 1_000_000


@pytest.fixture
def server() -> Iterator[SimulatorProcess]:
    process = launch_truth_server()
    yield process
    process.close()


def asked(first_token_at_ns: int, every_ns: int, tokens: int) -> dict[str, int]:
    return {
        "first_token_at_ns": first_token_at_ns,
        "every_ns": every_ns,
        "max_completion_tokens": tokens,
    }


def port_of(server: SimulatorProcess) -> int:
    return int(server.url.rpartition(":")[2])


def test_tokens_leave_on_their_schedule_never_early_and_the_truth_is_told_once(
    server: SimulatorProcess,
) -> None:
    due_ns = time.monotonic_ns() + 50 * MS

    async def exchange() -> tuple[list[dict[str, object]], list[dict[str, object]], int]:
        async with connected(port_of(server)) as client:
            body = asked(due_ns, 10 * MS, 3)
            client.send(post("/v1/chat/completions", body, "x-request-id: 7"))
            answer = await client.answer()
            came_ns = time.monotonic_ns()
            words = [o["choices"][0]["delta"] for o in answer.objects if o["choices"]]
            assert words == [{"content": " word"}] * 3
            assert answer.objects[-1]["usage"]["completion_tokens"] == 3
            assert answer.events[-1] == b"[DONE]"
            client.send(get("/v1/truth"))
            told = (await client.answer()).json()["responses"]
            client.send(get("/v1/truth"))
            return told, (await client.answer()).json()["responses"], came_ns

    (response,), again, came_ns = asyncio.run(exchange())
    assert again == []
    assert response["request_id"] == "7"
    sent_ns = response["sent_ns"]
    assert isinstance(sent_ns, list)
    assert [sent >= due_ns + k * 10 * MS for k, sent in enumerate(sent_ns)] == [True] * 3
    assert sent_ns == sorted(sent_ns)
    assert sent_ns[-1] <= came_ns


def test_the_truth_is_told_in_parts_of_a_size_and_each_once() -> None:
    log = TruthLog(1_000_000)
    for number in range(3):
        log.keep(ResponseTruth(number, str(number), 0, 0, max_tokens=40))
    # A response of 40 tokens is taken for 512 + 12 · 40 = 992 bytes.
    parts = [[each["number"] for each in log.take(993)] for _ in range(3)]
    assert parts == [[0, 1], [2], []]


def test_streams_that_are_due_at_once_are_written_in_one_go(server: SimulatorProcess) -> None:
    due_ns = time.monotonic_ns() + 1000 * MS

    async def one(number: int) -> None:
        async with connected(port_of(server)) as client:
            body = asked(due_ns, 50 * MS, 2)
            client.send(post("/v1/chat/completions", body, f"x-request-id: {number}"))
            await client.answer()

    async def all_at_once() -> list[dict[str, list[int]]]:
        await asyncio.gather(*(one(number) for number in range(8)))
        async with connected(port_of(server)) as client:
            client.send(get("/v1/truth"))
            told: list[dict[str, list[int]]] = (await client.answer()).json()["responses"]
            return told

    told = asyncio.run(all_at_once())
    firsts, seconds = zip(*(response["sent_ns"] for response in told), strict=True)
    assert max(firsts) < min(seconds)


def test_it_ends_when_its_standard_input_does(server: SimulatorProcess) -> None:
    assert server.process.stdin is not None
    server.process.stdin.close()
    try:
        assert server.process.wait(timeout=20) == 0
    except subprocess.TimeoutExpired:
        pytest.fail("it did not end")
    server.process.stdin = None

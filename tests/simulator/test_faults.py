"""What the server does wrong on purpose, as a client's socket sees it."""

import gzip
import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import uvloop
from faulty_answers import Act, Break, Fault, Point, Shape, faulty
from raw_http import Answer, RawClient, connected, post

from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.server import RunningServer, ServerConfig, running_server

TOKENS = 5
REQUEST = post(
    "/v1/chat/completions",
    {
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": TOKENS,
        "stream": True,
        "stream_options": {"include_usage": True},
    },
)
CONFIG = ServerConfig(engine=EngineModel(step_base_ms=1), truth_bytes=1_000_000)


@dataclass(frozen=True, slots=True)
class First:
    """Only the first request is faulty."""

    fault: Fault

    def on_request(self, number: int, body: bytes) -> Fault | None:
        return None if number else self.fault


def with_fault(fault: Fault, use: Callable[[RawClient, RunningServer], Awaitable[None]]) -> None:
    async def main() -> None:
        async with (
            running_server(CONFIG, hook=faulty(First(fault))) as running,
            connected(running.port) as client,
        ):
            await use(client, running)
            assert running.server.engine.running == 0
            async with connected(running.port) as other:
                assert len((await other.ask(REQUEST)).objects) == TOKENS + 2

    uvloop.run(main())


def shaped(shape: Shape) -> Answer:
    answers: list[Answer] = []

    async def use(client: RawClient, _: RunningServer) -> None:
        answers.append(await client.ask(REQUEST))
        assert len((await client.ask(REQUEST)).objects) == TOKENS + 2  # and is kept alive

    with_fault(Fault(shape), use)
    return answers[0]


def choices(answer: Answer) -> list[Any]:
    return [event["choices"][0] for event in answer.objects if event["choices"]]


ROLE: Any = {"role": "assistant", "content": ""}
SAID: Any = {"content": " word"}
FIRST_DELTAS: dict[str, tuple[Shape, list[Any]]] = {
    "a role with the first token": (Shape(role="first_token"), [ROLE, SAID]),
    "a role at once": (Shape(role="at_once"), [ROLE, SAID]),
    "a role of null": (Shape(role="null_content"), [{**ROLE, "content": None}, SAID]),
    "a role in the first token": (Shape(role="merged"), [{**ROLE, "content": " word"}, SAID]),
    "reasoning_content": (Shape(delta="reasoning_content"), [ROLE, {"reasoning_content": " word"}]),
    "reasoning": (Shape(delta="reasoning"), [ROLE, {"reasoning": " word"}]),
    "empty deltas": (Shape(delta="empty"), [ROLE, {"content": ""}]),
    "two steps an event": (Shape(steps_per_event=2), [ROLE, {"content": " word word"}]),
}


@pytest.mark.parametrize(("shape", "deltas"), FIRST_DELTAS.values(), ids=FIRST_DELTAS)
def test_what_the_first_events_of_a_shape_say(shape: Shape, deltas: list[Any]) -> None:
    assert [choice["delta"] for choice in choices(shaped(shape))[:2]] == deltas


def told(answer: Answer) -> list[int]:
    return [event["usage"]["completion_tokens"] for event in answer.objects if "usage" in event]


@pytest.mark.parametrize(
    ("shape", "totals"),
    [
        (Shape(usage="never"), []),
        (Shape(usage="every"), [1, 2, 3, 4, 5, 5]),
        (Shape(tokens_withheld=2), [3]),
        (Shape(delta="empty"), [5]),
    ],
)
def test_what_the_usage_of_a_shape_tells(shape: Shape, totals: list[int]) -> None:
    assert told(shaped(shape)) == totals


def test_how_the_bytes_of_a_shape_are_written() -> None:
    assert shaped(Shape(done=False)).events[-1] != b"[DONE]"
    body = shaped(Shape(line_end="\r\n")).body
    assert body.count(b"\n") == body.count(b"\r\n") > 0
    commented = shaped(Shape(comments=True))
    assert commented.body.count(b": still here\n\n") == len(commented.events)
    assert shaped(Shape(odd_fields=True)).objects[0]["x_trace"] == {"spans": [1, None]}
    packed = shaped(Shape(gzip=True))
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body).endswith(b"data: [DONE]\n\n")


async def reads_of(client: RawClient) -> list[bytes]:
    client.send(REQUEST)
    reads = [await client.read()]
    while not reads[-1].endswith(b"0\r\n\r\n"):
        reads.append(await client.read())
    return reads


def test_several_events_in_one_write() -> None:
    async def use(client: RawClient, _: RunningServer) -> None:
        reads = await reads_of(client)
        # headers; then role, four tokens, the last, usage, done in threes: 3 + 3 + 2
        events = [read.count(b"data: ") for read in reads]
        assert max(events) >= 3
        assert sum(events) == 8

    with_fault(Fault(Shape(events_per_write=3)), use)


def test_writes_that_end_inside_an_event() -> None:
    async def use(client: RawClient, running: RunningServer) -> None:
        reads = await reads_of(client)
        middle = [read for read in reads[:-1] if b"data: " in read]
        assert middle
        assert not any(read.endswith(b"\n\n\r\n") for read in middle)
        assert b"".join(reads).count(b"data: ") == TOKENS + 3
        (truth,) = running.server.truth.as_json()
        assert truth["tokens"] == [1] * TOKENS

    with_fault(Fault(Shape(sheared=True)), use)


@pytest.mark.parametrize("at", [Point.BEFORE_HEADERS, Point.INSIDE_EVENT])
def test_a_stall_holds_everything_back_and_loses_nothing(at: Point) -> None:
    async def use(client: RawClient, running: RunningServer) -> None:
        began_s = time.monotonic()
        answer = await client.ask(REQUEST)
        assert time.monotonic() - began_s >= 0.1
        assert len(answer.objects) == TOKENS + 2
        assert answer.events[-1] == b"[DONE]"
        assert (await client.ask(REQUEST)).status == 200
        stamps = running.server.truth.as_json()[0]["sent_ns"]
        gaps = [later - sooner for sooner, later in itertools.pairwise(stamps)]
        assert (max(gaps) >= 90_000_000) == (at is Point.INSIDE_EVENT)

    with_fault(Fault(breaks=Break(Act.STALL, at, after_events=2, stall_s=0.1)), use)


def test_a_stall_that_ends_before_the_response_does_changes_nothing_after_it() -> None:
    request = {"prompt": "x", "max_tokens": 60, "stream": True}

    async def use(client: RawClient, _: RunningServer) -> None:
        answer = await client.ask(post("/v1/completions", request))
        assert [event["choices"][0]["text"] for event in answer.objects] == [" word"] * 60

    with_fault(Fault(breaks=Break(Act.STALL, Point.BETWEEN_EVENTS, stall_s=0.005)), use)


def test_a_status_with_a_time_to_retry() -> None:
    async def use(client: RawClient, _: RunningServer) -> None:
        answer = await client.ask(REQUEST)
        assert (answer.status, answer.headers["retry-after"]) == (429, "7")

    breaks = Break(Act.STATUS, Point.BEFORE_HEADERS, status=429, retry_after_s=7)
    with_fault(Fault(breaks=breaks), use)

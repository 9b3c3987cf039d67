"""The HTTP server, over real sockets and in real time."""

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
import uvloop
from raw_http import Answer, RawClient, connected, get, post

from agentx_replay.errors import UsageError
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.server import RunningServer, ServerConfig, running_server

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"

QUICK = EngineModel(step_base_ms=1, max_model_len=10_000)

Use = Callable[[RawClient, RunningServer], Awaitable[None]]


def with_server(use: Use, config: ServerConfig | None = None) -> None:
    async def main() -> None:
        async with (
            running_server(config or ServerConfig(engine=QUICK)) as running,
            connected(running.port) as client,
        ):
            await use(client, running)

    uvloop.run(main())


def ask(request: bytes, config: ServerConfig | None = None) -> Answer:
    answers: list[Answer] = []

    async def use(client: RawClient, _: RunningServer) -> None:
        answers.append(await client.ask(request))

    with_server(use, config)
    return answers[0]


def chat(words: str = "two words", **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": words}], **more}


def test_a_chat_answer_in_one_piece() -> None:
    answer = ask(post(CHAT, chat(max_tokens=3)))
    body = answer.json()
    assert body["object"] == "chat.completion"
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": " word word word"},
            "logprobs": None,
            "finish_reason": "length",
        }
    ]
    # 3 to open the message, 2 words, 2 to close it, 3 to open the answer
    assert body["usage"] == {
        "prompt_tokens": 10,
        "total_tokens": 13,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_a_chat_stream_event_by_event() -> None:
    request = chat(max_tokens=3, stream=True, stream_options={"include_usage": True})
    answer = ask(post(CHAT, request))
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.events[-1] == b"[DONE]"
    role, first, second, last, usage = answer.objects
    assert {event["id"] for event in answer.objects} == {"chatcmpl-0"}
    assert {event["object"] for event in answer.objects} == {"chat.completion.chunk"}
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    for event in (first, second, last):
        assert event["choices"][0]["delta"] == {"content": " word"}
    reasons = [event["choices"][0]["finish_reason"] for event in (role, first, second, last)]
    assert reasons == [None, None, None, "length"]
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 3


def test_a_stream_without_usage_asked_has_none() -> None:
    answer = ask(post(CHAT, chat(max_tokens=2, stream=True)))
    assert all("usage" not in event for event in answer.objects)


def test_usage_in_every_event_where_asked() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    answer = ask(post(CHAT, chat(max_tokens=3, stream=True, stream_options=options)))
    told = [event["usage"]["completion_tokens"] for event in answer.objects if "usage" in event]
    assert told == [1, 2, 3, 3]


def test_a_text_stream() -> None:
    answer = ask(post(TEXT, {"prompt": "one two three", "max_tokens": 2, "stream": True}))
    assert [event["object"] for event in answer.objects] == ["text_completion"] * 2
    assert [event["choices"][0]["text"] for event in answer.objects] == [" word", " word"]


def test_several_tokens_a_step_come_in_one_event() -> None:
    config = ServerConfig(engine=EngineModel(step_base_ms=1, tokens_per_step=2))
    answer = ask(post(CHAT, chat(max_tokens=4, stream=True)), config)
    said = [event["choices"][0]["delta"]["content"] for event in answer.objects]
    assert said == ["", " word", " word word", " word"]


def test_max_completion_tokens_goes_before_max_tokens_and_both_have_a_default() -> None:
    asked: list[tuple[dict[str, Any], int]] = [
        ({"max_completion_tokens": 2, "max_tokens": 5}, 2),
        ({"max_tokens": 5, "ignore_eos": True}, 5),
        ({}, 16),
    ]

    async def use(client: RawClient, _: RunningServer) -> None:
        for more, tokens in asked:
            answer = await client.ask(post(CHAT, chat(**more)))
            assert answer.json()["usage"]["completion_tokens"] == tokens

    with_server(use)


def test_a_prompt_sent_again_is_found_in_whole_blocks() -> None:
    # 200 words and 8 tokens of template: 208 tokens, three whole blocks of 64
    first = chat("word " * 200, max_tokens=1)
    # the same, answered and asked on: the first 3 + 200 tokens are the same, three whole blocks
    second = {"messages": [*first["messages"], {"role": "user", "content": "more"}]}

    async def use(client: RawClient, _: RunningServer) -> None:
        for request, cached in ((first, 0), (first, 192), (second, 192)):
            usage = (await client.ask(post(CHAT, request))).json()["usage"]
            assert usage["prompt_tokens_details"]["cached_tokens"] == cached

    with_server(use)


def test_an_answer_is_found_in_the_prompt_that_says_it_again() -> None:
    # 5 + 80 tokens, 3 that open the answer, 200 words of it: all but the last are computed, 287
    first = chat("ask " * 80, max_tokens=200)
    turn = {"role": "assistant", "content": " word" * 200}
    more = {"role": "user", "content": "more"}
    others = {"role": "assistant", "content": " other" * 200}

    async def use(client: RawClient, _: RunningServer) -> None:
        await client.ask(post(CHAT, first))
        for said, cached in ((turn, 256), (others, 64)):
            request = {"messages": [*first["messages"], said, more], "max_tokens": 1}
            usage = (await client.ask(post(CHAT, request))).json()["usage"]
            assert usage["prompt_tokens_details"]["cached_tokens"] == cached

    with_server(use)


def test_a_chunked_body_is_read() -> None:
    body = orjson.dumps(chat(max_tokens=1))
    request = (
        f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\n".encode()
        + body[:5]
        + f"\r\n{len(body) - 5:x}\r\n".encode()
        + body[5:]
        + b"\r\n0\r\n\r\n"
    )
    assert ask(request).json()["usage"]["prompt_tokens"] == 10


def test_requests_sent_ahead_are_answered_in_order() -> None:
    async def use(client: RawClient, _: RunningServer) -> None:
        tokens = list(range(1, 40))
        client.send(b"".join(post(CHAT, chat(max_tokens=n, stream=n % 2 == 1)) for n in tokens))
        client.send(b"and then nonsense\r\n\r\n")
        for n in tokens:
            answer = await client.answer()
            if n % 2:
                assert len(answer.objects) == n + 1
            else:
                assert answer.json()["usage"]["completion_tokens"] == n
        assert (await client.answer()).status == 400
        assert await client.read() == b""

    with_server(use)


ENDLESS = {
    "a header": (431, b"GET / HTTP/1.1\r\nx: ", b"a" * 65_536),
    "headers": (431, b"GET / HTTP/1.1\r\n", b"x: a\r\n" * 11_000),
    "a path": (431, b"GET /", b"a" * 65_536),
    "a body": (413, b"POST / HTTP/1.1\r\ncontent-length: 10000000\r\n\r\n", b"a" * 65_536),
    "chunks": (413, b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
               b"1\r\na\r\n" * 11_000),
}  # fmt: skip


@pytest.mark.parametrize(("status", "begin", "more"), ENDLESS.values(), ids=ENDLESS)
def test_a_request_without_end_is_refused(
    status: int, begin: bytes, more: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentx_replay.simulator.http_connection._MAX_REQUEST_BYTES", 300_000)

    async def use(client: RawClient, _: RunningServer) -> None:
        for piece in (begin, *[more] * 20):
            client.send(piece)
            await asyncio.sleep(0)
        assert (await client.answer()).status == status

    with_server(use)


def test_a_client_that_asks_for_it_gets_its_connection_closed() -> None:
    async def use(client: RawClient, running: RunningServer) -> None:
        for request in (post(CHAT, chat(stream=True), "connection: close"), get("/health")):
            async with connected(running.port) as other:
                answer = await other.ask(request)
                closes = "connection" in answer.headers
                assert closes == (request.startswith(b"POST"))
                if closes:
                    assert await other.read() == b""

    with_server(use)


def test_an_idle_connection_is_closed_after_the_keep_alive() -> None:
    async def use(client: RawClient, _: RunningServer) -> None:
        assert (await client.ask(get("/health"))).status == 200
        began_s = time.monotonic()
        assert await client.read() == b""
        assert time.monotonic() - began_s >= 0.09

    with_server(use, ServerConfig(keep_alive_s=0.1))


def test_a_client_that_leaves_takes_its_sequence_along() -> None:
    async def use(client: RawClient, running: RunningServer) -> None:
        engine = running.server.engine
        async with connected(running.port) as leaver:
            leaver.send(post(CHAT, chat(max_tokens=9_000, stream=True)))
            assert await leaver.read()
            assert engine.running == 1
        await client.ask(post(CHAT, chat(max_tokens=5)))
        assert engine.running == 0
        assert engine.next_step_end_ns is None or not engine.waiting

    with_server(use)


def test_what_the_kernel_does_not_take_at_once_still_comes_whole_and_in_order() -> None:
    async def use(client: RawClient, _: RunningServer) -> None:
        large = {"prompt": "x", "max_tokens": 4_000_000}
        client.send(post(TEXT, large) + post(CHAT, chat(max_tokens=3, stream=True)))
        # five bytes a token
        assert (await client.answer()).json()["choices"][0]["text"] == " word" * 4_000_000
        assert len((await client.answer()).objects) == 3  # the role, one token, two

    engine = EngineModel(
        step_base_ms=1, tokens_per_step=4_000_000, max_model_len=5_000_000, cache_blocks=100_000
    )
    with_server(use, ServerConfig(engine=engine))


@dataclass(slots=True)
class ClientLeavesWhenAnswered:
    """Not a fault of the server's: its first client resets as its request is taken up."""

    leaver: socket.socket

    def __call__(self, number: int, body: bytes) -> None:
        if not number:
            self.leaver.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.leaver.close()


def test_a_client_found_gone_while_writing_is_forgotten() -> None:
    async def main() -> None:
        leaver = socket.socket()
        config = ServerConfig(engine=QUICK, truth_bytes=1_000_000)
        async with running_server(config, hook=ClientLeavesWhenAnswered(leaver)) as running:
            leaver.connect(("127.0.0.1", running.port))
            leaver.sendall(post(CHAT, chat(max_tokens=9_000, stream=True)))
            async with connected(running.port) as client:
                while not running.server.truth.as_json():
                    assert (await client.ask(get("/health"))).status == 200
                assert (await client.ask(post(CHAT, chat(max_tokens=3)))).status == 200
            assert running.server.engine.running == 0
            assert running.server.truth.as_json()[0]["end"] == "cut"

    uvloop.run(main())


async def all_of(connection: socket.socket) -> int:
    """Read to the end; return how many bytes came."""
    length = 0
    while piece := await asyncio.get_running_loop().sock_recv(connection, 1 << 20):
        length += len(piece)
    return length


def test_a_client_that_does_not_read_is_dropped_and_the_others_go_on() -> None:
    async def use(client: RawClient, running: RunningServer) -> None:
        with socket.create_connection(("127.0.0.1", running.port)) as sleeper:
            # twelve events of 5 MB each
            flood = {"prompt": "x", "max_tokens": 12_000_001, "stream": True}
            sleeper.sendall(post(TEXT, flood))
            sleeper.setblocking(False)
            while running.server.engine.steps < 13:
                assert (await client.ask(post(CHAT, chat(max_tokens=2)))).status == 200
            with pytest.raises(ConnectionResetError):
                await all_of(sleeper)

    engine = EngineModel(
        step_base_ms=1, tokens_per_step=1_000_000, max_model_len=13_000_000, cache_blocks=300_000
    )
    with_server(use, ServerConfig(engine=engine))


def test_the_server_tells_what_it_sent_and_when() -> None:
    async def use(client: RawClient, _: RunningServer) -> None:
        before_ns = time.monotonic_ns()
        long = chat("word " * 200, max_tokens=3, stream=True)
        for request_id in ("a", "b"):
            await client.ask(post(CHAT, long, f"X-Request-Id: {request_id}"))
        after_ns = time.monotonic_ns()
        first, second = (await client.ask(get("/truth"))).json()["responses"]
        assert [first["request_id"], second["request_id"]] == ["a", "b"]
        assert [first["cached_tokens"], second["cached_tokens"]] == [0, 192]
        assert [first["number"], second["number"]] == [0, 1]
        for truth in (first, second):
            assert truth["tokens"] == [1, 1, 1]
            assert (truth["prompt_tokens"], truth["max_tokens"]) == (208, 3)
            assert truth["end"] == "complete"
            moments = [before_ns, truth["received_ns"], *truth["sent_ns"], after_ns]
            assert moments == sorted(moments)

    with_server(use, ServerConfig(engine=QUICK, truth_bytes=100_000))


def test_the_truth_keeps_the_newest_responses_within_its_bound() -> None:
    async def use(client: RawClient, running: RunningServer) -> None:
        for _ in range(5):
            await client.ask(post(CHAT, chat(max_tokens=1)))
        kept = (await client.ask(get("/truth"))).json()["responses"]
        # a record is counted as 512 + 12 bytes a token: two fit 1,100 bytes
        assert [truth["number"] for truth in kept] == [3, 4]

    with_server(use, ServerConfig(engine=QUICK, truth_bytes=1_100))


def test_many_streams_at_once_are_all_whole() -> None:
    async def one(running: RunningServer, tokens: int) -> None:
        async with connected(running.port) as client:
            answer = await client.ask(post(CHAT, chat(max_tokens=tokens, stream=True)))
            assert len(answer.objects) == tokens + 1

    async def use(_: RawClient, running: RunningServer) -> None:
        await asyncio.gather(*(one(running, 20 + n) for n in range(64)))
        assert running.server.engine.running == 0

    with_server(use)


def test_a_taken_port_is_one_clear_sentence() -> None:
    async def use(_: RawClient, running: RunningServer) -> None:
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1 port {running.port}"):
            async with running_server(ServerConfig(port=running.port)):
                raise AssertionError

    with_server(use)


def test_only_the_loopback_is_served_unless_told_otherwise() -> None:
    assert ServerConfig().host == "127.0.0.1"

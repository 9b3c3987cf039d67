"""The client on real sockets: every way a response can go becomes one Response."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
import uvloop
from scripted_server import (
    DONE,
    HEAD,
    LAST_CHUNK,
    SSE,
    TWO_TOKENS,
    WHOLE,
    Answer,
    Move,
    ScriptedServer,
    answer,
    chunk,
    event,
    scripted,
    token,
    usage,
)

from agentx_replay.endpoint.client import Client, reuse_limit_s
from agentx_replay.endpoint.connection import Connection, ReadBuffer, announced_keep_alive_s
from agentx_replay.endpoint.parsing import ParseQueue
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.prompts.prompt import Prompt
from agentx_replay.replay.ports import Dispatch, ErrorCategory, Phase, Response, Status

KEY = "sk-secret"
LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


def dispatch(stream: str = "s", content: bytes = b"hello") -> Dispatch:
    messages = b'[{"role":"user","content":"%b"}]' % content
    prompt = Prompt(5, 0, np.empty(0, np.uint64), lambda: messages)
    return Dispatch(
        request_id="r-1", play_id="p-1", stream_id=stream, concurrency=1, lane=0, ordinal=0,
        session_id="x", stream=0, turn=0, request_index=0, phase=Phase.WINDOW,
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


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[None]], None]:
    def run_it(test: Awaitable[None]) -> None:
        async def main() -> None:
            await test

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(main())

    return run_it


Run = Callable[[Awaitable[None]], None]


async def answered(steps: Answer) -> Response:
    """Return the response to one request that is answered with these steps."""
    async with scripted([steps]) as server, client_of(server) as client:
        return await client.send(dispatch())


HANGING: Answer = [HEAD, Move.HANG]


def one(steps: Answer) -> Response:
    """The same, on a loop of its own."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(answered(steps))


def test_a_whole_response_is_ok_with_stamps_in_order(run: Run) -> None:
    async def test() -> None:
        async with scripted([WHOLE]) as server, client_of(server) as client:
            response = await client.send(dispatch())
        assert response.status is Status.OK
        assert (response.prompt_tokens, response.cached_tokens) == (5, 3)
        assert (response.completion_tokens, response.finish_reason) == (2, "length")
        assert len(response.arrival_ns) == 2
        stamps = (
            response.connect_start_ns, response.connected_ns, response.send_ns, response.sent_ns,
            response.first_byte_ns, response.first_token_ns, response.last_token_ns,
            response.end_ns,
        )  # fmt: skip
        known = [stamp for stamp in stamps if stamp is not None]
        assert len(known) == 8
        assert known == sorted(known)
        assert response.first_byte_ns is not None
        assert response.first_token_ns is not None
        assert response.first_byte_ns < response.first_token_ns < known[-2]

    run(test())


def test_the_request_is_what_the_protocol_says(run: Run) -> None:
    async def test() -> None:
        more = {"session_headers": True, "extra_headers": (("X-Team", "t"),)}
        extra = {"temperature": 0, "ignore_eos": False}
        async with scripted([WHOLE]) as server:
            async with client_of(server, extra_body=extra, continuous_usage=True, **more) as client:
                await client.send(replace(dispatch(), parent_stream_id="main"))
            head, _, body = server.requests[0].partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        assert lines[0] == "POST /v1/chat/completions HTTP/1.1"
        assert dict(line.split(": ", 1) for line in lines[1:]) == {
            "Host": f"127.0.0.1:{server.port}",
            "Accept-Encoding": "identity",
            "Authorization": f"Bearer {KEY}",
            "X-Team": "t",
            "X-Correlation-ID": "s",
            "X-Request-ID": "r-1",
            "X-Session-ID": "p-1",
            "X-SMG-Routing-Key": "p-1",
            "X-Dynamo-Session-ID": "s",
            "X-Dynamo-Parent-Session-ID": "main",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
        }
        assert orjson.loads(body) == {
            "model": "m",
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "ignore_eos": False,
            "temperature": 0,
            "max_completion_tokens": 2,
            "messages": [{"role": "user", "content": "hello"}],
        }

    run(test())


BODY = TWO_TOKENS
WAYS: dict[str, Answer] = {
    "all in one read": [HEAD + chunk(BODY) + LAST_CHUNK],
    "one chunk an event": WHOLE,
    "until the connection closes": [SSE + b"\r\n", BODY, Move.CLOSE],
    "a stated length": [SSE + b"Content-Length: %d\r\n\r\n" % len(BODY), BODY[:50], BODY[50:]],
    "an interim answer first": [b"HTTP/1.1 100 Continue\r\n\r\n", *WHOLE],
    "lines ended by CRLF": [HEAD, chunk(BODY.replace(b"\n", b"\r\n")), LAST_CHUNK],
    "lines ended by CR": [HEAD, chunk(BODY.replace(b"\n", b"\r")), LAST_CHUNK],
    "no [DONE]": [HEAD, chunk(BODY.removesuffix(DONE)), LAST_CHUNK],
    "comments and blank keep-alives": [HEAD, chunk(b": \n\n\n\n:\n\n"), *WHOLE[1:]],
    "a trailer": [HEAD, chunk(BODY), b"0\r\nX-Sum: 1\r\n\r\n"],
    "the last chunk in three reads": [HEAD, chunk(BODY), b"0", b"\r\n\r", b"\n"],
    "lost after [DONE]": [HEAD, chunk(BODY), Move.CLOSE],
    "reset after [DONE]": [HEAD, chunk(BODY), Move.RESET],
    "a role first, and unknown fields": [
        HEAD,
        chunk(event({"choices": [{"delta": {"role": "assistant", "content": ""}}], "x": {}})),
        *WHOLE[1:],
    ],
    "byte by byte": [(HEAD + chunk(BODY) + LAST_CHUNK)[at : at + 1] for at in range(
        len(HEAD + chunk(BODY) + LAST_CHUNK))],
}  # fmt: skip


@pytest.mark.parametrize("steps", WAYS.values(), ids=WAYS)
def test_a_response_is_complete_however_it_is_sent(steps: Answer) -> None:
    response = one(steps)
    assert (response.status, response.error_text) == (Status.OK, None)
    assert (len(response.arrival_ns), response.completion_tokens) == (2, 2)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (b"gzip", gzip.compress(BODY)),
        (b"deflate", zlib.compress(BODY)),
        (b"deflate", zlib.compress(BODY)[2:-4]),
        (b"identity", BODY),
    ],
)
def test_an_encoded_body_is_decoded_as_it_comes(encoding: bytes, body: bytes) -> None:
    head = HEAD[:-2] + b"Content-Encoding: " + encoding + b"\r\n\r\n"
    response = one([head, chunk(body[:30]), chunk(body[30:]), LAST_CHUNK])
    assert (response.status, len(response.arrival_ns)) == (Status.OK, 2)


def test_events_of_one_read_share_a_stamp_and_events_of_two_do_not() -> None:
    body = token("a") + token("b"), token("c", "length") + usage(5, 3)
    response = one([HEAD, chunk(body[0]), chunk(body[1]), LAST_CHUNK])
    first, second, third = response.arrival_ns.tolist()
    assert first == second < third


def test_an_event_cut_in_two_is_stamped_when_it_is_complete() -> None:
    text = chunk(token("a", "length") + usage(5, 1))
    whole = one([HEAD, text[:20], text[20:], LAST_CHUNK])
    assert whole.first_byte_ns is not None
    assert whole.first_token_ns is not None
    assert whole.first_byte_ns < whole.first_token_ns


def test_usage_in_every_event_tells_the_tokens_of_each() -> None:
    def told(count: int, finish: str | None = None) -> bytes:
        used = {"prompt_tokens": 5, "completion_tokens": count}
        return chunk(token("x", finish, usage=used))

    response = one([HEAD, told(3), told(4), told(6, "length"), chunk(DONE), LAST_CHUNK])
    assert response.arrival_tokens is not None
    assert response.arrival_tokens.tolist() == [3, 1, 2]


ERROR = {"error": {"message": "CUDA error", "code": 500}}
OVERFLOW = {"error": {"message": "This model's maximum context length is 8192 tokens"}}
FAILURES: dict[str, tuple[Answer, ErrorCategory, str, int]] = {
    "closed before the head": ([Move.CLOSE], ErrorCategory.RESET, "without a response", 0),
    "reset before the head": ([Move.RESET], ErrorCategory.RESET, "without a response", 0),
    "closed inside the head": ([HEAD[:20], Move.CLOSE], ErrorCategory.RESET, "before the", 0),
    "closed before the first token": ([HEAD, Move.CLOSE], ErrorCategory.RESET, "before the", 0),
    "closed between events": (
        [HEAD, chunk(token("a")), Move.CLOSE], ErrorCategory.RESET, "before the", 1),
    "reset between events": (
        [HEAD, chunk(token("a")), Move.RESET], ErrorCategory.RESET, "before the", 1),
    "closed inside an event": (
        [HEAD, chunk(token("a")) + b"ff\r\ndata: {", Move.CLOSE], ErrorCategory.RESET, "", 1),
    "closed after the last token": (
        [HEAD, chunk(token("a", "length")), Move.CLOSE], ErrorCategory.RESET, "before the", 1),
    "no finish": ([HEAD, chunk(token("a") + DONE), LAST_CHUNK], ErrorCategory.TRUNCATED, "", 1),
    "no finish before the close": (
        [SSE + b"\r\n", token("a"), Move.CLOSE], ErrorCategory.TRUNCATED, "finish reason", 1),
    "an empty stream": ([HEAD, LAST_CHUNK], ErrorCategory.TRUNCATED, "finish reason", 0),
    "an error inside a 200": (
        [HEAD, chunk(token("a")), chunk(event(ERROR) + DONE), LAST_CHUNK],
        ErrorCategory.STREAM_ERROR, "CUDA error (500)", 1),
    "an error before any token": (
        [HEAD, chunk(event(ERROR) + DONE), LAST_CHUNK], ErrorCategory.STREAM_ERROR, "CUDA", 0),
    "an error event": (
        [HEAD, chunk(b"event: error\ndata: out of memory\n\n"), LAST_CHUNK],
        ErrorCategory.STREAM_ERROR, "out of memory", 0),
    "an error as the whole body of a 200": (
        [answer("200 OK", orjson.dumps(ERROR), "Content-Type: application/json")],
        ErrorCategory.STREAM_ERROR, "CUDA error (500)", 0),
    "an answer in one piece": (
        [answer("200 OK", b'{"choices":[]}', "Content-Type: application/json")],
        ErrorCategory.MALFORMED, "not as a stream", 0),
    "an answer in one piece, cut short": (
        [answer("200 OK", b"{}", "Content-Type: application/json")[:-1], Move.CLOSE],
        ErrorCategory.RESET, "before the", 0),
    "not HTTP": ([b"SSH-2.0-OpenSSH_9\r\n"], ErrorCategory.MALFORMED, "not HTTP", 0),
    "a head that is not HTTP": (
        [b"HTTP/1.1 abc\r\n\r\n"], ErrorCategory.MALFORMED, "head that is not HTTP", 0),
    "a head without end": (
        [b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 12_000], ErrorCategory.MALFORMED, "head", 0),
    "a length that is no number": (
        [SSE + b"Content-Length: x\r\n\r\n"], ErrorCategory.MALFORMED, "", 0),
    "a chunk without a size": (
        [HEAD, chunk(token("a")) + b"zz\r\n", Move.CLOSE], ErrorCategory.MALFORMED, "a size", 1),
    "a chunk without a size, and no end": (
        [HEAD, chunk(token("a")) + b"zz\r\n" + b"x" * 16_384, Move.HANG],
        ErrorCategory.MALFORMED, "a size", 1),
    "an event that is no JSON": (
        [HEAD, chunk(token("a")), chunk(b"data: {oops\n\n"), LAST_CHUNK],
        ErrorCategory.MALFORMED, "no JSON object: {oops", 1),
    "an encoding that was not asked for": (
        [SSE + b"Content-Encoding: br\r\n\r\n"], ErrorCategory.MALFORMED, "'br'", 0),
    "a body that is not gzip": (
        [HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n", chunk(b"nonsense"), LAST_CHUNK],
        ErrorCategory.MALFORMED, "does not unpack", 0),
    "401": (
        [answer("401 Unauthorized", orjson.dumps({"error": f"bad key {KEY}"}))],
        ErrorCategory.UNAUTHORIZED, "HTTP 401: bad key ***", 0),
    "404": (
        [answer("404 Not Found", b'{"message":"no such model"}')],
        ErrorCategory.NOT_FOUND, "HTTP 404: no such model", 0),
    "429": (
        [answer("429 Too Many Requests", b"slow down", "Retry-After: 7")],
        ErrorCategory.RATE_LIMITED, "HTTP 429: slow down (Retry-After: 7)", 0),
    "503": (
        [answer("503 Service Unavailable", b"", "Retry-After: 2")],
        ErrorCategory.SERVER_ERROR, "HTTP 503 (Retry-After: 2)", 0),
    "400": ([answer("400 Bad Request", b"no")], ErrorCategory.BAD_REQUEST, "HTTP 400: no", 0),
    "418": ([answer("418 Teapot", b"")], ErrorCategory.HTTP, "HTTP 418", 0),
    "302": (
        [answer("302 Found", b"", "Location: /login")],
        ErrorCategory.HTTP, "HTTP 302 (Location: /login)", 0),
    "204": ([b"HTTP/1.1 204 No Content\r\n\r\n"], ErrorCategory.HTTP, "HTTP 204", 0),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "category", "text", "arrived"), FAILURES.values(), ids=FAILURES)
def test_a_failure_has_its_category_and_the_tokens_that_came(
    steps: Answer, category: ErrorCategory, text: str, arrived: int
) -> None:
    response = one(steps)
    assert (response.status, response.error_category) == (Status.FAILED, category)
    assert text in (response.error_text or "")
    assert KEY not in (response.error_text or "")
    assert len(response.arrival_ns) == arrived
    assert response.retries == 0


PHRASES = [
    b"This model's maximum context length is 8192 tokens",
    b"context_length_exceeded",
    b'{"error":{"type":"exceed_context_size_error","n_ctx":4096}}',
    b"prompt is too long: 9000 tokens",
    b'{"error":{"message":"too big","type":"BadRequestError","param":"input_tokens"}}',
    b"too many tokens",
    b"max_model_len",
    b"the request exceeds the available context size",
]


@pytest.mark.parametrize("status", ["400 Bad Request", "413 Too Large", "422 Unprocessable"])
@pytest.mark.parametrize("phrase", PHRASES)
def test_a_context_overflow_is_known_by_its_phrase(status: str, phrase: bytes) -> None:
    response = one([answer(status, phrase)])
    assert response.status is Status.OVERFLOW
    assert response.error_category is ErrorCategory.CONTEXT_OVERFLOW


def test_a_context_overflow_in_a_stream_is_one_too() -> None:
    response = one([HEAD, chunk(event(OVERFLOW) + DONE), LAST_CHUNK])
    assert response.status is Status.OVERFLOW


def test_other_statuses_are_no_overflow_whatever_they_say() -> None:
    assert one([answer("500 Oops", b"max_model_len")]).status is Status.FAILED


def test_an_error_text_is_one_short_line() -> None:
    text = one([answer("500 Oops", b"line\n" * 1000)]).error_text
    assert text is not None
    assert len(text) == 500
    assert text.startswith("HTTP 500: line line")
    assert text.endswith("…")


def test_an_event_without_end_is_given_up_at_the_bound() -> None:
    big = b"x" * 262_144
    response = one([HEAD, chunk(token("a")), *[chunk(big)] * 60, Move.HANG])
    assert response.error_category is ErrorCategory.TOO_LARGE
    assert len(response.arrival_ns) == 1


def test_a_gzip_bomb_is_bounded_by_the_event_it_never_ends() -> None:
    bomb = gzip.compress(b"x" * 50_000_000)
    head = HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n"
    response = one([head, chunk(bomb), LAST_CHUNK])
    assert response.error_category is ErrorCategory.TOO_LARGE


# --- connections --------------------------------------------------------------------------------


def test_a_stream_keeps_its_connection_and_another_has_its_own(run: Run) -> None:
    async def test() -> None:
        async with scripted([WHOLE, WHOLE]) as server, client_of(server) as client:
            first = await client.send(dispatch("a"))
            again = await client.send(dispatch("a"))
            other = await client.send(dispatch("b"))
            assert server.connections == 2
        assert first.connected_ns is not None
        assert (again.connect_start_ns, again.connected_ns, again.retries) == (None, None, 0)
        assert other.connected_ns is not None

    run(test())


def test_a_kept_connection_found_closed_is_made_again_and_counted(run: Run) -> None:
    async def test() -> None:
        closes = [WHOLE, [Move.CLOSE]]
        async with scripted(closes, [WHOLE]) as server, client_of(server) as client:
            await client.send(dispatch())
            response = await client.send(dispatch())
            assert (server.connections, len(server.requests)) == (2, 3)
        assert (response.status, response.retries) == (Status.OK, 1)
        assert response.connected_ns is not None

    run(test())


def test_nothing_is_sent_again_after_the_first_byte_of_a_response(run: Run) -> None:
    async def test() -> None:
        async with scripted([WHOLE, [b"H", Move.CLOSE]]) as server, client_of(server) as client:
            await client.send(dispatch())
            response = await client.send(dispatch())
            assert server.connections == 1
        assert (response.error_category, response.retries) == (ErrorCategory.RESET, 0)

    run(test())


def test_a_connection_the_server_has_closed_is_not_used_and_its_age_is_remembered(
    run: Run,
) -> None:
    """The first server closes at once, so that from then on no connection is old enough to keep."""

    async def test() -> None:
        scripts: list[list[Answer]] = [[[*WHOLE, Move.CLOSE]], [WHOLE, WHOLE]]
        async with scripted(*scripts) as server, client_of(server) as client:
            assert (await client.send(dispatch())).status is Status.OK
            await server.closed.wait()
            while client.connections:
                await asyncio.sleep(0)
            for _ in range(2):
                response = await client.send(dispatch())
                assert (response.status, response.retries) == (Status.OK, 0)

    run(test())


@pytest.mark.parametrize(
    ("keep_alive_s", "limit_s"), [(5.0, 4.0), (60.0, 59.0), (1.0, 0.5), (0.0, 0.0)]
)
def test_a_connection_is_given_up_a_second_before_the_server_would(
    keep_alive_s: float, limit_s: float
) -> None:
    assert reuse_limit_s(keep_alive_s) == limit_s


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (b"timeout=5", 5.0),
        (b"max=100, Timeout = 15", 15.0),
        (b"", None),
        (b"max=100", None),
        (b"timeout=soon", None),
    ],
)
def test_what_a_keep_alive_header_announces(header: bytes, seconds: float | None) -> None:
    assert announced_keep_alive_s(header) == seconds


@pytest.mark.parametrize("header", [b"Connection: close\r\n", b"Keep-Alive: timeout=0\r\n"])
def test_a_connection_is_not_kept_longer_than_the_server_says(run: Run, header: bytes) -> None:
    async def test() -> None:
        steps = [HEAD[:-2] + header + b"\r\n", *WHOLE[1:]]
        async with scripted([steps]) as server, client_of(server) as client:
            await client.send(dispatch())
            response = await client.send(dispatch())
            assert server.connections == 2
        assert (response.status, response.retries) == (Status.OK, 0)

    run(test())


def test_bytes_after_the_end_of_a_response_end_the_connection(run: Run) -> None:
    async def test() -> None:
        steps = [*WHOLE[:-1], LAST_CHUNK + b"HTTP/1.1 200 OK\r\n\r\n"]
        async with scripted([steps]) as server, client_of(server) as client:
            assert (await client.send(dispatch())).status is Status.OK
            assert (await client.send(dispatch())).status is Status.OK
            assert server.connections == 2

    run(test())


def test_a_stream_that_has_ended_gives_its_connection_back(run: Run) -> None:
    async def test() -> None:
        async with scripted([WHOLE]) as server, client_of(server) as client:
            await client.send(dispatch())
            client.stream_ended("s")
            client.stream_ended("never seen")
            await server.closed.wait()

    run(test())


def test_a_megabyte_is_sent_whole_and_stamped_when_it_has_left(run: Run) -> None:
    async def test() -> None:
        content = b"x" * 8_000_000
        async with scripted([WHOLE]) as server, client_of(server) as client:
            response = await client.send(dispatch(content=content))
            assert content in server.requests[0]
        assert response.sent_ns is not None
        assert response.first_byte_ns is not None
        assert response.send_ns < response.sent_ns <= response.first_byte_ns

    run(test())


def test_an_answer_before_the_request_is_sent_stops_the_upload_and_is_kept(run: Run) -> None:
    async def test() -> None:
        early: Answer = [answer("413 Too Large", b"max_model_len"), Move.HANG]
        async with scripted([early], read_bodies=False) as server, client_of(server) as client:
            response = await client.send(dispatch(content=b"x" * 64_000_000))
        assert response.status is Status.OVERFLOW
        assert response.sent_ns is None

    run(test())


# --- ends that are ours -------------------------------------------------------------------------


def test_a_cut_ends_what_is_in_flight_with_what_arrived(run: Run) -> None:
    async def test() -> None:
        came = asyncio.Event()
        script: list[Answer] = [[HEAD, chunk(token("a")), chunk(token("b")[:9]), came.set]]
        async with scripted(script) as server, client_of(server) as client:
            task = asyncio.ensure_future(client.send(dispatch()))
            await came.wait()
            client.cut()
            response = await task
        assert (response.status, response.error_category) == (Status.CUT, None)
        assert len(response.arrival_ns) == 1

    run(test())


TWO_WHOLE = token("a") + token("b")
SHORT_OF_WHAT_WAS_ANNOUNCED: dict[str, Answer] = {
    "a length": [SSE + b"Content-Length: 9000\r\n\r\n", TWO_WHOLE + token("c")[:9]],
    "a chunk": [HEAD, b"ff00\r\n" + TWO_WHOLE + token("c")[:9]],
    "a chunk, whole but for its end": [HEAD, chunk(TWO_WHOLE)[:-1]],
    "the last chunk": [HEAD, chunk(TWO_WHOLE) + b"0\r\n"],
    "gzip": [
        HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n",
        b"fff\r\n" + gzip.compress(TWO_WHOLE, 0)[:-8],
    ],
}


@pytest.mark.parametrize(
    "steps", SHORT_OF_WHAT_WAS_ANNOUNCED.values(), ids=SHORT_OF_WHAT_WAS_ANNOUNCED
)
def test_a_body_shorter_than_announced_is_waited_for_until_the_cut_and_its_tokens_kept(
    run: Run, steps: Answer
) -> None:
    async def test() -> None:
        came = asyncio.Event()
        async with scripted([[*steps, came.set, Move.HANG]]) as server, client_of(server) as client:
            task = asyncio.ensure_future(client.send(dispatch()))
            await came.wait()
            assert not task.done()
            client.cut()
            response = await task
        assert (response.status, response.error_category) == (Status.CUT, None)
        assert response.http_status == 200
        assert len(response.arrival_ns) == 2

    run(test())


def test_a_cut_ends_a_connection_being_made(run: Run) -> None:
    async def test() -> None:
        async with scripted([WHOLE]) as server, client_of(server) as client:
            task = asyncio.ensure_future(client.send(dispatch()))
            await asyncio.sleep(0)
            client.cut()
            assert (await task).status is Status.CUT
            assert (await client.send(dispatch())).status is Status.OK

    run(test())


def test_a_response_past_the_limit_that_was_asked_for_is_a_timeout(run: Run) -> None:
    """Six hours are the least a person can ask for; the test shortens them behind the check."""

    async def test() -> None:
        async with scripted([[HEAD, chunk(token("a")), Move.HANG]]) as server:
            limited = settings(server.port, timeout_s=21_600.0)
            object.__setattr__(limited, "timeout_s", 0.2)
            client = Client(limited)
            response = await client.send(dispatch())
            await client.close()
        assert response.error_category is ErrorCategory.TIMEOUT

    run(test())


def test_a_limit_that_is_not_reached_changes_nothing(run: Run) -> None:
    async def test() -> None:
        async with scripted([WHOLE]) as server, client_of(server, timeout_s=21_600.0) as client:
            assert (await client.send(dispatch())).status is Status.OK

    run(test())


def test_a_request_on_a_connection_lost_meanwhile_ends_at_once(run: Run) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        connection = Connection(loop, ReadBuffer(), ParseQueue(loop))
        await loop.create_connection(lambda: connection, "127.0.0.1", port)
        await connection.closed
        exchange = connection.exchange(b"GET / HTTP/1.1\r\n\r\n", streamed=True)
        await exchange.done
        assert exchange.unanswered
        listener.close()

    run(test())


def test_bytes_that_nobody_asked_for_end_a_free_connection(run: Run) -> None:
    async def test() -> None:
        script: list[Answer] = [[*WHOLE, b"HTTP/1.1 408 Request Timeout\r\n\r\n"]]
        async with scripted(script) as server, client_of(server) as client:
            for _ in range(2):
                response = await client.send(dispatch())
                assert (response.status, response.retries) == (Status.OK, 0)
                await server.closed.wait()
            assert server.connections == 2

    run(test())


def test_a_caller_that_gives_up_closes_the_connection(run: Run) -> None:
    async def test() -> None:
        came = asyncio.Event()
        script: list[Answer] = [[HEAD, came.set]]
        async with scripted(script) as server, client_of(server) as client:
            task = asyncio.ensure_future(client.send(dispatch()))
            await came.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.closed.wait()

    run(test())


def test_a_stream_has_one_request_in_flight(run: Run) -> None:
    async def test() -> None:
        came = asyncio.Event()
        script: list[Answer] = [[HEAD, came.set]]
        async with scripted(script) as server, client_of(server) as client:
            task = asyncio.ensure_future(client.send(dispatch()))
            await came.wait()
            with pytest.raises(RuntimeError):
                await client.send(dispatch())
            client.cut()
            await task

    run(test())


# --- no connection ------------------------------------------------------------------------------


def test_a_refused_connection_is_a_failure(run: Run) -> None:
    async def test() -> None:
        async with scripted([WHOLE]) as server:
            port = server.port
        client = Client(settings(port))
        response = await client.send(dispatch())
        assert (response.status, response.error_category) == (Status.FAILED, ErrorCategory.CONNECT)
        assert (response.error_text or "").startswith(f"cannot connect to 127.0.0.1:{port} (")
        assert response.connect_start_ns is not None
        assert response.connected_ns is None
        await client.close()

    run(test())


def test_a_name_that_does_not_resolve_is_a_failure(run: Run) -> None:
    async def test() -> None:
        url = BaseUrl("http", "no-such-host.invalid", 80, "/v1")
        client = Client(EndpointSettings(url, "m"))
        response = await client.send(dispatch())
        assert response.error_category is ErrorCategory.CONNECT
        assert "no-such-host.invalid cannot be resolved" in (response.error_text or "")
        await client.close()

    run(test())

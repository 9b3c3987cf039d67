"""The client on real sockets: every way a response can go becomes one Response."""

import gzip
import zlib
from dataclasses import replace

import orjson
import pytest
from client_cases import KEY, client_of, dispatch, one
from scripted_server import (
    DONE,
    HEAD,
    LAST_CHUNK,
    SSE,
    TWO_TOKENS,
    WHOLE,
    Answer,
    Move,
    answer,
    chunk,
    event,
    scripted,
    token,
    usage,
)

from agentx_replay.replay.ports import ErrorCategory, Status


async def test_a_whole_response_is_ok_with_stamps_in_order() -> None:
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


async def test_the_request_is_what_the_protocol_says() -> None:
    more = {"session_headers": True, "extra_headers": (("X-Team", "t"),)}
    extra = {"temperature": 0, "ignore_eos": False}
    async with scripted([WHOLE]) as server:
        async with client_of(server, extra_body=extra, continuous_usage=True, **more) as client:
            await client.send(replace(dispatch(), parent_conversation_id="main"))
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


BODY = TWO_TOKENS
WAYS: dict[str, Answer] = {
    "all in one read": [HEAD + chunk(BODY) + LAST_CHUNK],
    "one chunk an event": WHOLE,
    "until the connection closes": [SSE + b"\r\n", BODY, Move.CLOSE],
    "a stated length": [SSE + b"Content-Length: %d\r\n\r\n" % len(BODY), BODY[:50], BODY[50:]],
    "an interim answer first": [b"HTTP/1.1 100 Continue\r\n\r\n", *WHOLE],
    "lines ended by CR": [HEAD, chunk(BODY.replace(b"\n", b"\r")), LAST_CHUNK],
    "a trailer": [HEAD, chunk(BODY), b"0\r\nX-Sum: 1\r\n\r\n"],
    "the last chunk in three reads": [HEAD, chunk(BODY), b"0", b"\r\n\r", b"\n"],
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
        (b"x-gzip", gzip.compress(BODY)),
        (b"GZIP", gzip.compress(BODY)),
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


@pytest.mark.parametrize("end", [LAST_CHUNK, b"0\r\nTrailer: t\r\n\r\n"])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_a_response_ends_with_its_last_byte_however_its_end_is_cut(end: bytes, size: int) -> None:
    """The server keeps the connection open, so an end that is not seen never comes."""
    pieces = [end[at : at + size] for at in range(0, len(end), size)]
    response = one([HEAD, chunk(TWO_TOKENS), *pieces])
    assert (response.status, len(response.arrival_ns)) == (Status.OK, 2)


def test_a_blank_line_of_carriage_returns_is_no_end() -> None:
    def ended_by_crlf(events: bytes) -> bytes:
        return chunk(events.replace(b"\n", b"\r\n"))

    tokens = [ended_by_crlf(token("a")), ended_by_crlf(token("b", "length"))]
    response = one([HEAD, *tokens, ended_by_crlf(usage(5, 2) + DONE), LAST_CHUNK])
    assert (response.status, len(response.arrival_ns)) == (Status.OK, 2)


ERROR = {"error": {"message": "CUDA error", "code": 500}}
FAILURES: dict[str, tuple[Answer, ErrorCategory, str, int]] = {
    "closed before the head": ([Move.CLOSE], ErrorCategory.RESET, "without a response", 0),
    "reset before the head": ([Move.RESET], ErrorCategory.RESET, "without a response", 0),
    "closed inside the head": ([HEAD[:20], Move.CLOSE], ErrorCategory.RESET, "before the", 0),
    "closed inside an event": (
        [HEAD, chunk(token("a")) + b"ff\r\ndata: {", Move.CLOSE], ErrorCategory.RESET, "", 1),
    "no finish": ([HEAD, chunk(token("a") + DONE), LAST_CHUNK], ErrorCategory.TRUNCATED, "", 1),
    "no finish before the close": (
        [SSE + b"\r\n", token("a"), Move.CLOSE], ErrorCategory.TRUNCATED, "finish reason", 1),
    "an empty stream": ([HEAD, LAST_CHUNK], ErrorCategory.TRUNCATED, "finish reason", 0),
    "an error inside a 200": (
        [HEAD, chunk(token("a")), chunk(event(ERROR) + DONE), LAST_CHUNK],
        ErrorCategory.STREAM_ERROR, "CUDA error (500)", 1),
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
        [HEAD, chunk(token("a")) + b"zz\r\n", Move.CLOSE],
        ErrorCategory.MALFORMED, "chunk size", 1),
    "a chunk without a size, and no end": (
        [HEAD, chunk(token("a")) + b"zz\r\n" + b"x" * 65_536, Move.HANG],
        ErrorCategory.MALFORMED, "chunk size", 1),
    "an event that is no JSON": (
        [HEAD, chunk(token("a")), chunk(b"data: {oops\n\n"), LAST_CHUNK],
        ErrorCategory.MALFORMED, "no JSON object: {oops", 1),
    "an error with half of an emoji in it": (
        [HEAD, chunk(rb'data: {"error":"bad token \ud83d"}' + b"\n\n"), LAST_CHUNK],
        ErrorCategory.STREAM_ERROR, "bad token ?", 0),
    "404 with half of an emoji in it": (
        [answer("404 Not Found", rb'{"message":"no model \ude00"}')],
        ErrorCategory.NOT_FOUND, "HTTP 404: no model ?", 0),
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

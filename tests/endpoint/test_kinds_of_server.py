"""What servers of many kinds say in answers that are whole, and what is made of it."""

import re
from pathlib import Path
from typing import Any

import pytest
from client_cases import one
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
    token,
    usage,
)
from stamped_stream import StampedStream

from agentx_replay.endpoint.completion_stream import ParsedStream
from agentx_replay.endpoint.server_words import overflows, rate_limited
from agentx_replay.replay.ports import ErrorCategory, Status

CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


def typed(kind: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\n" + kind + CHUNKED


ENDS = usage(5, 2, 3) + DONE
WHOLE_ANSWERS: dict[str, Answer] = {
    "a stream called JSON": [typed(b"Content-Type: application/json\r\n"), *WHOLE[1:]],
    "a stream called JSON, after a blank line": [
        typed(b"Content-Type: application/json\r\n"), chunk(b"\n\n"), *WHOLE[1:]],
    "a stream called JSON, with a length": [
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (len(TWO_TOKENS), TWO_TOKENS)],
    "a stream called text": [typed(b"Content-Type: text/plain\r\n"), *WHOLE[1:]],
    "a stream called HTML": [typed(b"Content-Type: text/html\r\n"), *WHOLE[1:]],
    "a stream called bytes": [typed(b"Content-Type: application/octet-stream\r\n"), *WHOLE[1:]],
    "a stream called nothing": [typed(b""), *WHOLE[1:]],
    "a stream that begins with a comment": [
        typed(b"Content-Type: application/json\r\n"), chunk(b": hello\n\n"), *WHOLE[1:]],
    "an empty finish reason until the end": [
        HEAD, chunk(token("a", "") + token("b", "length") + ENDS), LAST_CHUNK],
    "a finish reason nobody knows": [
        HEAD, chunk(token("a") + token("b", "max_new_tokens_reached") + ENDS), LAST_CHUNK],
    "usage as floats": [
        HEAD, chunk(token("a") + token("b", "length") + event(
            {"choices": [], "usage": {"prompt_tokens": 5.0, "completion_tokens": 2.0,
                                      "prompt_tokens_details": {"cached_tokens": 3.0}}}) + DONE),
        LAST_CHUNK],
    "usage that is null but at the end": [
        HEAD, chunk(token("a", usage=None) + token("b", "length", usage=None) + ENDS), LAST_CHUNK],
}  # fmt: skip


@pytest.mark.parametrize("steps", WHOLE_ANSWERS.values(), ids=WHOLE_ANSWERS)
def test_a_whole_answer_is_one_however_it_is_told(steps: Answer) -> None:
    response = one(steps)
    assert (response.status, response.error_text) == (Status.OK, None)
    assert len(response.arrival_ns) == 2
    assert (response.prompt_tokens, response.cached_tokens, response.completion_tokens) == (5, 3, 2)


def delta(said: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": said, "finish_reason": None}]})


def meaning(said: bytes) -> ParsedStream:
    """Return what a stream says whose bytes came in one read."""
    stream = StampedStream()
    stream.feed(said, 0)
    stream.end()
    return stream.result()


SAYS_NOTHING: dict[str, bytes] = {
    "a ping with a time": b"event: ping\r\ndata: 2026-01-01 00:00:00\r\n\r\n",
    "a ping with JSON": b'event: ping\ndata: {"type": "ping"}\n\n',
    "a ping without data": b"event: ping\n\n",
    "a heartbeat that is half of an object": b"event: heartbeat\ndata: {\n\n",
    "a keep-alive of our name": b"event: message\ndata: keep-alive\n\n",
    "a comment as data": b"data: : OPENROUTER PROCESSING\n\n",
    "a word as data": b"data: ping\n\n",
    "a word in brackets": b"data: [PING]\n\n",
    "a blank": b"data:  \n\n",
    "null": b"data: null\n\n",
    "a list": b"data: [1]\n\n",
    "lists without end": b"data: " + b"[" * 100_000 + b"\n\n",
    "an id and a time to retry": b"id: 1\nretry: 3000\n\n",
    "an empty delta": delta({}),
    "an empty content": delta({"content": ""}),
    "a null content": delta({"content": None}),
    "a role": delta({"role": "assistant", "content": ""}),
    "a null delta": delta(None),
    "no delta": event({"choices": [{"index": 0, "finish_reason": None}]}),
    "a choice of nothing": event({"choices": [{}]}),
    "a choice that is a number": event({"choices": [1]}),
    "no choice": event({"choices": []}),
    "null choices": event({"choices": None}),
    "no fields": event({}),
    "empty tool calls": delta({"tool_calls": []}),
}


@pytest.mark.parametrize("nothing", SAYS_NOTHING.values(), ids=SAYS_NOTHING)
def test_an_event_that_says_nothing_is_no_token_and_no_fault(nothing: bytes) -> None:
    said = meaning(nothing + token("a") + nothing + token("b", "length") + nothing + ENDS)
    assert (said.malformed, said.error, said.completion_tokens) == (None, None, 2)
    assert (said.finish_reason, len(said.arrival_ns)) == ("length", 2)


def test_events_of_another_name_are_the_completions_if_they_are_its_json() -> None:
    assert len(meaning(TWO_TOKENS.replace(b"data", b"event: chunk\ndata")).arrival_ns) == 2


USAGES: dict[str, tuple[Any, int | None]] = {
    "0": ({"completion_tokens": 0}, 0),
    "null": ({"completion_tokens": None}, None),
    "lacking": ({"prompt_tokens": 5}, None),
    "of nothing": ({}, None),
    "that is null": (None, None),
    "that is a list": ([], None),
    "that is a number": (2, None),
    "with null details": ({"completion_tokens": 2, "completion_tokens_details": None}, 2),
}


@pytest.mark.parametrize(("used", "known"), USAGES.values(), ids=USAGES)
def test_usage_is_what_the_last_says_or_not_known(used: Any, known: int | None) -> None:
    end = event({"choices": [], "usage": used}) + DONE
    at_the_end = meaning(token("a") + token("b", "length") + end)
    assert (len(at_the_end.arrival_ns), at_the_end.completion_tokens) == (2, known)
    before = meaning(token("a", usage=used) + token("b", "length", usage=used) + ENDS)
    assert (len(before.arrival_ns), before.completion_tokens) == (2, 2)


@pytest.mark.parametrize("odd", [-5, 4.5, 2**40, "7", True, [1], {}])
def test_a_count_that_cannot_be_one_is_not_known(odd: object) -> None:
    used = {"prompt_tokens": odd, "completion_tokens": odd, "prompt_tokens_details": None}
    said = meaning(token("a", "length") + event({"choices": [], "usage": used}) + DONE)
    known = (said.prompt_tokens, said.completion_tokens, said.cached_tokens)
    assert known == (None, None, None)


@pytest.mark.parametrize("more", [[], [b"0\r\n"], [chunk(b": bye\n\n")]])
def test_a_body_without_end_after_done_ended_with_its_last_read(
    more: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentx_replay.endpoint.between_polls.SILENCE_S", 0.8)
    response = one([HEAD, chunk(TWO_TOKENS), *more, Move.HANG])
    assert (response.status, response.completion_tokens) == (Status.OK, 2)
    assert response.end_ns - response.arrival_ns[-1] < 640_000_000


GIVEN_UP = ("abort", "ABORTED", "cancelled", "canceled", "error")


@pytest.mark.parametrize("reason", GIVEN_UP)
def test_a_response_that_its_server_gave_up_has_failed(reason: str) -> None:
    response = one([HEAD, chunk(token("a") + token("b", reason) + ENDS), LAST_CHUNK])
    assert (response.error_category, len(response.arrival_ns)) == (ErrorCategory.STREAM_ERROR, 2)
    assert response.finish_reason == reason


def test_the_last_words_of_a_stream_without_a_finish_are_told() -> None:
    response = one([HEAD, chunk(b"data: Internal Server Error\n\n"), LAST_CHUNK])
    assert response.error_category is ErrorCategory.TRUNCATED
    assert "Internal Server Error" in (response.error_text or "")


@pytest.mark.parametrize("kind", ["text/html", "application/json", "text/plain"])
@pytest.mark.parametrize("body", [b"<html>", b'{"choices":[]}', b"[]"])
def test_an_answer_in_one_piece_is_no_stream(kind: str, body: bytes) -> None:
    response = one([answer("200 OK", body, f"Content-Type: {kind}")])
    assert response.error_category is ErrorCategory.MALFORMED


# --- overflow and rate limit, in the engines' own words ---------------------------------------

ROW = re.compile(r"^\| (.+?) \| (.+) \| (overflow|rate limit) \| .+ \|$", re.MULTILINE)
WORDS = ROW.findall((Path(__file__).parents[2] / "docs/endpoint.md").read_text())


@pytest.mark.parametrize(("server", "words", "meaning"), WORDS)
def test_every_servers_words_mean_what_the_docs_say(server: str, words: str, meaning: str) -> None:
    assert (overflows(words), rate_limited(words)) == (
        meaning == "overflow",
        meaning == "rate limit",
    )


def test_the_docs_have_the_words_of_every_engine() -> None:
    engines = {"vLLM", "SGLang", "TensorRT-LLM", "TGI", "llama.cpp", "Ollama", "LMDeploy"}
    assert {server for server, _, meaning in WORDS if meaning == "overflow"} >= {
        *engines, "OpenAI", "Anthropic"}  # fmt: skip


@pytest.mark.parametrize("words", ["no", "CUDA out of memory", "Loading model", "n must be 1"])
def test_other_words_are_neither(words: str) -> None:
    assert (overflows(words), rate_limited(words)) == (False, False)


PER_MINUTE = "Too many tokens per minute, please wait before trying again."
BUSY = {"error": {"message": PER_MINUTE, "type": "rate_limit_error", "code": 429}}


@pytest.mark.parametrize(
    "steps",
    [
        [HEAD, chunk(event(BUSY)), LAST_CHUNK],
        *([answer(status, event(BUSY)[6:])] for status in ("400 No", "413 No", "422 No", "429 No")),
    ],
)
def test_a_rate_limit_fails_one_request_wherever_it_is_told(steps: Answer) -> None:
    response = one(steps)
    assert (response.status, response.error_category) == ("failed", ErrorCategory.RATE_LIMITED)


TOO_LONG = "This model's maximum context length is 8192 tokens"
LMDEPLOY = token("internal error happened, status code ResponseType.INPUT_LENGTH_ERROR", "error")


@pytest.mark.parametrize(
    "steps",
    [
        *([answer(status, TOO_LONG.encode())] for status in ("400 No", "413 No", "422 No")),
        [HEAD, chunk(event({"error": {"message": TOO_LONG}}) + DONE), LAST_CHUNK],
        [HEAD, chunk(event({"object": "error", "message": TOO_LONG, "code": 400})), LAST_CHUNK],
        [HEAD, chunk(LMDEPLOY + usage(9, 0) + DONE), LAST_CHUNK],
        [HEAD, chunk(LMDEPLOY + DONE), LAST_CHUNK],
    ],
)
def test_an_overflow_is_one_wherever_it_is_told(steps: Answer) -> None:
    assert one(steps).error_category == "context_overflow"


def test_what_a_model_says_of_context_is_no_overflow() -> None:
    said = token("the context length ") + token("is", "error")
    assert one([HEAD, chunk(said + DONE), LAST_CHUNK]).error_category == "stream_error"
    said = token("the context length", "error") + usage(9, 3)
    assert one([HEAD, chunk(said + DONE), LAST_CHUNK]).error_category == "stream_error"


def test_a_failing_server_is_no_overflow_whatever_it_says() -> None:
    assert one([answer("500 Oops", b"max_model_len")]).status is Status.FAILED


def test_the_type_of_a_stream_may_have_any_case() -> None:
    head = SSE.replace(b"text/event-stream", b"Text/Event-Stream; charset=utf-8") + CHUNKED
    assert one([head, *WHOLE[1:]]).status is Status.OK

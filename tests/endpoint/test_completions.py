"""Requests and events of the completions API."""

import orjson
from record_cases import dispatch
from stamped_stream import StampedStream

from agentx_replay.endpoint.completion_stream import ParsedStream
from agentx_replay.endpoint.requests import Requests
from agentx_replay.endpoint.server_sent_events import Event
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.prompts.prompt import Prompt

SETTINGS = EndpointSettings(
    BaseUrl("http", "server", 80, "/v1"), "tiny", session_headers=True, api="completions"
)


def test_a_request_has_its_prompt_as_it_stands_and_max_tokens() -> None:
    prompt = Prompt(3, 0, dispatch().prompt.block_ids, lambda: b"[ 7,  8,  9]")
    sent = Requests(SETTINGS).request(dispatch(request_id="r", prompt=prompt, max_tokens=5))
    head, _, body = b"".join(sent).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/completions HTTP/1.1\r\nHost: server\r\n")
    assert b"\r\nX-Correlation-ID: s\r\nX-Request-ID: r\r\nX-Session-ID: p\r\n" in head
    assert f"Content-Length: {len(body)}".encode() in head
    assert orjson.loads(body) == {
        "model": "tiny",
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
        "max_tokens": 5,
        "prompt": [7, 8, 9],
    }


def parsed(*choices: dict[str, object]) -> ParsedStream:
    reader = StampedStream()
    for at, choice in enumerate(choices):
        reader.read(Event(b"", orjson.dumps({"choices": [choice]})), at)
    return reader.result()


def test_an_event_with_text_is_a_token_event() -> None:
    told = parsed({"text": "a"}, {"text": "b"}, {"text": "", "finish_reason": "length"})
    assert told.arrival_ns.tolist() == [0, 1]
    assert told.finish_reason == "length"


def test_empty_text_is_a_token_event_where_there_is_no_other() -> None:
    assert parsed({"text": ""}, {"text": ""}).arrival_ns.tolist() == [0, 1]


def test_a_choice_with_neither_text_nor_delta_is_none() -> None:
    assert parsed({"finish_reason": "length"}, {"text": None}).arrival_ns.tolist() == []

"""What counts as a token event, and how many tokens it holds: right values worked out by hand."""

from typing import Any

import orjson
import pytest
from stamped_stream import StampedStream

from agentx_replay.endpoint.completion_stream import ParsedStream, error_message
from agentx_replay.endpoint.server_sent_events import Event

ROLE = {"role": "assistant", "content": ""}


def _chunk(
    delta: dict[str, Any] | None,
    used: int | None = None,
    finish: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    chunk: dict[str, Any] = {"choices": []}
    if delta is not None:
        chunk["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish, **more}]
    if used is not None:
        chunk["usage"] = {"prompt_tokens": 9, "completion_tokens": used}
    return chunk


def _parse(*chunks: dict[str, Any]) -> ParsedStream:
    """Event k arrives at 10·(k + 1) ns."""
    reader = StampedStream()
    for place, chunk in enumerate(chunks):
        reader.read(Event(b"", orjson.dumps(chunk)), 10 * (place + 1))
    return reader.result()


def _arrivals(stream: ParsedStream) -> tuple[list[int], list[int] | None]:
    tokens = stream.arrival_tokens
    return stream.arrival_ns.tolist(), None if tokens is None else tokens.tolist()


CASES: list[tuple[str, list[dict[str, Any]], tuple[list[int], list[int] | None]]] = [
    (
        "a role is not a token; usage at the end says nothing of when",
        [_chunk(ROLE), _chunk({"content": "a"}), _chunk({"content": "b"}), _chunk(None, 2)],
        ([20, 30], None),
    ),
    (
        "a role with null content is not a token",
        [_chunk({"role": "assistant", "content": None}), _chunk({"content": "a"}), _chunk(None, 1)],
        ([20], None),
    ),
    (
        "a role beside content is a token",
        [_chunk({"role": "assistant", "content": "a"}), _chunk({"content": "b"}), _chunk(None, 2)],
        ([10, 20], None),
    ),
    (
        "reasoning only, under either name, and tool calls",
        [
            _chunk({"reasoning_content": "a"}),
            _chunk({"reasoning": "b"}),
            _chunk({"tool_calls": [{"index": 0}]}),
            _chunk({}, finish="length"),
        ],
        ([10, 20, 30], None),
    ),
    (
        "empty deltas beside full ones are no tokens",
        [_chunk({"content": "a"}), _chunk({"content": ""}), _chunk({"content": "b"})],
        ([10, 30], None),
    ),
    (
        "empty deltas without a role count where there is nothing else",
        [
            _chunk(ROLE),
            _chunk({"content": ""}),
            _chunk({"content": ""}, finish="length"),
            _chunk(None, 2),
        ],
        ([20, 30], None),
    ),
    (
        "a bare delta that only brings the finish is no token",
        [_chunk(ROLE), _chunk({"content": ""}), _chunk({}, finish="stop"), _chunk(None, 1)],
        ([20], None),
    ),
    (
        "usage in every event: growth 3, 1, 2 with a first event of several tokens",
        [
            _chunk(ROLE, 0),
            _chunk({"content": "abc"}, 3),
            _chunk({"content": "d"}, 4),
            _chunk({"content": "ef"}, 6, finish="length"),
            _chunk(None, 6),
        ],
        ([20, 30, 40], [3, 1, 2]),
    ),
    (
        "usage in every event: an empty delta whose usage grew is a token",
        [_chunk({"content": "a"}, 1), _chunk({"content": ""}, 2), _chunk({"content": "b"}, 3)],
        ([10, 20, 30], [1, 1, 1]),
    ),
    (
        "usage in every event: a total that grew in the usage-only chunk came with that",
        [_chunk({"content": "a"}, 1), _chunk({}, 1, finish="length"), _chunk(None, 2)],
        ([10, 30], [1, 1]),
    ),
    (
        "usage in the finish event alone is a total, not a growth",
        [_chunk({"content": "a"}), _chunk({"content": "b"}), _chunk({}, 2, finish="length")],
        ([10, 20], None),
    ),
    (
        "usage that is zero until the last event with text is a total, not a growth",
        [_chunk({"content": "a"}, 0), _chunk({"content": "b"}, 0), _chunk({"content": "c"}, 3)],
        ([10, 20, 30], None),
    ),
    (
        "usage that is zero until the finish event is a total, and that event no token",
        [_chunk({"content": "a"}, 0), _chunk({"content": "b"}, 0), _chunk({}, 2, finish="length")],
        ([10, 20], None),
    ),
    (
        "usage that grows with every second event does not tell the tokens of one",
        [_chunk({"content": "a"}, 0), _chunk({"content": "b"}, 2), _chunk({"content": "c"}, 2)],
        ([10, 20, 30], None),
    ),
    (
        "text that comes behind its usage, at the end, is no token more",
        [_chunk({"content": "a"}, 1), _chunk({"content": "b"}, 2), _chunk({"content": "c"}, 2)],
        ([10, 20, 30], [1, 1, 0]),
    ),
    (
        "empty deltas with a total at the end are tokens, of which nothing more is known",
        [_chunk({"content": ""}, 0), _chunk({"content": ""}, 0), _chunk({"content": ""}, 3)],
        ([10, 20, 30], None),
    ),
    (
        "token ids tell the tokens of each event",
        [
            _chunk({"content": "ab"}, token_ids=[1, 2]),
            _chunk({"content": ""}, token_ids=[3]),
            _chunk(None, 3),
        ],
        ([10, 20], [2, 1]),
    ),
    (
        "token ids that do not add up to the total are not believed",
        [_chunk({"content": "ab"}, token_ids=[1, 2]), _chunk(None, 3)],
        ([10], None),
    ),
    ("no event, no token", [_chunk(None, 0)], ([], None)),
]


@pytest.mark.parametrize(("_rule", "chunks", "expected"), CASES, ids=[case[0] for case in CASES])
def test_token_events(
    _rule: str,
    chunks: list[dict[str, Any]],
    expected: tuple[list[int], list[int] | None],
) -> None:
    assert _arrivals(_parse(*chunks)) == expected


def test_several_events_of_one_read_share_its_stamp_and_stay_events() -> None:
    reader = StampedStream()
    for _ in range(3):
        reader.read(Event(b"", orjson.dumps(_chunk({"content": "a"}))), 70)
    assert reader.result().arrival_ns.tolist() == [70, 70, 70]


def test_usage_finish_and_done_are_read() -> None:
    reader = StampedStream()
    reader.read(Event(b"", orjson.dumps(_chunk({"content": "a"}, finish="length"))), 1)
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    reader.read(Event(b"", orjson.dumps({"choices": [], "usage": usage, "unknown": {}})), 2)
    reader.read(Event(b"", b"[DONE]"), 3)
    stream = reader.result()
    assert (stream.prompt_tokens, stream.cached_tokens, stream.completion_tokens) == (100, 64, 1)
    assert (stream.finish_reason, stream.done, stream.error) == ("length", True, None)


def _totals(completion: int, reasoning: int | None = None) -> dict[str, Any]:
    usage: dict[str, Any] = {"completion_tokens": completion}
    if reasoning is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return {"choices": [], "usage": usage}


TEXTS: dict[str, tuple[list[dict[str, Any]], list[int] | None, int | None]] = {
    "3 more tokens than events: the bytes of each text, and the words in all": (
        [_chunk({"content": "Let me look"}), _chunk({"content": "."}), _totals(5)], [11, 1], 4),
    "2 more tokens than events: no text is needed": (
        [_chunk({"content": "Let me look"}), _chunk({"content": "."}), _totals(4)], None, None),
    "no usage": ([_chunk({"content": "Let me look"})], None, None),
    "usage of each event": (
        [_chunk({"content": "a b c d e"}, 5), _chunk({"content": "f"}, 6)], None, None),
    "a length is in UTF-8, and marks, digits by three and line ends are pieces": (
        [_chunk({"content": "é = 1234;\n\n"}), _totals(9)], [12], 6),
    "what a tool call says is text": (
        [
            _chunk({"tool_calls": [{"function": {"name": "read", "arguments": ""}}]}),
            _chunk({"tool_calls": [{"function": {"arguments": '{"path"'}}]}),
            _totals(8),
        ], [4, 7], 4),
    "reasoning is text": (
        [_chunk({"reasoning": "I think"}), _chunk({"content": "yes"}), _totals(8)], [7, 3], 3),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_told_where_there_are_more_tokens_than_events(name: str) -> None:
    chunks, lengths, pieces = TEXTS[name]
    stream = _parse(*chunks)
    told = stream.event_text_bytes
    assert (None if told is None else told.tolist()) == lengths
    assert stream.text_pieces == pieces


@pytest.mark.parametrize(
    ("chunks", "tokens", "pieces"),
    [
        ([_chunk({"reasoning": "I think so"}), _chunk({"content": "a"}), _totals(4, 3)], 3, 3),
        ([_chunk({"content": "a"}), _totals(4, 3)], 3, 0),
        ([_chunk({"reasoning": "I think so"}), _totals(4)], None, None),
    ],
)
def test_reasoning_is_as_usage_tells_and_as_events_brought_it(
    chunks: list[dict[str, Any]], tokens: int | None, pieces: int | None
) -> None:
    stream = _parse(*chunks)
    assert (stream.reasoning_tokens, stream.reasoning_pieces) == (tokens, pieces)


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (Event(b"error", b"out of memory"), "out of memory"),
        (Event(b"error", b'{"message":"m"}'), "m"),
        (Event(b"", b'{"error":{"message":"m","type":"t","code":500}}'), "m (t, 500)"),
        (Event(b"", b'{"error":"text"}'), "text"),
        (Event(b"", b'{"object":"error","message":"m"}'), "m"),
    ],
)
def test_an_error_in_the_stream_is_the_servers_own_words(event: Event, error: str) -> None:
    reader = StampedStream()
    reader.read(event, 1)
    reader.read(Event(b"", orjson.dumps(_chunk({"content": "late"}))), 2)
    assert reader.result().error == error
    assert len(reader.result().arrival_ns) == 0


def test_a_null_error_is_none() -> None:
    assert _parse({**_chunk({"content": "a"}), "error": None}).error is None


@pytest.mark.parametrize("data", [b"{", b'{"choices": [{"del', b" {nonsense", b'{"a":' * 30_000])
def test_an_event_that_is_no_json_object_is_malformed(data: bytes) -> None:
    reader = StampedStream()
    reader.read(Event(b"", data), 1)
    assert reader.stream.malformed is not None
    assert len(reader.stream.malformed) < 120


@pytest.mark.parametrize("half", [rb"\ud83d", rb"\ude00", b"\xed\xa0\xbd"])
def test_half_of_an_emoji_is_a_token_event(half: bytes) -> None:
    reader = StampedStream()
    reader.read(Event(b"", b'{"choices":[{"delta":{"content":"%b"}}]}' % half), 7)
    assert reader.stream.malformed is None
    assert reader.result().arrival_ns.tolist() == [7]


def test_an_error_body_of_unknown_shape_is_quoted() -> None:
    assert error_message({"foo": 1}, b' {"foo": 1} ') == '{"foo": 1}'
    assert error_message(None, b"<html>") == "<html>"

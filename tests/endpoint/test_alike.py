"""Token events that differ in their text alone are told without a parse, and exactly those."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from http_reads import parsed
from hypothesis import example, given
from hypothesis import strategies as st
from scripted_server import DONE, LAST_CHUNK, chunk, event, token, usage
from stamped_stream import StampedStream

from agentx_replay.endpoint.completion_stream import ParsedStream
from agentx_replay.endpoint.server_sent_events import EventSplitter, alike_of

BEFORE = b'data: {"choices":[{"index":0,"delta":{"content":"'
BEHIND = b'"},"finish_reason":null}]}\n\n'


@pytest.mark.parametrize(
    "text", [b"b", b" two words", rb"\n", rb"say \"x\"", rb"C:\\dir\t", b"~", b"x" * 3000]
)
def test_an_event_with_another_text_is_alike(text: bytes) -> None:
    alike = alike_of(token("a"))
    assert alike is not None
    assert (alike.start, alike.end) == (BEFORE, BEHIND)
    assert alike.text_of(BEFORE + text + BEHIND) is not None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b'"',
        b'","role":"user',
        b"\\",
        b"a\nb",
        b"\x00",
        b"\x7f",
        rb"\u0041",
        rb"\x",
        "é".encode(),
        b"\xff",
        rb"\n" * 65,
    ],
)
def test_a_text_that_is_none_or_not_plain_is_left_to_the_parser(text: bytes) -> None:
    alike = alike_of(token("a"))
    assert alike is not None
    assert alike.text_of(BEFORE + text + BEHIND) is None


def test_more_or_less_than_one_such_event_is_left_to_the_parser() -> None:
    alike = alike_of(token("a"))
    assert alike is not None
    whole = token("b")
    for piece in (whole + whole, whole[:-1], whole[1:], whole + b"\n", b": ping\n\n" + whole):
        assert alike.text_of(piece) is None


def _chunk(choice: dict[str, Any], **more: Any) -> bytes:
    return event({"choices": [choice], **more})


@pytest.mark.parametrize(
    ("piece", "start"),
    [
        (_chunk({"delta": {"reasoning_content": "a"}}), b'{"reasoning_content":"'),
        (_chunk({"delta": {"reasoning": "a", "content": ""}}), b'{"reasoning":"'),
        (_chunk({"delta": {"role": "assistant", "content": "a"}}), b'"content":"'),
        (_chunk({"text": "a", "index": 0}), b'{"text":"'),
        (_chunk({"delta": {"content": "a"}}, usage=None), b'"content":"'),
    ],
)
def test_the_text_is_found_where_an_api_has_it(piece: bytes, start: bytes) -> None:
    alike = alike_of(piece)
    assert alike is not None
    assert alike.start.endswith(start)
    assert alike.reasoning == (b"reasoning" in start)
    assert alike.text_of(piece) == b"a"


NOT_PLAIN = {
    "no event": b"data: [DONE]\n\n",
    "no JSON": b'data: {"choices"\n\n',
    "no object": b"data: 1\n\n",
    "no choice": usage(5, 2),
    "a choice that is a string": event({"choices": ["a"]}),
    "usage": token("a", usage={"completion_tokens": 1}),
    "a finish reason": token("a", "length"),
    "token ids": _chunk({"delta": {"content": "a"}, "token_ids": [7]}),
    "no text": token(""),
    "a call of a tool": _chunk({"delta": {"tool_calls": [{"function": {"arguments": "a"}}]}}),
    "the same text elsewhere before": event({"model": "a", **{"choices": [{"text": "a"}]}}),
    "a text that is written in another way": rb'data: {"choices":[{"text":"\u0061"}]}' + b"\n\n",
    "a name that is there twice": b'data: {"choices":[{"text":"a","text":"a"}]}\n\n',
    "an event in two lines": b'data: {"choices":\ndata: [{"text":"a"}]}\n\n',
    "carriage returns": b'data: {"choices":[{"text":"a"}]}\r\n\r\n',
    "two events": token("a") * 2,
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_nothing_is_learnt_from_an_event_that_tells_more_or_is_not_plain(name: str) -> None:
    assert alike_of(NOT_PLAIN[name]) is None


# --- the same as without ------------------------------------------------------------------------

plain = st.sampled_from([b"a", b" word", rb"\n", b"error"])
odd = st.sampled_from([b"", rb"\u00e9", "é".encode(), b'"', b"\\", b'","finish_reason":"x', b"\n",
                       b"\xff"])  # fmt: skip
around = st.sampled_from([
    (BEFORE, BEHIND),
    (BEFORE, b'"},"finish_reason":null}],"usage":null}\n\n'),
    (BEFORE, b'"},"finish_reason":null}],"usage":{"completion_tokens":3}}\n\n'),
    (BEFORE, b'"},"finish_reason":"stop"}]}\n\n'),
    (BEFORE, b'"},"token_ids":[1,2]}]}\n\n'),
    (BEFORE, b'"}}],"object":"error"}\n\n'),
    (b'data: {"object":"', b'","choices":[{"text":"a"}]}\n\n'),
    (b'data: {"', b'":"a","choices":[{"text":"a"}]}\n\n'),
    (b'data: {"choices":[{"text":"', b'"}]}\n\n'),
    (b'data: {"choices":[{"delta":{"role":"x","content":"', b'"}}]}\n\n'),
    (b'data: {"choices":[{"delta":{"content":"a","content":"', b'"}}]}\n\n'),
    (b'data: {"choices":[{"delta":{"reasoning":"', b'"}}]}\r\n\r\n'),
    (b'event: error\ndata: {"choices":[{"text":"', b'"}]}\n\n'),
])  # fmt: skip
texts = st.lists(plain, min_size=2, max_size=12) | st.lists(plain | odd, min_size=1, max_size=12)
runs = st.tuples(around, texts).map(lambda run: [run[0][0] + text + run[0][1] for text in run[1]])
others = st.sampled_from([[DONE], [usage(5, 2)], [b": ping\n\n"], [b"data: "], [b"\n"]])
streams = runs | st.lists(runs | others, max_size=6).map(
    lambda each: [piece for run in each for piece in run]
)


def _plainly(pieces: Sequence[bytes]) -> ParsedStream:
    """What the parser says that knows of no likeness."""
    splitter, reader = EventSplitter(), StampedStream()
    for at_ns, piece in enumerate(pieces):
        for each in splitter.feed(piece):
            reader.read(each, at_ns)
    for each in splitter.rest():
        reader.read(each, len(pieces) - 1)
    return reader.result()


def _told(stream: ParsedStream) -> tuple[Any, ...]:
    tokens = stream.arrival_tokens
    return (
        stream.arrival_ns.tolist(),
        None if tokens is None else np.asarray(tokens).tolist(),
        stream.prompt_tokens,
        stream.cached_tokens,
        stream.completion_tokens,
        stream.finish_reason,
        stream.error,
        stream.malformed,
        stream.done,
        None if stream.event_text_bytes is None else stream.event_text_bytes.tolist(),
        stream.text_pieces,
    )


@example([BEFORE + b"a" + BEHIND, b"data: ", BEFORE + b"b" + BEHIND, BEFORE + b"c" + BEHIND])
@example([BEFORE + b"a" + BEHIND, DONE, BEFORE + b"b" + BEHIND])
@given(streams)
def test_a_stream_means_what_it_means_to_the_plain_parser(pieces: list[bytes]) -> None:
    sink = StampedStream()
    for at_ns, piece in enumerate(pieces):
        sink.feed(piece, at_ns)
    sink.end()
    assert _told(sink.result()) == _told(_plainly(pieces))


# --- reads of one chunk each ----------------------------------------------------------------------

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def _cut(pieces: Sequence[bytes], more: set[int], fewer: set[int]) -> list[tuple[bytes, bytes]]:
    """Return a read a chunk, each with what of it is body: but for ``more`` cuts, after so many
    bytes, and with ``fewer`` of the cuts between chunks left out.
    """
    raw, is_body, ends = b"", [], set()
    for piece in pieces:
        framed = chunk(piece)
        head = len(framed) - len(piece) - 2
        is_body += [False] * head + [True] * len(piece) + [False] * 2
        raw += framed
        ends.add(len(raw))
    ends -= {sorted(ends)[each] for each in fewer if each < len(ends) - 1}
    at = sorted({0, len(raw)} | ends | {each for each in more if each < len(raw)})
    return [
        (raw[a:b], bytes(byte for byte, body in zip(raw[a:b], is_body[a:b], strict=True) if body))
        for a, b in itertools.pairwise(at)
    ]


TOKENS = [BEFORE + text + BEHIND for text in (b"a", b"b", b"c", b"dd", b"e", b"ff", b"g")]


@example(TOKENS, set(), set())
@example(TOKENS, set(), {3})
@example(TOKENS, {5 * 78 + 20}, set())
@example([*TOKENS, DONE, *TOKENS], set(), set())
@given(streams, st.sets(st.integers(1, 1000), max_size=3), st.sets(st.integers(0, 12), max_size=3))
def test_every_event_belongs_to_the_read_that_completed_it(
    pieces: list[bytes], more: set[int], fewer: set[int]
) -> None:
    """Whatever of a response the HTTP parser is not shown, because it is alike."""
    reads = _cut([piece for piece in pieces if piece], more, fewer)
    sink, splitter = StampedStream(), EventSplitter()
    sink.feed(b"", 0)  # the head
    for place, (_, piece) in enumerate(reads, 1):
        events = splitter.feed(piece)
        if not events:
            sink.feed(b"", place)
        for each in events:
            sink.read(each, place)
    for each in splitter.rest():
        sink.read(each, len(reads) + 1)
    response = parsed(CHUNKED, *(read for read, _ in reads), LAST_CHUNK, streamed=True)
    assert (response.complete_at, response.excess, response.fault) == (len(reads) + 1, False, None)
    body = response.body(complete=True)
    assert body is not None
    assert body.stream is not None
    assert _told(body.stream) == _told(sink.result())


def test_a_read_that_is_like_the_others_but_for_its_size_is_no_whole_chunk() -> None:
    longer = chunk(TOKENS[0]).replace(b"%x" % len(TOKENS[0]), b"%x" % (len(TOKENS[0]) + 2), 1)
    response = parsed(CHUNKED, *map(chunk, TOKENS), longer, chunk(TOKENS[0]), streamed=True)
    assert response.fault is not None


def test_bytes_inside_of_a_chunk_that_look_like_one_are_none() -> None:
    framed = chunk(TOKENS[0])
    reads = (b"%x\r\n" % len(framed), framed, b"\r\n" + LAST_CHUNK)
    response = parsed(CHUNKED, *map(chunk, TOKENS), *reads, streamed=True)
    assert (response.complete_at, response.fault) == (len(TOKENS) + 3, None)

"""The readers of the wire against bytes made to be nearly right.

``benchmarks/fuzz.py`` runs the same targets under a coverage-guided fuzzer.
"""

import orjson
import pytest
from fuzz_targets import TARGETS, chunks, events, http
from hypothesis import example, given
from hypothesis import strategies as st
from scripted_server import DONE, HEAD, LAST_CHUNK, SSE, TWO_TOKENS, answer, chunk, token, usage

small_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["choices", "delta", "content", "usage", "error", "finish_reason",
                         "completion_tokens", "prompt_tokens_details", "token_ids", "role"]),
        inner,
        max_size=4,
    ),
    max_leaves=10,
)  # fmt: skip
event_bytes = st.one_of(
    st.sampled_from([DONE, token("a"), token("b", "stop"), usage(5, 2), b": comment\n\n", b"\n"]),
    small_json.map(lambda value: b"data: " + orjson.dumps(value) + b"\n\n"),
    st.sampled_from(
        [b"data:", b"data: x", b"event: error\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b":"]
    ),
    st.binary(max_size=12),
)
streams = st.lists(event_bytes, max_size=10).map(b"".join)
framed = st.one_of(
    streams.map(chunk),
    st.sampled_from([LAST_CHUNK, b"0\r\n", b"\r\n", b"5\r\nab", b"A;x=1\r\n0123456789\r\n",
                     b"ffffffffffffffff\r\n", b"-1\r\n", b"0\r\nTrailer: x\r\n\r\n"]),
    st.binary(max_size=8),
)  # fmt: skip
bodies = st.lists(framed, max_size=6).map(b"".join)
heads = st.one_of(
    st.sampled_from([
        HEAD, SSE + b"\r\n", SSE + b"Content-Length: %d\r\n\r\n" % len(TWO_TOKENS),
        b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD, b"HTTP/1.0 200 OK\r\n\r\n",
        HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n", HEAD[:-2] + b"Connection: close\r\n\r\n",
        SSE + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", b"HTTP/1.1 204 No\r\n\r\n",
        answer("429 Slow", b"slow", "Retry-After: 1"), b"HTTP/2 200\r\n\r\n", b"",
        HEAD[:-2] + b"Keep-Alive: timeout=99999999999999999999\r\n\r\n",
    ]),
    st.binary(max_size=40).map(lambda junk: HEAD[:-2] + junk + b"\r\n\r\n"),
)  # fmt: skip
cuts = st.integers(0, 63).map(lambda size: bytes([size]))


@example(b"\x00", b"event: error\n\r\n\xef\xbb\xbfdata: [DONE]\n\n")
@given(cuts, streams)
def test_events_do_not_depend_on_how_they_are_cut(at: bytes, stream: bytes) -> None:
    events(at + stream)


@given(cuts, bodies)
def test_chunks_do_not_depend_on_how_they_are_cut(at: bytes, body: bytes) -> None:
    chunks(at + body)


@example(b"\x07", b"\n" + HEAD, LAST_CHUNK)
@example(b"\x02", HEAD, LAST_CHUNK + b"more after the end")
@given(cuts, heads, bodies | st.just(chunk(TWO_TOKENS) + LAST_CHUNK))
def test_one_response_whatever_a_server_sends_and_however_it_is_cut(
    at: bytes, head: bytes, body: bytes
) -> None:
    http(at + head + body)


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.binary(max_size=120))
def test_any_bytes_at_all(name: str, data: bytes) -> None:
    TARGETS[name](data)

"""Events out of bytes, wherever the bytes are cut."""

import pytest

from agentx_replay.endpoint.server_sent_events import (
    MAX_EVENT_BYTES,
    Event,
    EventSplitter,
    EventTooLargeError,
)

STREAM = (
    b": connected\r\n\r\n"
    b'data: {"a":1}\n\n'
    b"\n\n"
    b"data:{}\r\n\r\n"
    b"event: error\rdata: no\rdata:more\r\r"
    b"id: 7\ndata: two\ndata:  lines\n\n"
    b"retry: 10\n\n"
    b"data: [DONE]\n\n"
)
EVENTS = [
    Event(b"", b'{"a":1}'),
    Event(b"", b"{}"),
    Event(b"error", b"no\nmore"),
    Event(b"", b"two\n lines"),
    Event(b"", b"[DONE]"),
]


def _events(*pieces: bytes) -> list[Event]:
    splitter = EventSplitter()
    return [event for piece in pieces for event in splitter.feed(piece)]


def test_a_stream_in_one_read_gives_its_events() -> None:
    assert _events(STREAM) == EVENTS


def test_cutting_a_stream_anywhere_gives_the_same_events() -> None:
    for cut in range(1, len(STREAM)):
        assert _events(STREAM[:cut], STREAM[cut:]) == EVENTS, cut


def test_a_stream_byte_by_byte_gives_the_same_events() -> None:
    assert _events(*(STREAM[at : at + 1] for at in range(len(STREAM)))) == EVENTS


def test_an_event_is_complete_with_its_blank_line_and_not_before() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: x") == []
    assert splitter.feed(b"\n") == []
    assert splitter.feed(b"\ndata: y") == [Event(b"", b"x")]


def test_the_rest_of_a_body_is_its_last_event() -> None:
    splitter = EventSplitter()
    splitter.feed(b"data: [DONE]\n")
    assert splitter.rest() == [Event(b"", b"[DONE]")]
    assert splitter.rest() == []


def test_a_byte_order_mark_is_no_part_of_the_first_event() -> None:
    assert _events(b"\xef\xbb\xbfdata: x\n\n") == [Event(b"", b"x")]


def test_a_read_that_ends_inside_a_line_end_changes_nothing_of_the_next_event() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: a\n\r") == [Event(b"", b"a")]
    assert splitter.feed(b"\n\xef\xbb\xbfdata: x\n\n") == [Event(b"", b"x")]


def test_an_event_without_end_is_refused_at_the_bound() -> None:
    splitter = EventSplitter()
    splitter.feed(b"x" * MAX_EVENT_BYTES)
    with pytest.raises(EventTooLargeError):
        splitter.feed(b"x")

"""HTTP responses from reads: where a body lies and where it ends, wherever the bytes are cut."""

import gzip

import pytest
from http_reads import NEVER_NS, parsed
from stamped_stream import prompt_reads

from agentx_replay.endpoint.http_response import MAX_TEXT_BYTES, HttpResponse

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
CHUNKS = b"3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n"


def text(response: HttpResponse) -> bytes:
    body = response.body(complete=response.complete_at is not None)
    assert body is not None
    return body.text


def test_a_response_cut_anywhere_gives_the_same_body_and_end() -> None:
    whole = CHUNKED + CHUNKS
    for cut in range(1, len(whole)):
        assert parsed(whole[:cut]).complete_at is None, cut
        response = parsed(whole[:cut], whole[cut:])
        assert (response.complete_at, response.excess, response.fault) == (1, False, None), cut
        assert text(response) == b"abc0123456789", cut


@pytest.mark.parametrize(
    "raw", [b"zz\r\n", b"\r\n", b"-1\r\n", b"0x3\r\n", b"2\r\nabc\r\n", b"f" * 17 + b"\r\n"]
)
def test_bytes_that_are_no_chunks_are_a_fault(raw: bytes) -> None:
    response = parsed(CHUNKED, raw)
    assert response.fault is not None
    assert response.complete_at is None


@pytest.mark.parametrize("write", ["{:x}", "{:X}"])
def test_chunks_of_any_size_that_come_together_are_found(write: str) -> None:
    sizes = [1, 15, 16, 171, 171, 255, 256, 4095, 4096, 65535, 65536, 1048576, 7, 171]
    sent = b"".join(
        f"{write.format(size)}\r\n".encode() + b"5\r\n" * (size // 3) + b"5" * (size % 3) + b"\r\n"
        for size in sizes
    )
    response = parsed(CHUNKED + sent + b"0\r\n\r\n")
    assert response.complete_at == 0
    assert len(text(response)) == sum(sizes)


def test_the_body_before_a_fault_is_kept() -> None:
    assert text(parsed(CHUNKED + b"3\r\nabc\r\nzz\r\n")) == b"abc"


def test_a_sized_body_ends_at_its_length() -> None:
    head = OK + b"Content-Length: 5\r\n\r\n"
    response = parsed(head, b"abc")
    assert (response.missing_bytes, response.complete_at) == (2, None)
    response = parsed(head, b"abc", b"deX")
    assert (response.complete_at, response.excess) == (2, True)
    assert text(response) == b"abcde"


def test_a_body_until_close_has_no_end_of_its_own() -> None:
    response = parsed(OK + b"\r\n", b"abc", b"de")
    assert response.ends_by_close
    assert (response.complete_at, response.missing_bytes) == (None, None)
    assert text(response) == b"abcde"


@pytest.mark.parametrize(
    ("headers", "by_close", "length"),
    [
        (b"Transfer-Encoding: Chunked\r\n", False, None),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", False, None),
        (b"Content-Length: 3\r\n", False, 3),
        (b"", True, None),
    ],
)
def test_the_head_announces_the_framing(headers: bytes, by_close: bool, length: int | None) -> None:
    response = parsed(OK + headers + b"\r\n")
    assert (response.ends_by_close, response.length) == (by_close, length)


def test_chunks_win_over_a_length_that_is_also_told() -> None:
    both = OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS
    assert text(parsed(both)) == b"abc0123456789"


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_some_statuses_have_no_body(status: bytes) -> None:
    assert parsed(b"HTTP/1.1 " + status + b"\r\n\r\n").complete_at == 0


def test_a_length_that_is_no_number_is_a_fault() -> None:
    assert parsed(OK + b"Content-Length: -3\r\n\r\n").fault is not None


def test_an_interim_answer_says_nothing() -> None:
    response = parsed(b"HTTP/1.1 100 Continue\r\n\r\n", OK + b"Content-Length: 1\r\n\r\n", b"a")
    assert (response.status, response.complete_at) == (200, 2)
    assert text(response) == b"a"


def test_another_protocol_is_a_fault() -> None:
    switched = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    assert parsed(switched).fault is not None


@pytest.mark.parametrize("more", [b"more", OK, b"\x00"])
@pytest.mark.parametrize("together", [True, False])
def test_bytes_after_the_end_are_noted_and_take_nothing_from_it(
    more: bytes, together: bool
) -> None:
    whole = CHUNKED + CHUNKS
    response = parsed(whole + more) if together else parsed(whole, more)
    assert (response.complete_at, response.excess, response.fault) == (0, True, None)
    assert text(response) == b"abc0123456789"


def test_a_plain_body_is_bounded() -> None:
    head = OK + b"\r\n"
    assert not parsed(head, b"x" * MAX_TEXT_BYTES).over
    response = parsed(head, b"x" * (MAX_TEXT_BYTES + 1))
    assert response.over
    body = response.body(complete=False)
    assert body is not None
    assert body.too_large


def test_nothing_is_inflated_past_the_bound() -> None:
    """30 MB in one read: it stops at the bound, so that no more than it is ever held."""
    response = parsed(OK + b"Content-Encoding: gzip\r\n\r\n", gzip.compress(b"x" * 30_000_000))
    body = response.body(complete=False)
    assert body is not None
    assert body.too_large
    assert MAX_TEXT_BYTES < len(body.text) <= MAX_TEXT_BYTES + 65_536


def test_a_long_read_is_parsed_in_pieces() -> None:
    """Until a time that has passed a step of 4,096 bytes is parsed, and no more."""
    response = HttpResponse(parsed().times, streamed=False, keeps_answer=False)
    response.add([OK + b"Content-Length: 9000\r\n\r\n" + b"x" * 9000])
    assert response.run(until_ns=0)
    missing = response.missing_bytes
    assert missing == 9000 - (4096 - len(OK + b"Content-Length: 9000\r\n\r\n"))
    assert not response.run(NEVER_NS)
    assert response.complete_at == 0


def test_a_second_response_in_the_same_read_is_not_taken_for_the_body() -> None:
    response = parsed(CHUNKED + CHUNKS + OK + b"Content-Length: 3\r\n\r\nxyz")
    assert response.excess
    assert text(response) == b"abc0123456789"


def test_an_interrupt_within_the_parser_is_no_fault_of_the_response() -> None:
    class Interrupted(HttpResponse):
        def on_chunk_header(self) -> None:
            raise KeyboardInterrupt

    response = Interrupted(prompt_reads([0, 1]), streamed=True, keeps_answer=False)
    response.add([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"3\r\n:\n\n\r\n"])
    with pytest.raises(KeyboardInterrupt):
        response.run(NEVER_NS)

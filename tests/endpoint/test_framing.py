"""Body framing: where a body lies and where it ends, wherever the bytes are cut."""

import pytest

from agentx_replay.endpoint.framing import (
    Chunked,
    Framing,
    MalformedFramingError,
    Sized,
    UntilClose,
    framing_of,
)

CHUNKS = b"3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n"


def _read(framing: Framing, *pieces: bytes) -> bytes:
    body = b""
    for piece in pieces:
        edges = framing.scan(piece)
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            body += piece[start:end]
    return body


@pytest.mark.parametrize("cut", range(len(CHUNKS)))
def test_chunks_cut_anywhere_give_the_same_body_and_end(cut: int) -> None:
    framing = Chunked()
    assert _read(framing, CHUNKS[:cut]) == b"abc0123456789"[: len(_read(Chunked(), CHUNKS[:cut]))]
    assert not framing.ended
    framing = Chunked()
    assert _read(framing, CHUNKS[:cut], CHUNKS[cut:]) == b"abc0123456789"
    assert (framing.ended, framing.excess, framing.fault) == (True, False, None)


@pytest.mark.parametrize("cut", range(1, len(CHUNKS)))
def test_after_any_cut_the_end_shows_or_a_look_at_the_next_byte_is_asked_for(cut: int) -> None:
    framing = Chunked()
    framing.scan(CHUNKS[:cut])
    rest = CHUNKS[cut:]
    assert framing.next_look() == 1 or (len(rest) >= 5 and rest.endswith(b"\r\n\r\n"))


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"zz\r\n", "a chunk without a size"),
        (b"\r\n", "a chunk without a size"),
        (b"-1\r\n", "a chunk without a size"),
        (b"0x3\r\n", "a chunk without a size"),
        (b"2\r\nabc\r\n", "a chunk longer than it says"),
        (b"1" * 9000, "a chunk header without end"),
    ],
)
def test_bytes_that_are_no_chunks_are_a_fault(raw: bytes, fault: str) -> None:
    framing = Chunked()
    framing.scan(raw)
    assert framing.fault == fault
    assert not framing.ended


@pytest.mark.parametrize("write", ["{:x}", "{:X}"])
def test_chunks_of_any_size_that_come_together_are_found(write: str) -> None:
    sizes = [1, 15, 16, 171, 171, 255, 256, 4095, 4096, 65535, 65536, 1048576, 7, 171]
    sent = b"".join(
        f"{write.format(size)}\r\n".encode() + b"5\r\n" * (size // 3) + b"5" * (size % 3) + b"\r\n"
        for size in sizes
    )
    spans = Chunked().scan(sent)
    assert [end - start for start, end in zip(spans[::2], spans[1::2], strict=True)] == sizes


def test_the_body_before_a_fault_is_kept() -> None:
    assert _read(Chunked(), b"3\r\nabc\r\nzz\r\n") == b"abc"


def test_a_sized_body_ends_at_its_length() -> None:
    framing = Sized(5)
    assert _read(framing, b"abc") == b"abc"
    assert (framing.next_look(), framing.ended) == (2, False)
    assert _read(framing, b"deX") == b"de"
    assert (framing.ended, framing.excess) == (True, True)


def test_a_body_until_close_has_no_end_of_its_own() -> None:
    framing = UntilClose()
    assert _read(framing, b"abc", b"de") == b"abcde"
    assert (framing.ended, framing.ends_by_close, framing.next_look()) == (False, True, None)


@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({b"transfer-encoding": b"Chunked"}, 200, Chunked),
        ({b"transfer-encoding": b"chunked", b"content-length": b"3"}, 200, Chunked),
        ({b"content-length": b"3"}, 200, Sized),
        ({b"transfer-encoding": b"chunked"}, 204, Sized),
        ({}, 200, UntilClose),
    ],
)
def test_the_head_announces_the_framing(
    headers: dict[bytes, bytes], status: int, kind: type[object]
) -> None:
    assert isinstance(framing_of(headers, status), kind)


def test_a_length_that_is_no_number_is_malformed() -> None:
    with pytest.raises(MalformedFramingError):
        framing_of({b"content-length": b"-3"}, 200)

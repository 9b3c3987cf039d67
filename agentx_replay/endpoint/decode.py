"""Undoing a Content-Encoding piece by piece, in bounded memory whatever the bytes expand to.

Not for: anything a request did not allow; only gzip and deflate are known.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import Protocol

_PIECE_BYTES = 65_536
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class UndecodableError(Exception):
    """The body is not encoded as its head says, or in a way that is not known."""


class Decoder(Protocol):
    """Encoded bytes in, decoded pieces out."""

    def pieces(self, data: bytes) -> Iterable[bytes]:
        """Return what ``data`` adds, in pieces; raises UndecodableError."""


class Identity:
    """No encoding."""

    __slots__ = ()

    def pieces(self, data: bytes) -> Iterable[bytes]:
        """Return ``data`` itself."""
        return (data,)


class Inflate:
    """gzip (RFC 1952), or deflate with its zlib wrapper (RFC 1950) or, as some send it, without."""

    __slots__ = ("_inflater", "_may_be_bare")

    def __init__(self, *, gzip: bool) -> None:
        self._inflater = zlib.decompressobj(_GZIP_WINDOW if gzip else zlib.MAX_WBITS)
        self._may_be_bare = not gzip

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the inflated bytes in pieces of at most 64 KiB."""
        while data and not self._inflater.eof:
            piece = self._inflate(data)
            data = self._inflater.unconsumed_tail
            if piece:
                yield piece

    def _inflate(self, data: bytes) -> bytes:
        try:
            piece = self._inflater.decompress(data, _PIECE_BYTES)
        except zlib.error as error:
            if not self._may_be_bare:
                raise UndecodableError(
                    f"a compressed body that does not unpack ({error})"
                ) from error
            self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            self._may_be_bare = False
            return self._inflate(data)
        self._may_be_bare = False
        return piece


def decoder_for(encoding: bytes) -> Decoder:
    """Return the decoder for a Content-Encoding header's value (empty where there is none)."""
    name = encoding.strip().lower()
    if name in (b"", b"identity"):
        return Identity()
    if name in (b"gzip", b"x-gzip"):
        return Inflate(gzip=True)
    if name == b"deflate":
        return Inflate(gzip=False)
    raise UndecodableError(
        f"the content encoding {name.decode('latin-1')!r}, which was not asked for"
    )

"""One TCP connection, plain or TLS, whose reads are kept with the time of their arrival.

Per read this makes one system call and a handful of appends; nothing is parsed and nobody is
called, unless enough bytes wait, or the last ones may end a response. An event loop's own
transports hide what the kernel says beside the bytes, so sockets are read from ``add_reader``.
Not for: what is read means (connection.py), or what a timestamp is worth (timing.py).
"""

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from agentx_replay.endpoint.between_polls import ComposeAhead, EverySecond, ParseQueue
from agentx_replay.endpoint.kernel_stamps import (
    CONTROL_BYTES,
    NS,
    TIMESPEC,
    Timestamps,
    data_segments,
    prepare,
)
from agentx_replay.endpoint.socket_polls import SocketPolls
from agentx_replay.units import NS_PER_S

READ_BYTES = 65_536
LOOK_BYTES = 65_536
"""A response of which so many bytes wait is parsed, wherever it ends."""

_HANDSHAKE_S = 60.0
_END = b"\r\n\r\n"
"""Of a head, and of a chunked body."""

_TOKEN_END = b"\n\n\r\n"
"""Of a chunk of whole events."""

_SHORT_BYTES = len(_END) + 1
_MUCH = 4
"""A read of over the fourth part of the receive buffer: it may have been full, and the sender held
back."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""``struct linger``: on, for no time."""

Address = tuple[int, tuple[Any, ...]]
"""A family, and an address of it."""

Pieces = bytes | tuple[bytes, ...]
"""Bytes to send one after the other."""


@dataclass(frozen=True, slots=True, eq=False)
class Wire:
    """What the connections of one process share."""

    loop: asyncio.AbstractEventLoop
    timestamps: Timestamps
    parses: ParseQueue
    polls: SocketPolls
    ahead: ComposeAhead
    every_second: EverySecond

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop, timestamps: Timestamps) -> "Wire":
        polls = SocketPolls(loop, gathers=timestamps == "kernel")
        return Wire(
            loop, timestamps, ParseQueue(loop), polls, ComposeAhead(loop), EverySecond(loop)
        )


class SocketOwner(Protocol):
    """Who uses a socket: told that enough has been read, or all may have been; when the kernel took
    the last byte to send; and that the other side closed, in good order if there is no error.
    """

    def look(self) -> None: ...
    def sent(self, at_ns: int) -> None: ...
    def lost(self, error: Exception | None) -> None: ...


class Secure:
    """TLS over bytes that somebody else passes on, in either direction."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    async def shake_hands(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        """Agree with the server. Raises ssl.SSLError or OSError."""
        while True:
            try:
                self._session.do_handshake()
            except ssl.SSLWantReadError:
                await loop.sock_sendall(sock, self._outgoing.read())
                received = await loop.sock_recv(sock, READ_BYTES)
                if not received:
                    raise ConnectionResetError("closed during the TLS handshake") from None
                self._incoming.write(received)
            except ssl.SSLError:
                await loop.sock_sendall(sock, self._outgoing.read())  # the alert that says why
                raise
            else:
                await loop.sock_sendall(sock, self._outgoing.read())
                return

    def encrypted(self, text: bytes) -> bytes:
        self._session.write(text)
        return self._outgoing.read()

    def decrypted(self, received: bytes) -> tuple[bytes, bytes, bool]:
        """Return what bytes say that came, what the protocol itself has to answer, as when keys are
        changed, and whether the other side has said that it is done. Raises ssl.SSLError.
        """
        self._incoming.write(received)
        pieces, done = [], False
        try:
            while piece := self._session.read(READ_BYTES):
                pieces.append(piece)
            done = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            done = True
        return b"".join(pieces), self._outgoing.read(), done


def _unread() -> None:
    """Read nothing: not started yet, or closed."""


class StampedSocket:
    """A connected socket. ``reads`` are what was read and not taken yet, ``stamps`` their times, in
    one buffer: objects of their own would lie scattered in memory.

    A stamp is the kernel's ``timespec`` or, where the process stamps, its ns. ``bounds`` are the
    places among the reads of those before whose stamp any byte may have come; ``silent_reads``
    counts reads that brought nothing but the TLS protocol's own.
    """

    __slots__ = ("_blocked", "_buffer_bytes", "_left_bytes", "_outgoing", "_owner",
                 "_paused", "_reader", "_secure", "_sending", "_sock", "_wire", "bounds", "closed",
                 "look_bytes", "reads", "silent_reads", "stamps")  # fmt: skip

    def __init__(
        self, wire: Wire, sock: socket.socket, buffer_bytes: int, secure: Secure | None
    ) -> None:
        self._wire = wire
        self._sock = sock
        self._buffer_bytes = buffer_bytes
        self._secure = secure
        self._owner: SocketOwner | None = None
        self._outgoing: list[bytes | memoryview] = []
        self._sending = self._blocked = self._paused = False
        self._left_bytes = 0
        self.reads: list[bytes] = []
        self.stamps = bytearray()
        self.bounds: list[int] = []
        self.silent_reads = 0
        self.look_bytes = min(LOOK_BYTES, buffer_bytes // _MUCH)
        self.closed = False
        self._reader: Callable[[], None] = _unread

    def start(self, owner: SocketOwner) -> None:
        self._owner = owner
        kernel = self._wire.timestamps == "kernel"
        plain = kernel and self._secure is None
        self._reader = self._fast_reader() if plain else self._read
        self._wire.polls.add(self._sock.fileno(), self._reader)

    # --- reading --------------------------------------------------------------------------------

    def pause(self) -> None:
        """Read no more: what comes stays in the receive buffer, stamped by the kernel."""
        if not self._paused and not self.closed:
            self._paused = True
            self._wire.polls.remove(self._sock.fileno())

    def resume(self) -> None:
        if self._paused and not self.closed:
            self._paused = False
            self._wire.polls.add(self._sock.fileno(), self._reader)

    def look_after(self, size: int) -> None:
        """Have the owner look when so many bytes more have been read, if not sooner."""
        self._left_bytes = size

    def _fast_reader(self) -> Callable[[], None]:
        """Return the hot path: keep a read and its stamp, and do no more if that is all."""
        keep, stamps = self.reads.append, self.stamps
        receive, token_end = self._sock.recvmsg, _TOKEN_END

        def read() -> None:
            nonlocal stamps
            try:
                data, control, _, _ = receive(READ_BYTES, CONTROL_BYTES)
            except OSError as error:
                self._failed(error)
                return
            if not control:
                self._take(data, None)
                return
            keep(data)
            stamps += control[0][2]
            self._left_bytes = left = self._left_bytes - len(data)
            if left <= 0 or data[-4:] != token_end:
                self._inspect(data)

        return read

    def _read(self) -> None:
        """Read where the process stamps, or what is encrypted."""
        try:
            data, control, _, _ = self._sock.recvmsg(READ_BYTES, CONTROL_BYTES)
        except OSError as error:
            self._failed(error)
            return
        self._take(data, control[0][2] if control else None)

    def _take(self, data: bytes, stamp: bytes | None) -> None:
        """Keep a read of any kind: one without a stamp is stamped now."""
        if not data:
            self._end(None)
        elif self._wire.timestamps == "process":
            self._keep(data, NS.pack(time.monotonic_ns()), bounded=False)
        else:
            bounded = stamp is None
            stamp = self._stamp_now() if stamp is None else stamp
            if len(data) == READ_BYTES:
                data, stamp = self._with_the_rest(data, stamp)
            self._keep(data, stamp, bounded=bounded or len(data) * _MUCH > self._buffer_bytes)

    def _keep(self, data: bytes, stamp: bytes, *, bounded: bool) -> None:
        done = False
        if self._secure is not None:
            try:
                data, reply, done = self._secure.decrypted(data)
            except ssl.SSLError as error:
                self._end(error)
                return
            if reply:
                self._outgoing.append(reply)
                self._write()
        if not data:
            self.silent_reads += 1
        elif not self.closed:
            if bounded:
                self.bounds.append(len(self.reads))
            self.reads.append(data)
            self.stamps += stamp
            self._left_bytes -= len(data)
            self._look_if_due(data)
        if done:
            self._end(None)

    def _inspect(self, data: bytes) -> None:
        """See to a read of the hot path that may be more than a token."""
        if len(data) == READ_BYTES:
            at = -TIMESPEC.size
            data, self.stamps[at:] = self._with_the_rest(data, bytes(self.stamps[at:]))
            self.reads[-1] = data
        if len(data) * _MUCH > self._buffer_bytes:
            self.bounds.append(len(self.reads) - 1)
        self._look_if_due(data)

    def _look_if_due(self, data: bytes) -> None:
        """Let the owner look, if enough has come or the last bytes may be the end: a line that is
        empty, and not the second in a row, as between events that end so.
        """
        short = len(data) < _SHORT_BYTES
        ends = data[-4:] == _END and data[-5:-4] != b"\n"
        if self._owner is not None and (self._left_bytes <= 0 or short or ends):
            self._owner.look()

    def _with_the_rest(self, data: bytes, stamp: bytes) -> tuple[bytes, bytes]:
        """Return a read that filled its buffer with what else has come, and the stamp of all: that
        of a filled read is of a segment that it holds no byte of.
        """
        pieces = [data]
        while len(pieces[-1]) == READ_BYTES and len(pieces) * READ_BYTES < self._buffer_bytes:
            try:
                data, control, _, _ = self._sock.recvmsg(READ_BYTES, CONTROL_BYTES)
            except OSError:
                break  # told again, if it is more than that no byte has come
            if not data:
                break
            pieces.append(data)
            stamp = control[0][2] if control else self._stamp_now()
        return b"".join(pieces), stamp

    def _stamp_now(self) -> bytes:
        """Return what the kernel would say of this instant."""
        wall_ns = time.monotonic_ns() + self._wire.polls.offset_ns
        return TIMESPEC.pack(*divmod(wall_ns, NS_PER_S))

    # --- sending --------------------------------------------------------------------------------

    def send(self, request: Pieces) -> None:
        """Send; the owner is told when the kernel has taken the last byte."""
        pieces = (request,) if isinstance(request, bytes) else request
        if self._secure is not None:
            pieces = (self._secure.encrypted(b"".join(pieces)),)
        self._outgoing += pieces
        self._sending = True
        self._write()

    def stop_sending(self) -> None:
        self._outgoing.clear()
        self._sending = False
        self._unblock()

    def _write(self) -> None:
        try:
            while self._outgoing:
                self._outgoing = _behind(self._outgoing, self._sock.sendmsg(self._outgoing))
        except BlockingIOError:
            if not self._blocked:
                self._blocked = True
                self._wire.loop.add_writer(self._sock, self._write)
        except OSError:
            self.stop_sending()  # reading tells why
        else:
            self._unblock()
            if self._sending:
                self._sending = False
                if self._owner is not None:
                    self._owner.sent(time.monotonic_ns())

    def _unblock(self) -> None:
        if self._blocked and not self.closed:
            self._wire.loop.remove_writer(self._sock)
        self._blocked = False

    # --- the end --------------------------------------------------------------------------------

    @property
    def data_segments(self) -> int | None:
        """How many segments with data have come; None where nobody counts them."""
        return None if self.closed else data_segments(self._sock)

    def option(self, level: int, name: int) -> int:
        return self._sock.getsockopt(level, name)

    def close(self) -> None:
        """Close at once, with a reset: a close in good order would keep its port from being used
        for a minute, and a run that ends hundreds of streams a second would have none left.
        """
        if self.closed:
            return
        self.stop_sending()
        self.closed = True
        self._wire.polls.remove(self._sock.fileno())
        self._reader = _unread  # the other holds this socket, and no collector runs meanwhile
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._sock.close()

    def _failed(self, error: OSError) -> None:
        if not isinstance(error, (BlockingIOError, InterruptedError)):
            self._end(error)

    def _end(self, error: Exception | None) -> None:
        if self._owner is not None and not self.closed:
            self._owner.lost(error)


def _behind(pieces: list[bytes | memoryview], size: int) -> list[bytes | memoryview]:
    """Return what pieces hold behind their first ``size`` bytes."""
    for place, piece in enumerate(pieces):
        if size < len(piece):
            return [memoryview(piece)[size:], *pieces[place + 1 :]]
        size -= len(piece)
    return []


async def connect(
    wire: Wire, address: Address, context: ssl.SSLContext | None, host: str
) -> StampedSocket:
    """Connect, and agree on TLS where there is a ``context``. Raises OSError or ssl.SSLError."""
    family, where = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        buffer_bytes = prepare(sock, wire.timestamps)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await wire.loop.sock_connect(sock, where)
        secure = None
        if context is not None:
            secure = Secure(context, host)
            async with asyncio.timeout(_HANDSHAKE_S):
                await secure.shake_hands(wire.loop, sock)
    except BaseException:
        sock.close()
        raise
    return StampedSocket(wire, sock, buffer_bytes, secure)

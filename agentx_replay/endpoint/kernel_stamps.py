"""The kernel's own time of arrival of what a socket reads, where there is one (Linux).

With SO_TIMESTAMPNS the kernel hands over, with the bytes of each read, when the last segment of
them arrived: one ``timespec`` of CLOCK_REALTIME in a control message (Linux,
Documentation/networking/timestamping). How busy the process is does not move it.
Not for: what such a time does not tell (socket_polls.py, timing.py).
"""

import contextlib
import socket
import struct
import sys
import time
from functools import cache
from typing import Literal

from agentx_replay.units import NS_PER_S

Timestamps = Literal["kernel", "process"]
"""Who says when bytes arrived: the kernel, or the process that reads them."""

CONTROL_BYTES = 32
"""CMSG_SPACE of one ``timespec``."""

TIMESPEC, NS = struct.Struct("qq"), struct.Struct("q")
RECEIVE_BUFFER_BYTES = 2 * 1024 * 1024
"""Asked for: a client that stalls must not close the receive window."""

_SO_TIMESTAMPNS = 35
_DATA_SEGMENTS_AT = 152
"""Where ``tcpi_data_segs_in`` stands in ``struct tcp_info`` (Linux 4.6)."""

_TRY_FOR_S = 1.0
_TRY_EVERY_S = 0.005


def prepare(sock: socket.socket, timestamps: Timestamps) -> int:
    """Set a socket up before it connects: bytes that come before are not stamped. Return the
    receive buffer that was granted, in bytes.
    """
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    if timestamps == "kernel":
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


def granted_buffer_bytes() -> int:
    """Return the receive buffer that every connection gets here."""
    with socket.socket() as sock:
        return prepare(sock, "process")


def data_segments(sock: socket.socket) -> int | None:
    """Return how many segments with data a TCP socket has received; None where nobody counts."""
    if sys.platform != "linux":
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _DATA_SEGMENTS_AT + 4)
    except OSError:
        return None
    if len(info) < _DATA_SEGMENTS_AT + 4:
        return None
    return int.from_bytes(info[_DATA_SEGMENTS_AT:], sys.byteorder)


@cache
def timestamps_here() -> Timestamps:
    """Return who can say when bytes arrive on this machine, from a test over loopback.

    The kernel begins to stamp a moment after it is first asked to, so the test tries for a second.
    """
    if sys.platform != "linux":
        return "process"
    try:
        return "kernel" if _stamped_in_time() else "process"
    except OSError:
        return "process"


def _stamped_in_time() -> bool:
    """Try, and leave the sockets open for the life of the process: the kernel stops stamping when
    the last such socket closes, and begins again late.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        reader.connect(listener.getsockname())
        writer, _ = listener.accept()
    try:
        return _stamps(reader, writer)
    finally:
        reader.detach()
        writer.detach()


def _stamps(reader: socket.socket, writer: socket.socket) -> bool:
    """Whether what one socket sends the other is stamped as it is sent, within a second."""
    reader.settimeout(_TRY_FOR_S)
    until_s = time.monotonic() + _TRY_FOR_S
    while time.monotonic() < until_s:
        before_ns = time.time_ns()
        writer.send(b"x")
        _, control, _, _ = reader.recvmsg(1, CONTROL_BYTES)
        if control and before_ns <= stamp_ns(control[0][2]) <= time.time_ns():
            return True
        time.sleep(_TRY_EVERY_S)
    return False


def stamp_ns(stamp: bytes | bytearray) -> int:
    """Return the CLOCK_REALTIME ns of a control message's ``timespec``."""
    seconds, ns = TIMESPEC.unpack(stamp)
    return int(seconds * NS_PER_S + ns)

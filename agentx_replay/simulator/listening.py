"""Sockets that listen, and the kernel's receive stamps on what they accept."""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterable

_BACKLOG = 4096
_PAUSE_S = 0.1
"""Before accepting again, where no descriptor was left for a connection."""

_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")
ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
"""What ``recvmsg`` needs room for, for one stamp."""

_NS = 1_000_000_000

Ancillary = Iterable[tuple[int, int, bytes]]


class Listener:
    """Accepts connections on every address of a host until it is closed.

    Accepted sockets do not block, send at once (TCP_NODELAY) and ask the kernel to stamp what
    they receive, where it can: they inherit that, so that nothing comes before it is asked for.
    """

    def __init__(self, listeners: list[socket.socket], made: Callable[[socket.socket], None]):
        self.port: int = listeners[0].getsockname()[1]
        self._listeners = listeners
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(_accept(each, made)) for each in listeners]

    async def close(self) -> None:
        """Accept no more; what was accepted stays open."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listener in self._listeners:
            listener.close()


async def listen(host: str, port: int, made: Callable[[socket.socket], None]) -> Listener:
    """Listen (port 0: any free one) and hand each accepted socket to ``made``.

    Raises OSError where the address cannot be had.
    """
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    with contextlib.ExitStack() as opened:
        listeners = []
        for family, address in dict.fromkeys((each[0], each[4]) for each in found):
            listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
            opened.callback(listener.close)
            listener.setblocking(False)
            with contextlib.suppress(OSError):  # this kernel has no such stamps
                listener.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            listeners.append(listener)
        opened.pop_all()
    return Listener(listeners, made)


async def _accept(listener: socket.socket, made: Callable[[socket.socket], None]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            accepted, _ = await loop.sock_accept(listener)
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            await asyncio.sleep(_PAUSE_S)
        else:
            made(accepted)


def received_ns(ancillary: Ancillary) -> int:
    """Return when a read's bytes were received, on the monotonic clock: the kernel's stamp, or now
    where it gave none.
    """
    now_ns = time.monotonic_ns()
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS) and len(data) == _TIMESPEC.size:
            seconds, rest_ns = _TIMESPEC.unpack(data)
            stamped_ns: int = seconds * _NS + rest_ns + now_ns - time.time_ns()
            return min(now_ns, stamped_ns)
    return now_ns

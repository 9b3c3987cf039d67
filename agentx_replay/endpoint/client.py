"""The ``Endpoint`` port over sockets: one kept-alive connection a stream, failures as values.

A connection is not used again when the server has announced, or was seen, to close it about now;
where it will be so when the next request is due, another is made ahead of it (``prepare``).
A request is sent a second time in one case only, and counted: a connection that had been used
before was closed without a byte of response. Not for: bytes on the wire (connection.py).
"""

import asyncio
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from agentx_replay.endpoint.between_polls import Compose
from agentx_replay.endpoint.connect_error import ConnectError, connect_error
from agentx_replay.endpoint.connection import Connection, Ending, Exchange
from agentx_replay.endpoint.kernel_stamps import timestamps_here
from agentx_replay.endpoint.outcome import response_of, short
from agentx_replay.endpoint.requests import Requests
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.stamped_socket import Address, Pieces, Wire, connect
from agentx_replay.replay.ports import Clock, Dispatch, ErrorCategory, Response, Status

_MARGIN_S = 1.0


class _CutWhileConnectingError(Exception):
    """The run was cut while a connection was being made."""


@dataclass(slots=True, eq=False)
class _Made:
    """A connection, when it was made, and whether a request has been sent on it."""

    connection: Connection
    start_ns: int
    connected_ns: int
    used: bool = False


class Client:
    """Sends the requests of one process to one server. Make it inside a running loop.

    Its connections share a ``wire`` of its own, unless it is given that of others.
    """

    def __init__(self, settings: EndpointSettings, wire: Wire | None = None) -> None:
        self._settings = settings
        self._secrets = settings.secrets
        self._now_ns = time.monotonic_ns
        self._loop = asyncio.get_running_loop()
        self._requests = Requests(settings)
        self._tls = settings.tls.context() if settings.url.tls else None
        self.wire = wire or wire_of(settings)
        self._by_conversation: dict[str, asyncio.Task[_Made]] = {}
        self._connecting: set[asyncio.Task[_Made]] = set()
        self._open: set[Connection] = set()
        self._addresses: asyncio.Task[list[Address]] | None = None
        self._measured_keep_alive_s: float | None = None
        self._cuts = 0

    @property
    def connections(self) -> int:
        return len(self._open)

    # --- the port -----------------------------------------------------------------------------

    async def send(self, dispatch: Dispatch) -> Response:
        request = self._requests.request(dispatch)
        self.wire.ahead.sent(dispatch.conversation_id)
        return await self.request(dispatch.conversation_id, request)

    def prepare(
        self,
        lane: int,  # noqa: ARG002 (the port's)
        conversation_id: str,
        due_ns: int,
        compose: Compose | None = None,
    ) -> None:
        """Connect now if the stream will have no usable connection at ``due_ns``; have its prompt
        composed by then.

        The connection that has grown too old is closed first: a stream has one at most. A failure
        is left for ``send`` to meet, and to tell.
        """
        if compose is not None:
            self.wire.ahead.add(due_ns, conversation_id, compose)
        task = self._by_conversation.get(conversation_id)
        if task is not None and self._is_too_old(task, due_ns):
            self._disconnect(conversation_id)
        if conversation_id not in self._by_conversation:
            self._begin_connecting(conversation_id)

    def _is_too_old(self, task: "asyncio.Task[_Made]", at_ns: int) -> bool:
        """Whether a connection that was made will not be usable any more at an instant."""
        made = task.done() and not task.cancelled() and not task.exception()
        return made and not self._usable(task.result(), at_ns)

    def cut(self) -> None:
        """End every response in flight now, and every attempt to connect."""
        self._cuts += 1
        self._by_conversation.clear()
        for task in self._connecting:
            task.cancel()
        for connection in tuple(self._open):
            connection.stop(Ending.CUT)

    def conversation_ended(self, conversation_id: str) -> None:
        self.wire.ahead.sent(conversation_id)
        self._disconnect(conversation_id)

    def _disconnect(self, conversation_id: str) -> None:
        task = self._by_conversation.pop(conversation_id, None)
        if task is not None:
            _discard(task)

    async def close(self) -> None:
        """Cut what is in flight, close every connection and wait until they are closed."""
        self.cut()
        if self._addresses is not None:
            self._addresses.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        if self._open:
            await asyncio.wait([connection.closed for connection in self._open])

    # --- one request --------------------------------------------------------------------------

    async def request(self, conversation_id: str, request: Pieces) -> Response:
        asked_ns = self._now_ns()
        try:
            return response_of(await self.exchange(conversation_id, request), self._secrets)
        except ConnectError as error:
            text = short(error.text, self._secrets)
            return self._unconnected(asked_ns, Status.FAILED, error.category, text)
        except _CutWhileConnectingError:
            return self._unconnected(asked_ns, Status.CUT, None, None)

    def _unconnected(
        self, asked_ns: int, status: Status, category: ErrorCategory | None, text: str | None
    ) -> Response:
        return Response(
            status=status,
            send_ns=asked_ns,
            end_ns=self._now_ns(),
            connect_start_ns=asked_ns,
            error_category=category,
            error_text=text,
        )

    async def exchange(
        self, conversation_id: str, request: Pieces, *, streamed: bool = True
    ) -> Exchange:
        """Send the bytes and wait for the end; raises ConnectError. See the module on retries.

        An exchange that was sent twice counts from the first sending: the server may have held the
        connection for long before it closed it.
        """
        cuts = self._cuts
        made = await self._made(conversation_id)
        first: Exchange | None = None
        if made.used:
            first = await self._pass(made.connection, request, streamed)
            if not first.unanswered:
                return first
            made = await self._made(conversation_id)
        if cuts != self._cuts:
            raise _CutWhileConnectingError
        made.used = True
        exchange = await self._pass(made.connection, request, streamed)
        exchange.connect_start_ns, exchange.connected_ns = made.start_ns, made.connected_ns
        if first is not None:
            exchange.send_ns, exchange.retries = first.send_ns, 1
        return exchange

    async def _pass(self, connection: Connection, request: Pieces, streamed: bool) -> Exchange:
        """Pass one request over a connection; a caller that gives up closes it."""
        exchange = connection.exchange(request, streamed=streamed)
        timer, limit_s = None, self._settings.timeout_s
        if limit_s is not None:
            timer = self._loop.call_later(limit_s, connection.stop, Ending.TIMEOUT)
        try:
            await exchange.done
        finally:
            if timer is not None:
                timer.cancel()
            if exchange.ending is None:
                connection.give_up()
        return exchange

    # --- connections --------------------------------------------------------------------------

    def _usable(self, made: _Made, at_ns: int) -> bool:
        """Whether a request may be sent on a connection at an instant, as far as is known now."""
        told = (
            made.connection.keep_alive_s,
            self._measured_keep_alive_s,
            self._settings.keepalive_s,
        )
        known = [limit_s for limit_s in told if limit_s is not None]
        limit_s = reuse_limit_s(min(known)) if known and made.used else None
        return made.connection.usable(at_ns, limit_s)

    async def _made(self, conversation_id: str) -> _Made:
        """Return the stream's connection: kept, made ahead if that went well, or made now."""
        task = self._by_conversation.get(conversation_id)
        if task is not None:
            with suppress(ConnectError):
                made = await self._finished(task)  # its timer may have come sooner than it said
                if self._usable(made, self._now_ns()):
                    return made
            self._disconnect(conversation_id)
        return await self._finished(self._begin_connecting(conversation_id))

    def _begin_connecting(self, conversation_id: str) -> "asyncio.Task[_Made]":
        """Begin to make a stream's connection; the task is cancelled when the run is cut."""
        task = self._loop.create_task(self._connect_any())
        self._by_conversation[conversation_id] = task
        self._connecting.add(task)
        task.add_done_callback(self._connected)
        return task

    def _connected(self, task: "asyncio.Task[_Made]") -> None:
        self._connecting.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not log it where nobody else asks

    async def _finished(self, task: "asyncio.Task[_Made]") -> _Made:
        """Return the connection when it is made; a caller that gives up ends the attempt."""
        try:
            if not task.done():  # a turn of the loop less, for all that are due together
                await asyncio.wait((task,))
        except asyncio.CancelledError:
            _discard(task)
            raise
        if task.cancelled():
            raise _CutWhileConnectingError
        return task.result()

    async def _connect_any(self) -> _Made:
        """Connect to the first address that answers, and prefer it from then on."""
        start_ns = self._now_ns()
        addresses = await self._resolved()
        failure: Exception | None = None
        for address in tuple(addresses):
            try:
                sock = await connect(self.wire, address, self._tls, self._settings.url.host)
                connection = Connection(self.wire, sock, keeps_answers=self._settings.keeps_answers)
            except OSError as error:  # of which ssl.SSLError is one
                failure = error
                continue
            addresses.remove(address)
            addresses.insert(0, address)
            made = _Made(connection, start_ns, self._now_ns())
            self._open.add(connection)
            connection.closed.add_done_callback(partial(self._forget, made))
            return made
        raise connect_error(self._settings.url, failure, len(self._open))

    async def _resolved(self) -> list[Address]:
        """Return the server's addresses, asked of the resolver once."""
        if self._addresses is None:
            self._addresses = self._loop.create_task(self._resolve())
        return await asyncio.shield(self._addresses)

    async def _resolve(self) -> list[Address]:
        url = self._settings.url
        try:
            found = await self._loop.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
        except OSError as error:
            self._addresses = None  # ask again: a resolver may recover
            raise connect_error(url, error, len(self._open)) from error
        return [(int(family), address) for family, _, _, _, address in found]

    def _forget(self, made: _Made, _: object) -> None:
        """Drop a closed connection; one closed while idle tells how long the server keeps them."""
        self._open.discard(made.connection)
        idle_s, known_s = made.connection.closed_after_idle_s, self._measured_keep_alive_s
        if idle_s is not None and made.used:
            self._measured_keep_alive_s = idle_s if known_s is None else min(known_s, idle_s)


def _discard(task: "asyncio.Task[_Made]") -> None:
    """End an attempt to connect, or close what it has made."""
    if not task.cancel() and not task.cancelled() and task.exception() is None:
        task.result().connection.abort()


def wire_of(settings: EndpointSettings) -> Wire:
    """Return what the connections of a process share, in the running loop."""
    return Wire.of(asyncio.get_running_loop(), settings.timestamps or timestamps_here())


def open_client(settings: EndpointSettings, _: Clock) -> Client:
    """Return a client in the running loop; its stamps are the monotonic clock's, as a run's are."""
    return Client(settings)


def reuse_limit_s(keep_alive_s: float) -> float:
    """Return how long a connection may idle before use, when the server closes it at the given age.

    One second less, for the way there and back and a server's coarse timers; half of it where
    that is all there is.
    """
    return max(keep_alive_s - _MARGIN_S, keep_alive_s / 2)

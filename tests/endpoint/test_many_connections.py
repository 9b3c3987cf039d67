"""What many connections cost the machine: files, ports, name look-ups, packets held back."""

import asyncio
import gc
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvloop
from record_cases import dispatch
from scripted_server import HEAD, LAST_CHUNK, WHOLE, Answer, chunk, scripted, token, usage

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.stamped_socket import StampedSocket, Wire, connect
from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.experiment.open_files import raise_open_files
from agentx_replay.experiment.part import quiet_collector
from agentx_replay.replay.ports import Status

STREAMS = 1_500
KERNELS_CONNECTIONS = Path("/proc/net/tcp")


def client_at(port: int, host: str = "127.0.0.1") -> Client:
    return Client(EndpointSettings(BaseUrl("http", host, port, "/v1"), "m"))


@contextmanager
def open_files(soft: int) -> Iterator[None]:
    """Limit this process to so many open files, to be raised by whoever may."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2 * STREAMS + 100,
    reason="this machine allows too few open files",
)
def test_thousands_of_streams_have_a_connection_each_whatever_the_limit_was_at_the_start() -> None:
    one: Answer = [HEAD, chunk(token("a", "length") + usage(5, 1)), LAST_CHUNK]

    async def test() -> None:
        async with scripted([one]) as server:
            client = client_at(server.port)
            sent = [
                client.send(dispatch(conversation_id=str(stream), max_tokens=1))
                for stream in range(STREAMS)
            ]
            responses = await asyncio.gather(*sent)
            assert {(each.status, each.retries) for each in responses} == {(Status.OK, 0)}
            assert server.connections == client.connections == STREAMS
            await client.close()
            assert client.connections == 0

    with open_files(256):
        assert raise_open_files() >= 2 * STREAMS
        uvloop.run(test())


def states_of_connections_to(port: int) -> list[str]:
    """The kernel's states (hexadecimal) of the client's ends of all connections to a port."""
    lines = [line.split() for line in KERNELS_CONNECTIONS.read_text().splitlines()[1:]]
    return [line[3] for line in lines if line[2].endswith(f":{port:04X}")]


@pytest.mark.skipif(not KERNELS_CONNECTIONS.exists(), reason="this kernel does not tell")
def test_a_stream_that_ends_keeps_no_port() -> None:
    """Closed in good order each would wait for a minute, and 28,000 are all there are."""

    async def test() -> None:
        async with scripted([WHOLE]) as server:
            client = client_at(server.port)
            for stream in ("a", "b", "c"):
                assert (await client.send(dispatch(conversation_id=stream))).status is Status.OK
                client.conversation_ended(stream)
            await client.send(dispatch(conversation_id="open"))
            while client.connections > 1:
                await asyncio.sleep(0)
            established = "01"
            assert states_of_connections_to(server.port) == [established]
            await client.close()
            assert states_of_connections_to(server.port) == []

    uvloop.run(test())


class CountingLoop(asyncio.SelectorEventLoop):
    """A loop that notes which names it is asked to resolve."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def getaddrinfo(self, host, port, **more):  # type: ignore[no-untyped-def]
        self.asked.append(host)
        return await super().getaddrinfo(host, port, **more)


def test_a_name_is_resolved_once_however_many_connections_are_made() -> None:
    async def test() -> None:
        async with scripted([WHOLE]) as server:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, CountingLoop)
            loop.asked.clear()
            client = client_at(server.port, "localhost")
            await asyncio.gather(*(client.send(dispatch(conversation_id=name)) for name in "abc"))
            client.conversation_ended("a")
            response = await client.send(dispatch(conversation_id="a"))
            assert response.status is Status.OK
            assert server.connections == 4
            assert loop.asked == ["localhost"]
            await client.close()

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(test())


def test_a_closed_connection_is_freed_without_a_collector() -> None:
    class Nobody:
        def look(self) -> None: ...
        def sent(self, at_ns: int) -> None: ...
        def lost(self, error: Exception | None) -> None: ...

    async def test() -> None:
        async with scripted([WHOLE]) as server:
            wire = Wire.of(asyncio.get_running_loop(), "kernel")
            address = socket.AF_INET, ("127.0.0.1", server.port)
            gc.collect()
            with quiet_collector():
                connected = await connect(wire, address, None, "127.0.0.1")
                connected.start(Nobody())
                connected.close()
                del connected
                assert not any(isinstance(each, StampedSocket) for each in gc.get_objects())

    asyncio.run(test())


@pytest.mark.parametrize("loops", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_no_packet_is_held_back_for_another(loops: type[asyncio.AbstractEventLoop]) -> None:
    async def test() -> None:
        async with scripted([WHOLE]) as server:
            loop = asyncio.get_running_loop()
            wire = Wire.of(loop, "process")
            address = socket.AF_INET, ("127.0.0.1", server.port)
            connected = await connect(wire, address, None, "127.0.0.1")
            assert connected.option(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
            connected.close()

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(test())

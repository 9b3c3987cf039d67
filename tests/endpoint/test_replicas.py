"""Several servers as one endpoint, on real sockets: a lane keeps to its own."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from record_cases import dispatch
from scripted_server import HEAD, WHOLE, Answer, Move, ScriptedServer, scripted

from agentx_replay.endpoint.replicas import Replicas, open_replicas, replica_of
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.replay.clock import LoopClock
from agentx_replay.replay.ports import ErrorCategory, Status

Servers = tuple[ScriptedServer, ScriptedServer]
HANGING: Answer = [HEAD, Move.HANG]


def at(port: int) -> EndpointSettings:
    return EndpointSettings(BaseUrl("http", "127.0.0.1", port, "/v1"), "m")


@asynccontextmanager
async def two_servers(steps: Answer) -> AsyncIterator[tuple[Servers, Replicas]]:
    async with scripted([steps] * 9) as one, scripted([steps] * 9) as two:
        clock = LoopClock(asyncio.get_running_loop())
        replicas = open_replicas((at(one.port), at(two.port)), clock)
        try:
            yield (one, two), replicas
        finally:
            await replicas.close()


@pytest.mark.parametrize(
    ("lanes", "replicas", "places"),
    [
        (5, 2, [0, 1, 0, 1, 0]),
        (7, 3, [0, 1, 2, 0, 1, 2, 0]),
        (3, 1, [0, 0, 0]),
        (2, 4, [0, 1]),
    ],
)
def test_servers_take_turns_by_lane(lanes: int, replicas: int, places: list[int]) -> None:
    assert [replica_of(lane, replicas) for lane in range(lanes)] == places


async def test_all_plays_of_a_lane_are_sent_to_its_server_and_the_response_says_so() -> None:
    async with two_servers(WHOLE) as ((one, two), replicas):
        sent = [
            dispatch(
                lane=lane,
                play_number=play_number,
                conversation_id=f"l{lane}-p{play_number}-s{stream}",
            )
            for lane in range(3)
            for play_number in range(2)
            for stream in range(2)
        ]
        responses = await asyncio.gather(*(replicas.send(each) for each in sent))
        assert [each.status for each in responses] == [Status.OK] * 12
        assert [each.replica for each in responses] == [0] * 4 + [1] * 4 + [0] * 4
        assert (len(one.requests), len(two.requests)) == (8, 4)


async def test_a_request_names_the_host_it_is_sent_to() -> None:
    async with two_servers(WHOLE) as ((_, two), replicas):
        await replicas.send(dispatch(lane=1))
        assert f"Host: 127.0.0.1:{two.port}\r\n".encode() in two.requests[0]


async def test_a_connection_is_made_ahead_at_the_lanes_server_and_closed_at_the_end() -> None:
    async with two_servers(WHOLE) as ((one, two), replicas):
        replicas.prepare(1, "s", time.monotonic_ns() + 100_000_000)
        while not two.connections:
            await asyncio.sleep(0)
        response = await replicas.send(dispatch(lane=1, conversation_id="s"))
        assert (response.status, two.connections, one.connections) == (Status.OK, 1, 0)
        replicas.conversation_ended("s")
        await two.closed.wait()


async def test_a_cut_ends_what_is_in_flight_at_every_server() -> None:
    async with two_servers(HANGING) as ((one, two), replicas):
        sending = [
            asyncio.ensure_future(replicas.send(dispatch(lane=lane, conversation_id=f"{lane}")))
            for lane in (0, 1)
        ]
        while not (one.requests and two.requests):
            await asyncio.sleep(0)
        replicas.cut()
        responses = await asyncio.gather(*sending)
        assert [each.status for each in responses] == [Status.CUT, Status.CUT]
        assert [each.replica for each in responses] == [0, 1]


async def test_a_server_that_is_gone_fails_its_own_lanes_alone() -> None:
    async with scripted([WHOLE]) as gone:
        port = gone.port
    async with scripted([WHOLE]) as one:
        clock = LoopClock(asyncio.get_running_loop())
        replicas = open_replicas((at(one.port), at(port)), clock)
        fine = await replicas.send(dispatch(lane=0, conversation_id="a"))
        lost = await replicas.send(dispatch(lane=1, conversation_id="b"))
        assert (fine.status, lost.error_category) == (Status.OK, ErrorCategory.CONNECT)
        await replicas.close()

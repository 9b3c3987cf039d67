"""With the oldest generation of the garbage collector off, memory is bounded all the same."""

import asyncio
import gc

import uvloop

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.requests import Requests
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.experiment.part import quiet_collector
from agentx_replay.replay.ports import Status
from agentx_replay.simulator.truth_server import launch_truth_server

AT_ONCE = {"first_token_at_ns": 0, "every_ns": 1}
STREAMS = 20


def objects_kept() -> int:
    """Objects that are left when the young generations, which run in a replay too, have run."""
    gc.collect(1)
    return len(gc.get_objects())


def test_objects_do_not_pile_up_over_thousands_of_responses() -> None:
    server = launch_truth_server()
    settings = EndpointSettings(parse_base_url(server.url), "truth")
    build = Requests(settings, AT_ONCE).build

    async def respond(client: Client, rounds: int) -> None:
        for _ in range(rounds):
            asked = [
                client.request(str(stream), build({"X-Request-ID": str(stream)}, 20, b"[]"))
                for stream in range(STREAMS)
            ]
            for response in await asyncio.gather(*asked):
                assert response.status is Status.OK
                assert response.completion_tokens == 20

    async def objects_after(rounds: int, more: int) -> tuple[int, int]:
        client = Client(settings)
        with quiet_collector():
            await respond(client, rounds)
            before = objects_kept()
            await respond(client, more)
            after = objects_kept()
        await client.close()
        return before, after

    try:
        before, after = uvloop.run(objects_after(10, 50))
    finally:
        server.close()
    # 1,000 responses later: fewer new objects than one for ten of them.
    assert after - before < 100, (before, after)


def test_only_the_oldest_generation_is_off_and_only_for_as_long() -> None:
    usual = gc.get_threshold()
    frozen = gc.get_freeze_count()
    with quiet_collector():
        young, middle, oldest = gc.get_threshold()
        assert (young, middle) == usual[:2]
        assert oldest > 100_000_000
        assert gc.get_freeze_count() > frozen
    assert gc.get_threshold() == usual
    assert gc.get_freeze_count() == 0

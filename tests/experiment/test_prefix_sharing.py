"""Prefix sharing on sockets: what a server's cache holds is what the recording says, to the block.

The server here is the simulator, calibrated against as any other.
"""

from functools import cache

import pytest
import uvloop
from calibrated_plays import predicted_blocks, sent, small_sessions

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.requests import Requests
from agentx_replay.endpoint.settings import Api, EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.experiment.calibrating import calibrate
from agentx_replay.prompts.calibration import Calibration, assumed
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.server import ServerConfig, running_server
from agentx_replay.traces.model import Session

Counted = list[tuple[int | None, int | None]]


@cache
def calibration_of(block_tokens: int, api: Api) -> Calibration:
    """What is found of such a server, whatever its cache holds."""

    async def run() -> Calibration:
        async with running_server(_config(block_tokens)) as server:
            found = await calibrate(_settings(server.url, api), context_tokens=8_192)
            assert found.exact
            return found

    return uvloop.run(run())


def _config(block_tokens: int) -> ServerConfig:
    return ServerConfig(engine=EngineModel(step_base_ms=0.5, block_tokens=block_tokens))


def _settings(url: str, api: Api) -> EndpointSettings:
    return EndpointSettings(parse_base_url(url), "simulated", api=api)


def played(session: Session, block_tokens: int, api: Api, calibration: Calibration) -> Counted:
    """Prompt and cached tokens as the server counts them, of every request of a play."""

    async def run() -> Counted:
        async with running_server(_config(block_tokens)) as server:
            return await counted(_settings(server.url, api), session, calibration)

    return uvloop.run(run())


async def counted(
    settings: EndpointSettings, session: Session, calibration: Calibration
) -> Counted:
    client = Client(settings)
    requests = Requests(settings)
    try:
        responses = [
            await client.request("s", requests.build({}, 1, prompt))
            for _, prompt in sent(session, calibration)
        ]
    finally:
        await client.close()
    return [(response.prompt_tokens, response.cached_tokens) for response in responses]


def recorded(session: Session, block_tokens: int) -> Counted:
    """What the recorded graph predicts with an unlimited cache of such blocks.

    At least the last token of a prompt is computed, so a prompt is never cached whole.
    """
    in_order = sorted(session.requests(), key=lambda request: request.recorded_order)
    return [
        (
            request.input_tokens,
            min(predicted_blocks(request, block_tokens), (request.input_tokens - 1) // block_tokens)
            * block_tokens,
        )
        for request in in_order
    ]


@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize("block_tokens", [64, 16])
@pytest.mark.parametrize("calibrated", [True, False], ids=["calibrated", "assumed"])
def test_every_request_of_a_play_is_cached_as_recorded(
    block_tokens: int, calibrated: bool, api: Api
) -> None:
    known = calibration_of(block_tokens, api) if calibrated else assumed("simulated", api)
    for session in small_sessions():
        assert played(session, block_tokens, api, known) == recorded(session, block_tokens)


def test_there_are_plays_with_much_to_share() -> None:
    assert len(small_sessions()) == 6
    cached = [known or 0 for session in small_sessions() for _, known in recorded(session, 64)]
    assert sum(cached) > 100_000

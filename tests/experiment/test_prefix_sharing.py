"""Prefix sharing on sockets: what a server's cache holds is what the recording says, to the block.

The server here is the simulator, calibrated against as any other.
"""

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

SESSIONS = small_sessions()
Counted = list[tuple[int | None, int | None]]


def played(session: Session, block_tokens: int, api: Api, *, calibrated: bool) -> Counted:
    """Prompt and cached tokens as the server counts them, of every request of a play."""

    async def run() -> Counted:
        engine = EngineModel(step_base_ms=0.5, block_tokens=block_tokens)
        async with running_server(ServerConfig(engine=engine)) as server:
            settings = EndpointSettings(parse_base_url(server.url), "simulated", api=api)
            found = assumed("simulated", api)
            if calibrated:
                found = await calibrate(settings, context_tokens=8_192)
                assert found.exact
            return await counted(settings, session, found)

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
    for session in SESSIONS:
        assert played(session, block_tokens, api, calibrated=calibrated) == recorded(
            session, block_tokens
        )


def test_there_are_plays_with_much_to_share() -> None:
    assert len(SESSIONS) == 6
    cached = [known or 0 for session in SESSIONS for _, known in recorded(session, 64)]
    assert sum(cached) > 100_000

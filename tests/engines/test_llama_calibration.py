"""Calibrating against llama.cpp: its template and tokenizer asked, its usage agreeing."""

import time

import pytest
import uvloop
from calibrated_plays import predicted_blocks, sent, small_sessions
from llama_cpp_server import LlamaServer

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.counting import Enough
from agentx_replay.endpoint.requests import Requests
from agentx_replay.endpoint.settings import Api, EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.experiment.calibrating import calibrate
from agentx_replay.prompts.calibration import Calibration

pytestmark = pytest.mark.engine


def settings_of(server: LlamaServer, api: Api) -> EndpointSettings:
    return EndpointSettings(
        parse_base_url(server.url), "tiny", max_tokens_field="max_tokens", api=api
    )


def calibrated(server: LlamaServer, api: Api, *, tool_messages: bool = False) -> Calibration:
    settings, context = settings_of(server, api), server.context_tokens
    return uvloop.run(calibrate(settings, context_tokens=context, tool_messages=tool_messages))


def test_lengths_are_exact_in_three_seconds_of_our_own(llama_server: LlamaServer) -> None:
    """CPU time of this process: how busy the machine is, is not ours to bound."""
    begun_s = time.process_time()
    found = calibrated(llama_server, "chat")
    assert time.process_time() - begun_s < 3.0
    assert found.exact
    assert found.verification.probes >= 8
    assert found.counted_by == "/apply-template and /tokenize"
    assert (len(found.words), found.warnings) == (1_234, ())


def test_what_is_left_of_ninety_requests_proves_every_length(llama_server: LlamaServer) -> None:
    """A count takes two requests here, and all of them are given the time: 31 fit behind the
    search, where servers that count in one request prove 40."""
    settings, context = settings_of(llama_server, "chat"), llama_server.context_tokens
    patient = Enough(within_s=60.0, at_least=8)
    found = uvloop.run(calibrate(settings, context_tokens=context, proof=patient)).verification
    assert (found.exact, found.probes, found.largest_error_tokens) == (31, 31, 0)


def test_tool_messages_are_exact(llama_server: LlamaServer) -> None:
    found = calibrated(llama_server, "chat", tool_messages=True)
    assert (found.exact, found.counted_by) == (True, "/apply-template and /tokenize")
    assert found.verification.probes >= 8
    assert found.cost.call + found.cost.result > found.cost.user + found.cost.assistant


def test_completions_go_by_token_ids(llama_server: LlamaServer) -> None:
    found = calibrated(llama_server, "completions")
    assert found.exact
    assert len(found.ids) == 1_235


@pytest.mark.parametrize(
    ("api", "tool_messages"), [("chat", False), ("completions", False), ("chat", True)]
)
def test_every_request_of_a_play_is_as_long_and_as_cached_as_recorded(
    llama_server: LlamaServer, api: Api, tool_messages: bool
) -> None:
    settings = settings_of(llama_server, api)
    found = calibrated(llama_server, api, tool_messages=tool_messages)
    session = small_sessions()[int(tool_messages)]  # one that the server has not seen
    requests = Requests(settings)

    async def play() -> None:
        client = Client(settings)
        try:
            for request, prompt in sent(session, found):
                told = await client.request("s", requests.build({}, 1, prompt))
                assert told.prompt_tokens == request.input_tokens
                # Its cache is by the token; whole blocks of it are what is compared.
                blocks = min(predicted_blocks(request, 64), (request.input_tokens - 1) // 64)
                assert told.cached_tokens is not None
                assert told.cached_tokens // 64 == blocks
        finally:
            await client.close()

    uvloop.run(play())

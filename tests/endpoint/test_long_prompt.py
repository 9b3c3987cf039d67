"""Whether a server cuts a long prompt, asked with one request."""

import asyncio

import pytest
import uvloop
from counting_server import OVERFLOWN, Reply, Replying, completion, counting_server, words_in

from agentx_replay.endpoint.long_prompt import prompt_cut
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import parse_base_url


def at_most(tokens: int) -> Replying:
    return lambda _, body: completion(body, min(words_in(body), tokens))


def uncounted(_: str, body: dict[str, object]) -> Reply:
    return completion(body, None)


@pytest.mark.parametrize(
    ("reply", "context_tokens", "cut_to"),
    [
        (at_most(4_096), None, "4,096"),  # of 20,000 words less 64
        (at_most(1_000_000), None, None),
        (at_most(1_000_000), 8_192, None),  # so many words would be over the limit it tells
        (at_most(4_096), 8_192, None),  # more than half of 8,128 words
        (lambda *_: OVERFLOWN, None, None),
        (uncounted, None, None),
    ],
)
def test_a_long_prompt(reply: Replying, context_tokens: int | None, cut_to: str | None) -> None:
    async def asked() -> tuple[str | None, int]:
        async with counting_server(reply) as server:
            settings = EndpointSettings(parse_base_url(server.url), "tiny")
            found = await prompt_cut(settings, context_tokens)
            ((_, body),) = server.asked
            return found.text if found else None, words_in(body)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        said, words = runner.run(asked())
    assert words == (8_128 if context_tokens else 19_936)
    assert (said is None) == (cut_to is None)
    assert cut_to is None or cut_to in str(said)

"""Prompts under real tokenizers and chat templates: calibrated on sockets, exact in a whole play.

The tokenizers are fetched by ``.ci/fetch-tokenizers``; without them the tests are skipped, unless
AGENTX_REQUIRE_TOKENIZERS is set.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import chat_templates
import numpy as np
import pytest
import uvloop
from calibrated_plays import UnlimitedCache, predicted_blocks, sent, small_sessions
from chat_renderer import ChatRenderer
from numpy.typing import NDArray

from agentx_replay.endpoint.counting import Enough
from agentx_replay.endpoint.settings import Api, EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.errors import UsageError
from agentx_replay.experiment.calibrating import Candidates, calibrate, file_candidates
from agentx_replay.prompts.calibration import Calibration
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.server import ServerConfig, running_server
from agentx_replay.traces.model import RecordedRequest, Session

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "tokenizers"
# Forty probes, however long the renderer takes.
ALL_PROBES = Enough(within_s=0.0, at_least=40)
ENGINE = EngineModel(step_base_ms=1, max_model_len=32_768)

OWN = None
"""The template that comes with the tokenizer."""

CASES: Sequence[tuple[str, str | None, str]] = [
    ("deepseek_v3", OWN, "deepseek"),
    ("gemma3", OWN, "gemma, which trims and merges the system message into the user's"),
    ("llama3_1", OWN, "llama, which trims"),
    ("qwen3", OWN, "qwen3, which drops earlier reasoning"),
    ("gptoss", chat_templates.HARMONY, "harmony"),
    ("qwen3", chat_templates.CHATML, "chatml"),
    ("qwen3", chat_templates.DEFAULT_SYSTEM, "default system prompt"),
    ("qwen3", chat_templates.DROPS_REASONING, "reasoning dropped, text trimmed"),
    ("qwen3", chat_templates.IGNORES_SYSTEM, "system ignored"),
    ("llama3_1", chat_templates.MISTRAL, "mistral, strict, marks in plain text"),
    ("gemma3", chat_templates.MISTRAL, "mistral over sentencepiece"),
]
EVERY_TEMPLATE = pytest.mark.parametrize(
    ("name", "template"), [case[:2] for case in CASES], ids=[case[2] for case in CASES]
)


@cache
def renderer(name: str, template: str | None, *, calls_as_sent: bool = False) -> ChatRenderer:
    if not (CACHE / name / "tokenizer.json").exists():
        assert "AGENTX_REQUIRE_TOKENIZERS" not in os.environ, "run .ci/fetch-tokenizers"
        pytest.skip("needs the tokenizers that .ci/fetch-tokenizers fetches")
    return ChatRenderer(CACHE / name, template, calls_as_sent=calls_as_sent)


def calibrated(
    name: str, template: str | None, api: Api = "chat", candidates: Candidates | None = None
) -> Calibration:
    return calibrated_by(renderer(name, template), api, candidates)


@cache
def calibrated_by(
    rendering: ChatRenderer,
    api: Api = "chat",
    candidates: Candidates | None = None,
    *,
    tool_messages: bool = False,
) -> Calibration:
    async def run() -> Calibration:
        async with running_server(ServerConfig(engine=ENGINE), renderer=rendering) as server:
            settings = EndpointSettings(parse_base_url(server.url), "simulated", api=api)
            return await calibrate(
                settings,
                context_tokens=32_768,
                candidates=candidates,
                proof=ALL_PROBES,
                tool_messages=tool_messages,
            )

    return uvloop.run(run())


@EVERY_TEMPLATE
def test_prompt_lengths_are_exact_on_forty_probes(name: str, template: str | None) -> None:
    found = calibrated(name, template)
    assert found.exact
    assert found.verification.probes == 40
    assert found.verification.most_messages >= 59
    assert found.warnings == ()
    assert len(found.words) == 1_234


Play = list[tuple[RecordedRequest, NDArray[np.uint64]]]


@cache
def plays(name: str, template: str | None) -> list[Play]:
    """Every prompt of a play of each small session, in the server's tokens."""
    found = calibrated(name, template)
    return [
        [
            (request, renderer(name, template).chat(json.loads(messages), []))
            for request, messages in sent(session, found)
        ]
        for session in small_sessions()
    ]


@EVERY_TEMPLATE
def test_every_prompt_of_a_play_has_the_recorded_length(name: str, template: str | None) -> None:
    prompts = [prompt for play in plays(name, template) for prompt in play]
    assert len(prompts) == 126
    assert all(len(tokens) == request.input_tokens for request, tokens in prompts)


@pytest.mark.parametrize("block_tokens", [64, 16])
@EVERY_TEMPLATE
def test_every_prompt_of_a_play_finds_the_recorded_blocks_in_a_cache(
    name: str, template: str | None, block_tokens: int
) -> None:
    # What harmony puts before a message is 16 tokens and more than is known for sure, so that a
    # small block more can be alike.
    more = {0, 1} if (template, block_tokens) == (chat_templates.HARMONY, 16) else {0}
    for play in plays(name, template):
        held = UnlimitedCache(block_tokens)
        prompt_ends: set[int] = set()
        for request, tokens in play:
            expected = predicted_blocks(request, block_tokens)
            if template is chat_templates.DROPS_REASONING:
                # Its prompts end in <think> and a newline, which it drops from the answer later:
                # a block that ends in these two tokens can be in no later prompt.
                end = block_tokens * expected
                expected -= not prompt_ends.isdisjoint({end, end + 1})
            assert held.blocks_hit(tokens) - expected in more
            prompt_ends.add(request.input_tokens)


# What each template says before the first word that differs, in tokens counted by hand, the opening
# word included: <|im_start|> user \n able are four.
HEAD_TOKENS = (3, 5, 6, 4, 19, 4, 17, 4, 4, 5, 5)


@pytest.mark.parametrize(
    ("name", "template", "head_tokens"),
    [(*case[:2], tokens) for case, tokens in zip(CASES, HEAD_TOKENS, strict=True)],
    ids=[case[2] for case in CASES],
)
def test_two_plays_without_a_system_prompt_share_the_head_of_the_template_alone(
    name: str, template: str | None, head_tokens: int
) -> None:
    # No block of 64; one of 16 where the head has as many, whatever anybody sends.
    for session in small_sessions():
        bare = replace(session, tool_tokens=0, system_tokens=0)
        assert common_tokens(*first_prompts(bare, name, template)) == head_tokens


@pytest.mark.parametrize("block_tokens", [64, 16])
@EVERY_TEMPLATE
def test_two_plays_of_a_session_share_its_system_prompt_and_no_block_more(
    name: str, template: str | None, block_tokens: int
) -> None:
    for session in small_sessions():
        assert session.tool_tokens + session.system_tokens == 500  # declared as 8 blocks of 64
        common = common_tokens(*first_prompts(session, name, template))
        assert common // block_tokens == 512 // block_tokens


def first_prompts(
    session: Session, name: str, template: str | None
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The first prompt of two plays of a session, in the server's tokens."""
    found = calibrated(name, template)
    one, other = (
        renderer(name, template).chat(json.loads(messages), [])
        for _, messages in (
            next(sent(session, found, play_number=play_number)) for play_number in (0, 1)
        )
    )
    return one, other


def common_tokens(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> int:
    """How many leading tokens two prompts have in common; they must differ."""
    length = min(len(one), len(other))
    return int(np.flatnonzero(one[:length] != other[:length])[0])


@pytest.mark.parametrize("name", ["deepseek_v3", "gemma3", "gptoss", "llama3_1", "qwen3"])
def test_completions_are_exact_and_share_blocks_by_token_ids(name: str) -> None:
    template = chat_templates.CHATML  # unused by this API
    found = calibrated(name, template, "completions")
    assert found.exact
    assert len(found.ids) == 1_235
    for session in small_sessions():
        held = UnlimitedCache(64)
        for request, prompt in sent(session, found):
            ids = np.array(json.loads(prompt), np.uint64)
            assert len(ids) == request.input_tokens
            assert held.blocks_hit(ids) == predicted_blocks(request, 64)


@pytest.mark.parametrize(("name", "words"), [("llama3_1", 3_494), ("gemma3", 6_771)])
def test_the_words_of_a_models_own_file_pass_the_servers_check(name: str, words: int) -> None:
    renderer(name, OWN)
    of_file = file_candidates(CACHE / name / "tokenizer.json")
    found = calibrated(name, OWN, candidates=of_file)
    assert found.exact
    assert (len(found.words), found.warnings) == (words, ())


def test_the_words_of_another_models_file_are_sorted_out_by_the_server() -> None:
    renderer("gemma3", OWN)
    of_file = file_candidates(CACHE / "gemma3" / "tokenizer.json")
    found = calibrated("qwen3", OWN, candidates=of_file)
    assert len(found.words) >= 256
    assert found.warnings


# --- tool messages --------------------------------------------------------------------------------

# DeepSeek's own template wants arguments as text, where vLLM and SGLang have parsed them. The last
# number is of blocks that cannot be shared: a result ends just before one, and then grows by less
# than a call and its result cost.
TOOL_CASES: Sequence[tuple[str, str | None, bool, int]] = [
    ("deepseek_v3", OWN, True, 0),
    ("qwen3", OWN, False, 1),
    ("llama3_1", chat_templates.LLAMA_TOOLS, False, 1),
    ("gptoss", chat_templates.HARMONY_TOOLS, False, 1),
    ("llama3_1", chat_templates.MISTRAL_TOOLS, False, 3),
    ("gemma3", chat_templates.MISTRAL_TOOLS, False, 6),
]


@pytest.mark.parametrize(("name", "template", "calls_as_sent", "lost"), TOOL_CASES)
def test_with_tool_messages_lengths_are_exact_and_blocks_are_shared(
    name: str, template: str | None, calls_as_sent: bool, lost: int
) -> None:
    rendering = renderer(name, template, calls_as_sent=calls_as_sent)
    found = calibrated_by(rendering, tool_messages=True)
    assert (found.exact, found.verification.probes, found.warnings) == (True, 40, ())
    calls = missed = 0
    for session in small_sessions():
        held = UnlimitedCache(64)
        for request, prompt in sent(session, found):
            messages = json.loads(prompt)
            calls += sum("tool_calls" in message for message in messages)
            tokens = rendering.chat(messages, [])
            assert len(tokens) == request.input_tokens
            hits = held.blocks_hit(tokens)
            assert hits <= predicted_blocks(request, 64)
            missed += predicted_blocks(request, 64) - hits
    assert calls > 126  # more than one a prompt
    assert missed == lost


@pytest.mark.parametrize(
    ("name", "template", "told"),
    [
        ("gemma3", OWN, "refuses tool messages"),  # roles must alternate
        ("deepseek_v3", OWN, "leaves the words of tool messages out"),  # as vLLM hands them to it
        ("llama3_1", OWN, "leaves the words of tool messages out"),  # of the package: without tools
        ("qwen3", chat_templates.CHATML, "leaves the words of tool messages out"),
    ],
)
def test_a_template_that_knows_no_tools_ends_in_a_sentence_and_a_way_out(
    name: str, template: str | None, told: str
) -> None:
    with pytest.raises(UsageError, match=f"the server {told}") as raised:
        calibrated_by(renderer(name, template), tool_messages=True)
    assert raised.value.code == "server-without-tools"
    assert raised.value.exit_code == 3

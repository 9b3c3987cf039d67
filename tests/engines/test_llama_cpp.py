"""llama.cpp for real: the wire, the prompts, the sweep and the ways a server ends them."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
import uvloop
from calibration_line import exact_by
from engine_runs import (
    Ask,
    Swept,
    converse,
    counted_by,
    recorded,
    small_sessions,
    sweep,
    sweep_command,
    tokens_of,
)
from llama_cpp_server import LlamaServer
from small_corpus import corpus, request, session

from agentx_replay.endpoint.readiness import ask_server
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.replay.ports import ErrorCategory, Response, Status
from agentx_replay.results.run_directory import read_points
from agentx_replay.results.server_metrics import read_server_metrics
from agentx_replay.traces.model import Session

pytestmark = pytest.mark.engine

# --- what readiness finds ---------------------------------------------------------------------


def test_readiness_finds_model_context_of_a_slot_and_all_a_run_needs(
    llama_server: LlamaServer,
) -> None:
    settings = EndpointSettings(parse_base_url(llama_server.url), "")
    facts = uvloop.run(ask_server(settings))
    assert (facts.server, facts.model, facts.max_model_len) == ("llama.cpp", "tiny", 4096)
    assert facts.ignore_eos
    assert facts.usage_reported
    assert facts.cached_tokens_reported


# --- single requests --------------------------------------------------------------------------


@pytest.mark.parametrize("session", small_sessions(), ids=lambda session: session.id)
def test_every_prompt_has_the_recorded_length_and_the_recorded_sharing(
    llama_server: LlamaServer, session: Session
) -> None:
    """As the server counts both, to the token and to the block, on every request of a play."""
    assert counted_by(llama_server.url, session) == recorded(session)


@pytest.mark.parametrize(
    ("live", "cached_blocks"),
    [
        (False, [0, 2, 6]),  # the recorded ones
        (True, [0, 3, 9]),  # 150 + 100 - 1 = 249 tokens, 400 + 200 - 1 = 599
    ],
)
def test_the_next_request_finds_the_answer_cached_with_live_history_alone(
    llama_server: LlamaServer, tmp_path: Path, live: bool, cached_blocks: list[int]
) -> None:
    """The model is made to say one word, a token wherever it stands: what random weights say is not
    read again as the tokens that it was.
    """
    (word,) = tokens_of(llama_server.url, " able")
    lines = (
        request(0, range(2), in_=150, out=100),
        request(9, range(6), in_=400, out=200),
        request(18, range(12), in_=800, out=5),
    )
    (session_of,) = corpus(tmp_path, session("s", *lines)).sessions
    found = counted_by(llama_server.url, session_of, live=live, token=word)
    assert [counted.tokens for counted in found] == [150, 400, 800]
    assert [counted.cached_blocks for counted in found] == cached_blocks


def test_connections_closed_despite_the_announced_keep_alive_fail_nothing(
    llama_server: LlamaServer,
) -> None:
    """llama.cpp announces 5 s, and closes after every streamed response.

    A request sent at once may find that out by itself (one retry, counted); one after a pause
    must know before it is sent.
    """
    messages = b'[{"role":"user","content":"one"}]'

    async def conversation(ask: Ask) -> list[Response]:
        at_once = [await ask("s", messages, 2), await ask("s", messages, 2)]
        await asyncio.sleep(5.5)
        return [*at_once, await ask("s", messages, 2)]

    responses = converse(llama_server.url, conversation)
    assert [response.status for response in responses] == [Status.OK] * 3
    assert all(response.connect_start_ns is not None for response in responses)
    assert responses[1].retries in (0, 1)
    assert responses[2].retries == 0


def test_a_prompt_longer_than_the_context_is_an_overflow(llama_server: LlamaServer) -> None:
    text = " able" * 5000  # a token each; a slot holds 4,096
    messages = json.dumps([{"role": "user", "content": text}]).encode()
    response = converse(llama_server.url, lambda ask: ask("s", messages, 1))
    assert (response.status, response.http_status) == (Status.OVERFLOW, 400)
    assert response.error_category is ErrorCategory.CONTEXT_OVERFLOW
    assert "(5003 tokens)" in (response.error_text or "")


def test_output_that_reaches_the_end_of_the_context_is_short(llama_server: LlamaServer) -> None:
    """Then it is no error to the server, and a length mismatch in the records."""
    messages = json.dumps([{"role": "user", "content": " able" * 4083}]).encode()
    response = converse(llama_server.url, lambda ask: ask("s", messages, 64))
    assert (response.status, response.finish_reason) == (Status.OK, "length")
    assert response.prompt_tokens == 4086
    assert response.completion_tokens == 10  # 4,096 - 4,086


# --- sweeps by the command line -----------------------------------------------------------------


@pytest.fixture(scope="module")
def swept(llama_server: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    out = tmp_path_factory.mktemp("sweep") / "out"
    return sweep(llama_server.url, out, "--concurrency", "1,2,4")


def test_every_response_of_a_sweep_is_complete(swept: Swept) -> None:
    assert swept.query("status, finish_reason, completion_tokens = max_tokens, error_text") == [
        ("ok", "length", True, None)
    ]


def test_every_level_has_its_warm_up_and_its_window_on_record(swept: Swept) -> None:
    assert swept.query("concurrency, phase") == [
        (level, phase) for level in (1, 2, 4) for phase in ("cache_pressure", "primer", "window")
    ]


def test_the_sessions_that_fit_a_slot_are_the_ones_played(swept: Swept) -> None:
    assert {session for (session,) in swept.query("session_id")} <= {
        f"small-{number}" for number in range(1, 7)
    }
    assert "left out 30 sessions" in swept.stderr


def test_the_server_counts_prompts_and_what_it_had_cached(swept: Swept) -> None:
    assert swept.query("prompt_tokens > 0, cached_tokens is not null") == [(True, True)]
    assert all(cached > 0 for _, cached in swept.query("concurrency, sum(cached_tokens)"))


def test_every_prompt_of_a_calibrated_sweep_has_the_recorded_length(swept: Swept) -> None:
    assert exact_by(swept.stderr), swept.stderr
    assert swept.query("prompt_length_error") == [(0,)]


def test_every_request_is_on_record_once(swept: Swept) -> None:
    assert swept.query("count(*) - count(distinct (concurrency, request_id))") == [(0,)]


def test_the_engines_own_metrics_are_kept(swept: Swept) -> None:
    for point in read_points(swept.out):
        names = read_server_metrics(point.directory)["name"].to_pylist()
        assert "llamacpp:requests_processing" in names


def test_the_exit_code_says_whether_every_point_is_valid(swept: Swept) -> None:
    points = swept.points()
    assert [point["concurrency"] for point in points] == [1, 2, 4]
    assert {point["status"] for point in points} == {"complete"}
    assert swept.code == (0 if all(point["valid"] for point in points) else 1)


def test_a_context_that_is_claimed_too_long_ends_in_the_servers_own_words(
    llama_server: LlamaServer, tmp_path: Path
) -> None:
    swept = sweep(
        llama_server.url, tmp_path / "out", "--concurrency", "16", "--max-context", "200000"
    )
    assert swept.code == 1
    overflow = ("overflow", "context_overflow")
    ended = swept.query("status, error_category, error_text")
    refused = [text for status, what, text in ended if (status, what) == overflow]
    assert refused
    assert all("context" in text for text in refused)
    (point,) = swept.points()
    assert "requests-overflowed" in [each["code"] for each in point["findings"]]


def test_a_server_that_dies_ends_the_run_with_its_records_and_a_sentence(
    doomed_llama_server: LlamaServer, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = sweep_command(doomed_llama_server.url, out, "--concurrency", "2,4")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("c=2 window"):
                doomed_llama_server.process.kill()
        swept = Swept(process.wait(), process.stdout.read(), "".join(said), out)
    assert swept.code == 1
    assert "Traceback" not in swept.stderr, swept.stderr
    statuses = {(level, status) for level, status in swept.query("concurrency, status")}
    assert {(2, "ok"), (2, "failed"), (4, "failed")} <= statuses
    assert {category for (category,) in swept.query("error_category")} <= {
        None, "reset", "connect"
    }  # fmt: skip
    first, second = swept.points()
    assert any("requests failed" in why for why in first["invalid_reasons"])
    assert any("cannot connect to 127.0.0.1" in why for why in second["invalid_reasons"])

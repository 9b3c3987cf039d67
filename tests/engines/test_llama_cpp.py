"""llama.cpp for real: the wire, the prompts, the sweep and the ways a server ends them."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pytest
import uvloop
from llama_cpp_server import LlamaServer

from agentx_replay.endpoint.chat import ChatRequests
from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.readiness import ServerFacts, ask_server
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.plan.selection import select_sessions
from agentx_replay.prompts.compose import PlayComposer, SentPrefixes
from agentx_replay.prompts.keys import LevelKeys
from agentx_replay.prompts.layout import lay_out
from agentx_replay.prompts.template import TemplateCost
from agentx_replay.prompts.vocabulary import builtin_vocabulary
from agentx_replay.replay.ports import ErrorCategory, Response, Status
from agentx_replay.shipped import shipped_directory
from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.model import Session

pytestmark = pytest.mark.engine

_T = TypeVar("_T")
BLOCK_TOKENS = 64

DEEPSEEK = TemplateCost(
    with_system=2,  # begin of sentence, <|Assistant|> to generate
    without_system=2,
    system=1,  # the opening word; this template has no mark for the system
    user=2,  # <|User|>, the opening word
    assistant=3,  # <|Assistant|>, the opening word, end of sentence
    assumed=False,
)
"""The cost of ``tiny_model.CHAT_TEMPLATE``, counted in the template by hand."""

Ask = Callable[[str, bytes, int], Awaitable[Response]]


def on(server: LlamaServer, conversation: Callable[[Ask], Awaitable[_T]]) -> _T:
    """Run a conversation of single requests: ``ask(stream, messages_json, max_tokens)``."""
    settings = EndpointSettings(parse_base_url(server.url), "tiny")

    async def run() -> _T:
        client, requests = Client(settings), ChatRequests(settings)
        try:
            return await conversation(
                lambda stream, messages, limit: client.request(
                    stream, requests.build({}, limit, messages)
                )
            )
        finally:
            await client.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def small_sessions() -> tuple[Session, ...]:
    return select_sessions(read_corpus(shipped_directory("traces")), max_context=4096).sessions


# --- what readiness finds ---------------------------------------------------------------------


def test_readiness_finds_model_context_of_a_slot_and_all_a_run_needs(
    llama_server: LlamaServer,
) -> None:
    settings = EndpointSettings(parse_base_url(llama_server.url), "")
    assert uvloop.run(ask_server(settings)) == ServerFacts(
        model="tiny",
        max_model_len=4096,
        served_models=("tiny",),
        server="llama.cpp",
        max_tokens_field="max_completion_tokens",
        ignore_eos=True,
        usage_reported=True,
        cached_tokens_reported=True,
    )


# --- single requests --------------------------------------------------------------------------


@pytest.mark.parametrize("session", small_sessions(), ids=lambda session: session.id)
def test_every_prompt_has_the_recorded_length_and_the_recorded_sharing(
    llama_server: LlamaServer, session: Session
) -> None:
    """As the server counts both, to the token and to the block, on every request of a play."""
    requests = sorted(session.requests(), key=lambda request: request.recorded_order)
    keys = LevelKeys(session.id, 1, 0)
    play = PlayComposer(
        lay_out(session, DEEPSEEK), builtin_vocabulary(), keys, SentPrefixes(), lane=0, ordinal=0
    )

    async def conversation(ask: Ask) -> list[tuple[int | None, int | None]]:
        counted = []
        for request in requests:
            response = await ask("s", play.prompt(0, request).messages_json(), 1)
            cached = response.cached_tokens
            blocks = None if cached is None else cached // BLOCK_TOKENS
            counted.append((response.prompt_tokens, blocks))
        return counted

    assert on(llama_server, conversation) == [
        (request.input_tokens, request.known_blocks) for request in requests
    ]


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

    responses = on(llama_server, conversation)
    assert [response.status for response in responses] == [Status.OK] * 3
    assert all(response.connect_start_ns is not None for response in responses)
    assert responses[1].retries in (0, 1)
    assert responses[2].retries == 0


def test_a_prompt_longer_than_the_context_is_an_overflow(llama_server: LlamaServer) -> None:
    text = " able" * 5000  # a token each; a slot holds 4,096
    messages = json.dumps([{"role": "user", "content": text}]).encode()
    response = on(llama_server, lambda ask: ask("s", messages, 1))
    assert (response.status, response.http_status) == (Status.OVERFLOW, 400)
    assert response.error_category is ErrorCategory.CONTEXT_OVERFLOW
    assert "(5003 tokens)" in (response.error_text or "")


def test_output_that_reaches_the_end_of_the_context_is_short(llama_server: LlamaServer) -> None:
    """Then it is no error to the server, and a length mismatch in the records."""
    messages = json.dumps([{"role": "user", "content": " able" * 4083}]).encode()
    response = on(llama_server, lambda ask: ask("s", messages, 64))
    assert (response.status, response.finish_reason) == (Status.OK, "length")
    assert response.prompt_tokens == 4086
    assert (response.completion_tokens or 64) < 64


# --- sweeps by the command line -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Swept:
    """A sweep that has ended: exit code, both outputs, and its directory."""

    code: int
    stdout: str
    stderr: str
    out: Path

    def points(self) -> list[dict[str, Any]]:
        points: list[dict[str, Any]] = json.loads(self.stdout)["points"]
        return points

    def query(self, columns: str) -> list[tuple[Any, ...]]:
        """Select ``columns`` from the records, as the documentation does."""
        files = f"{self.out}/**/requests*/*.parquet"
        rows = f"read_parquet('{files}', union_by_name = true)"
        found = duckdb.execute(f"select {columns} from {rows} group by all order by all")
        return found.fetchall()


def sweep_command(server: LlamaServer, out: Path, *more: str) -> list[str]:
    command = "sweep --scenario quick --json --override window_s=4.0 --override grace_s=300.0"
    arguments = [*command.split(), "--url", server.url, "--out", str(out), *more]
    return [sys.executable, "-m", "agentx_replay", *arguments]


def sweep(server: LlamaServer, out: Path, *more: str) -> Swept:
    done = subprocess.run(
        sweep_command(server, out, *more), capture_output=True, text=True, check=False
    )
    return Swept(done.returncode, done.stdout, done.stderr, out)


@pytest.fixture(scope="module")
def swept(llama_server: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    out = tmp_path_factory.mktemp("sweep") / "out"
    return sweep(llama_server, out, "--concurrency", "1,2,4")


def test_every_response_of_a_sweep_is_complete(swept: Swept) -> None:
    assert swept.query("status, finish_reason, completion_tokens = max_tokens, error_text") == [
        ("ok", "length", True, None)
    ]


def test_every_level_has_its_warm_up_and_its_window_on_record(swept: Swept) -> None:
    assert swept.query("concurrency, phase") == [
        (level, phase) for level in (1, 2, 4) for phase in ("pressure", "primer", "window")
    ]


def test_the_sessions_that_fit_a_slot_are_the_ones_played(swept: Swept) -> None:
    assert {session for (session,) in swept.query("session_id")} <= {
        f"small-{number}" for number in range(1, 7)
    }
    assert "left out 30 sessions" in swept.stderr


def test_the_server_counts_prompts_and_what_it_had_cached(swept: Swept) -> None:
    assert swept.query("prompt_tokens > 0, cached_tokens is not null") == [(True, True)]
    assert all(cached > 0 for _, cached in swept.query("concurrency, sum(cached_tokens)"))


def test_every_request_is_on_record_once(swept: Swept) -> None:
    assert swept.query("count(*) - count(distinct (concurrency, request_id))") == [(0,)]


def test_the_exit_code_says_whether_every_point_is_valid(swept: Swept) -> None:
    points = swept.points()
    assert [point["concurrency"] for point in points] == [1, 2, 4]
    assert {point["status"] for point in points} == {"complete"}
    assert swept.code == (0 if all(point["valid"] for point in points) else 1)


def test_a_context_that_is_claimed_too_long_ends_in_the_servers_own_words(
    llama_server: LlamaServer, tmp_path: Path
) -> None:
    swept = sweep(llama_server, tmp_path / "out", "--concurrency", "16", "--max-context", "200000")
    assert swept.code == 1
    assert ("overflow", "context_overflow") in swept.query("status, error_category")
    (point,) = swept.points()
    assert "exceeds the available context" in point["invalid_reasons"]


def test_a_server_that_dies_ends_the_run_with_its_records_and_a_sentence(
    doomed_llama_server: LlamaServer, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = sweep_command(doomed_llama_server, out, "--concurrency", "2,4")
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
    assert "requests failed" in first["invalid_reasons"]
    assert "cannot connect to 127.0.0.1" in second["invalid_reasons"]

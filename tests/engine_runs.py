"""What tests ask of a real engine: single requests, a whole play's prompts, and sweeps.

The model is the one of ``tiny_model``. Not for: starting engines, or what is expected of one.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar
from urllib.request import Request, urlopen

import pytest
import uvloop

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.requests import Requests
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.plan.selection import select_sessions
from agentx_replay.prompts.compose import PlayComposer
from agentx_replay.prompts.keys import LevelKeys
from agentx_replay.prompts.layout import lay_out
from agentx_replay.prompts.live import LiveComposer
from agentx_replay.prompts.template import TemplateCost
from agentx_replay.prompts.text import chat_wording
from agentx_replay.prompts.vocabulary import builtin_vocabulary
from agentx_replay.replay.ports import Response
from agentx_replay.shipped import shipped_directory
from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.model import RecordedRequest, Session

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


def converse(url: str, conversation: Callable[[Ask], Awaitable[_T]], **more: Any) -> _T:
    """Run a conversation of single requests: ``ask(stream, messages_json, max_tokens)``.

    ``more`` are fields of ``EndpointSettings``.
    """
    settings = EndpointSettings(parse_base_url(url), "tiny", **more)

    async def run() -> _T:
        client, requests = Client(settings), Requests(settings)
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


@dataclass(frozen=True, slots=True)
class Counted:
    """A prompt's tokens, and how many whole blocks of it were cached."""

    tokens: int | None
    cached_blocks: int | None


def recorded(session: Session) -> list[Counted]:
    """What the recording says of every request, in recorded order, with an unlimited cache.

    The last token of a prompt is never cached: something has to be computed.
    """
    return [
        Counted(
            request.input_tokens,
            min(request.known_blocks, (request.input_tokens - 1) // BLOCK_TOKENS),
        )
        for request in in_recorded_order(session)
    ]


def counted_by(
    url: str, session: Session, *, live: bool = False, token: int | None = None
) -> list[Counted]:
    """What the server counts when a play's prompts are sent one after another.

    Each asks for one token, or, where every ``token`` of the answers is given, for as many as are
    recorded; ``live`` feeds the answers back.
    """
    layout = lay_out(session, DEEPSEEK)
    wording = chat_wording(builtin_vocabulary())
    # One server for all tests: what one sends is cached.
    composer = PlayComposer(layout, wording, LevelKeys(token_hex(8), 1, 0), lane=0, play_number=0)
    opening = builtin_vocabulary().opening
    play = LiveComposer(composer, layout, DEEPSEEK, opening) if live else composer
    body = {} if token is None else {"logit_bias": [[token, 100]]}

    async def conversation(ask: Ask) -> list[Counted]:
        found = []
        for request in in_recorded_order(session):
            limit = 1 if token is None else request.output_tokens
            response = await ask("s", play.prompt(0, request).messages_json(), limit)
            if response.answer is not None:
                play.answered(request.index, response.answer)
            cached = response.cached_tokens
            blocks = None if cached is None else cached // BLOCK_TOKENS
            found.append(Counted(response.prompt_tokens, blocks))
        return found

    return converse(url, conversation, keeps_answers=live, extra_body=body)


def tokens_of(url: str, text: str) -> list[int]:
    """What the server's tokenizer makes of a text."""
    question = Request(f"{url}/tokenize", json.dumps({"content": text}).encode())
    question.add_header("Content-Type", "application/json")
    with urlopen(question) as answer:
        tokens: list[int] = json.load(answer)["tokens"]
    return tokens


def in_recorded_order(session: Session) -> list[RecordedRequest]:
    return sorted(session.requests(), key=lambda request: request.recorded_order)


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
        duckdb = pytest.importorskip("duckdb")
        files = f"{self.out}/**/requests*/*.parquet"
        rows = f"read_parquet('{files}', union_by_name = true)"
        found = duckdb.execute(f"select {columns} from {rows} group by all order by all")
        rows_found: list[tuple[Any, ...]] = found.fetchall()
        return rows_found


def sweep_command(url: str, out: Path, *more: str) -> list[str]:
    command = "sweep --scenario quick --json --override window_s=4.0 --override grace_s=300.0"
    arguments = [*command.split(), "--url", url, "--out", str(out), *more]
    return [sys.executable, "-m", "agentx_replay", *arguments]


def sweep(url: str, out: Path, *more: str) -> Swept:
    done = subprocess.run(
        sweep_command(url, out, *more), capture_output=True, text=True, check=False
    )
    return Swept(done.returncode, done.stdout, done.stderr, out)

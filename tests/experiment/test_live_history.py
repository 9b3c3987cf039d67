"""Live output fed back, on sockets: an engine finds in its cache what it said itself."""

import json
from pathlib import Path
from typing import Any

import pytest
import uvloop
from command_line import SHORT, finished
from small_corpus import corpus, request, session

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.requests import Requests
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.prompts.compose import PlayComposer
from agentx_replay.prompts.keys import LevelKeys
from agentx_replay.prompts.layout import lay_out
from agentx_replay.prompts.live import LiveComposer
from agentx_replay.prompts.template import CHATML
from agentx_replay.prompts.text import chat_wording
from agentx_replay.prompts.vocabulary import builtin_vocabulary
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.server import ServerConfig, running_server
from agentx_replay.traces.model import Session

WORDS = builtin_vocabulary()
THREE = (
    request(0, range(2), in_=150, out=100),
    request(9, range(6), in_=400, out=200),
    request(18, range(12), in_=800, out=5),
)
"""Each goes on from all of the one before, and grows by more than was answered to it."""


def counted(sent: Session, *, live: bool) -> list[tuple[int | None, int | None]]:
    """Prompt and cached tokens of every request of a play, as the simulator counts them."""

    async def run() -> list[tuple[int | None, int | None]]:
        engine = EngineModel(step_base_ms=0.1, tokens_per_step=50)
        async with running_server(ServerConfig(engine=engine)) as server:
            url = parse_base_url(server.url)
            settings = EndpointSettings(url, "simulated", keeps_answers=live)
            client = Client(settings)
            try:
                return await _sent(client, Requests(settings), live)
            finally:
                await client.close()

    async def _sent(
        client: Client, requests: Requests, live: bool
    ) -> list[tuple[int | None, int | None]]:
        layout = lay_out(sent, CHATML)
        keys = LevelKeys("salt", 1, 0)
        composer = PlayComposer(layout, chat_wording(WORDS), keys, lane=0, play_number=0)
        play = LiveComposer(composer, layout, CHATML, WORDS.opening) if live else composer
        found = []
        for each in sent.requests():
            body = requests.build({}, each.output_tokens, play.prompt(0, each).messages_json())
            response = await client.request("s", body)
            if response.answer is not None:
                play.answered(each.index, response.answer)
            found.append((response.prompt_tokens, response.cached_tokens))
        return found

    return uvloop.run(run())


@pytest.mark.parametrize(
    ("live", "cached"),
    [
        # The recorded blocks: two, then six.
        (False, [0, 128, 384]),
        # 150 + 100 - 1 = 249 tokens computed: 3 blocks. 400 + 200 - 1 = 599: 9 blocks.
        (True, [0, 192, 576]),
    ],
)
def test_the_next_request_finds_the_answer_cached_with_live_history_alone(
    tmp_path: Path, live: bool, cached: list[int]
) -> None:
    (recorded,) = corpus(tmp_path, session("s", *THREE)).sessions
    found = counted(recorded, live=live)
    assert [tokens for tokens, _ in found] == [150, 400, 800]
    assert [tokens for _, tokens in found] == cached


# --- by the command line ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few seconds by two workers on the built-in simulator."""
    out = tmp_path_factory.mktemp("live") / "out"
    window = ("--override", "window_s=3.0", "--override", "grace_s=30.0", *SHORT)
    small = ("--concurrency", "2", "--workers", "2", "--max-context", "4096")
    done = finished("run", "--live-history", *small, *window, "--out", str(out))
    assert done.returncode in (0, 1), done.stderr
    return out


def point(run: Path) -> dict[str, Any]:
    (file,) = run.glob("**/point.json")
    found: dict[str, Any] = json.loads(file.read_bytes())
    return found


def test_a_run_with_live_history_says_so_and_is_not_comparable(swept: Path) -> None:
    assert json.loads((swept / "sweep.json").read_bytes())["live_history"] is True
    measured = point(swept)
    assert measured["comparable"] is False
    assert "live-history" in [each["code"] for each in measured["findings"]]
    assert "Live output" in (swept / "report.html").read_text()


def test_its_prompts_have_the_recorded_length(swept: Path) -> None:
    lengths = point(swept)["fidelity"]["prompt_lengths"]
    assert lengths["count"] > 10
    assert (lengths["least"], lengths["greatest"]) == (0, 0)


def test_what_its_prompts_shared_is_not_compared_with_the_recording(swept: Path) -> None:
    fidelity = point(swept)["fidelity"]
    assert fidelity["reuse_sent"] is None
    assert fidelity["conformity"]["prefixes"] is None
    assert fidelity["conformity"]["resets_sent"] is None
    assert fidelity["conformity"]["order"] == fidelity["shared_between_plays"] == 0


def test_it_says_how_many_answers_were_fed_back(swept: Path) -> None:
    """The simulator answers all in content, with usage."""
    fidelity = point(swept)["fidelity"]
    fed, due = fidelity["answers_fed_back"], fidelity["answers_due"]
    assert fed == due > 0
    assert f"fed back: {due} of {due}<" in (swept / "report.html").read_text()


def test_it_is_not_resumed_without_live_history(swept: Path, tmp_path: Path) -> None:
    (tmp_path / "without.toml").write_text("live-history = false")
    without = ("--config", str(tmp_path / "without.toml"))
    done = finished("sweep", "--resume", "--out", str(swept), *without)
    assert done.returncode == 2
    assert "[resume-differs]" in done.stderr

"""vLLM on CPU: block prefix caching, to the block. Opt-in, for it is gigabytes to install.

AGENTX_REPLAY_VLLM_PYTHON=VENV/bin/python pytest -m engine tests/engines/test_vllm.py
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from calibration_line import exact_by
from engine_runs import Swept, counted_by, recorded, small_sessions, sweep
from tiny_model import tokenizer_directory, write_directory
from vllm_server import launched

from agentx_replay.traces.model import Session

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def vllm_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    python, tokenizer = os.environ.get("AGENTX_REPLAY_VLLM_PYTHON"), tokenizer_directory()
    if python is None or tokenizer is None:
        pytest.skip("needs AGENTX_REPLAY_VLLM_PYTHON and the engines extra; see docs/engines.md")
    directory = tmp_path_factory.mktemp("vllm")
    write_directory(directory / "model", tokenizer)
    with launched(Path(python), directory / "model", directory / "log") as url:
        yield url


@pytest.fixture(scope="module")
def swept(vllm_url: str, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    out = tmp_path_factory.mktemp("sweep") / "out"
    return sweep(vllm_url, out, "--concurrency", "1,2,4", "--max-context", "4096")


@pytest.mark.parametrize("session", small_sessions(), ids=lambda session: session.id)
def test_every_prompt_has_the_recorded_length_and_the_recorded_sharing(
    vllm_url: str, session: Session
) -> None:
    assert counted_by(vllm_url, session) == recorded(session)


def test_every_response_of_a_sweep_is_complete(swept: Swept) -> None:
    assert swept.query("status, finish_reason, completion_tokens = max_tokens, retries") == [
        ("ok", "length", True, 0)
    ]


def test_every_prompt_of_a_calibrated_sweep_has_the_recorded_length(swept: Swept) -> None:
    assert exact_by(swept.stderr), swept.stderr
    assert swept.query("prompt_length_error") == [(0,)]


def test_cached_tokens_are_whole_blocks(swept: Swept) -> None:
    assert swept.query("cached_tokens % 32") == [(0,)]
    assert all(cached > 0 for _, cached in swept.query("concurrency, sum(cached_tokens)"))

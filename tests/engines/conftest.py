"""A llama.cpp server on a tiny model, for the tests that are marked ``engine``."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from llama_cpp_server import LlamaServer, launched
from tiny_model import tokenizer_directory, write_gguf

SLOTS = 4
SLOT_CONTEXT_TOKENS = 4096
"""What the small bundled sessions are made for."""


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random-weight model that is made once a session."""
    tokenizer = tokenizer_directory()
    missing = [name for name in ("gguf", "xllamacpp") if importlib.util.find_spec(name) is None]
    if tokenizer is None or missing:
        pytest.skip("needs llama.cpp: pip install 'agentx-replay[engines]'")
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_gguf(path, tokenizer)
    return path


@pytest.fixture(scope="session")
def llama_server(tiny_gguf: Path) -> Iterator[LlamaServer]:
    """A server that all tests share."""
    log = tiny_gguf.with_name("shared.log")
    with launched(tiny_gguf, SLOT_CONTEXT_TOKENS, SLOTS, log) as server:
        yield server


@pytest.fixture
def doomed_llama_server(tiny_gguf: Path) -> Iterator[LlamaServer]:
    """A server of a test's own, which it may kill."""
    log = tiny_gguf.with_name("doomed.log")
    with launched(tiny_gguf, SLOT_CONTEXT_TOKENS, SLOTS, log) as server:
        yield server

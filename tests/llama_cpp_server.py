"""llama.cpp as an OpenAI-compatible server in a process of its own.

``launched`` starts it and ends it. By hand, until it is ended:

    python tests/llama_cpp_server.py MODEL.gguf CONTEXT_TOKENS SLOTS

``CONTEXT_TOKENS`` is shared by the slots. The server's address is the one line it prints.
"""

import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.error import URLError

_READY_WITHIN_S = 60.0
_ASK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class LlamaServer:
    """A server that is up; ``context_tokens`` is what one request, a slot, may have."""

    url: str
    context_tokens: int
    process: subprocess.Popen[str]


@contextmanager
def launched(model: Path, slot_context_tokens: int, slots: int, log: Path) -> Iterator[LlamaServer]:
    """Run a server on a free port of 127.0.0.1 while the context lasts; it logs to ``log``."""
    command = [sys.executable, __file__, str(model), str(slot_context_tokens * slots), str(slots)]
    with (
        log.open("w") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            _wait_until_healthy(url, log)
            yield LlamaServer(url, slot_context_tokens, process)
        finally:
            process.kill()


def _wait_until_healthy(url: str, log: Path) -> None:
    until_s = time.monotonic() + _READY_WITHIN_S
    while url and time.monotonic() < until_s:
        try:
            with urllib.request.urlopen(f"{url}/health") as answer:
                if answer.status == HTTPStatus.OK:
                    return
        except URLError:
            time.sleep(_ASK_EVERY_S)
    raise RuntimeError(f"llama.cpp did not come up:\n{log.read_text()[-2000:]}")


def _serve(model: str, context_tokens: int, slots: int) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"tiny"}
    params.n_ctx = context_tokens
    params.n_parallel = slots
    params.endpoint_metrics = True
    # One thread: with more, each token waits for the slowest of them to get a CPU.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

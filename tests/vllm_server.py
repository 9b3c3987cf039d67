"""vLLM on CPU as an OpenAI-compatible server, run by the Python of an environment of its own.

Not for: installing vLLM, which takes gigabytes (docs/engines.md says how).
"""

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from urllib.error import URLError

CONTEXT_TOKENS = 8192
_READY_WITHIN_S = 300.0
_ASK_EVERY_S = 0.5
_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_HOST_IP": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
    "HF_HUB_OFFLINE": "1",
}
_OPTIONS = (
    "--served-model-name tiny --load-format dummy --dtype float32 --block-size 32 "
    "--enable-prefix-caching --enable-prompt-tokens-details --enforce-eager --host 127.0.0.1"
)


@contextmanager
def launched(python: Path, model: Path, log: Path) -> Iterator[str]:
    """Run a server of a model directory while the context lasts; yield its URL."""
    port = _free_port()
    module = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    length = ["--max-model-len", str(CONTEXT_TOKENS), "--port", str(port)]
    with (
        log.open("w") as output,
        subprocess.Popen(
            [*module, *_OPTIONS.split(), *length],
            stdout=output,
            stderr=output,
            env=os.environ | _ENVIRONMENT,
        ) as process,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_healthy(url, process, log)
            yield url
        finally:
            process.terminate()  # it ends its engine's process


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until_s = time.monotonic() + _READY_WITHIN_S
    while process.poll() is None and time.monotonic() < until_s:
        try:
            with urllib.request.urlopen(f"{url}/health") as answer:
                if answer.status == HTTPStatus.OK:
                    return
        except URLError:
            time.sleep(_ASK_EVERY_S)
    raise RuntimeError(f"vLLM did not come up:\n{log.read_text()[-2000:]}")

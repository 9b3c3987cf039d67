"""The simulator in a process of its own."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import orjson
import pytest
from refusals import refuses

from agentx_replay.errors import UsageError
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.process import config_from_json, launch_simulator
from agentx_replay.simulator.server import ServerConfig

_WAIT_S = 20


def test_a_child_answers_until_it_is_closed() -> None:
    simulator = launch_simulator(ServerConfig(model="mine", engine=EngineModel(max_model_len=1234)))
    with urllib.request.urlopen(simulator.url + "/v1/models") as answer:
        (model,) = orjson.loads(answer.read())["data"]
    assert (model["id"], model["max_model_len"]) == ("mine", 1234)
    assert simulator.process.pid != os.getpid()
    simulator.close()
    assert simulator.process.returncode == 0
    simulator.close()


def test_a_child_ends_when_its_parent_is_gone() -> None:
    simulator = launch_simulator(ServerConfig())
    assert simulator.process.stdin is not None
    simulator.process.stdin.close()  # what the kernel does for a parent that was killed
    assert simulator.process.wait(_WAIT_S) == 0
    simulator.process.stdin = None
    simulator.close()


def test_what_is_said_to_a_child_does_not_end_it() -> None:
    simulator = launch_simulator(ServerConfig())
    assert simulator.process.stdin is not None
    simulator.process.stdin.write(b"hello\n")
    simulator.process.stdin.flush()
    with urllib.request.urlopen(simulator.url + "/health") as answer:
        assert answer.status == 200
    simulator.process.send_signal(signal.SIGINT)
    assert simulator.process.wait(_WAIT_S) == 0
    simulator.close()


def test_a_child_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentx_replay.simulator.process._CLOSE_TIMEOUT_S", 0.1)
    simulator = launch_simulator(ServerConfig())
    os.kill(simulator.process.pid, signal.SIGSTOP)
    simulator.close()
    assert simulator.process.returncode == -signal.SIGKILL


def test_a_child_that_cannot_listen_says_why() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port}") as refused:
            launch_simulator(ServerConfig(port=port))
    assert "another" in refused.value.what_to_do


def test_a_child_that_dies_says_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with refuses("simulator-ended"):
        launch_simulator(ServerConfig())


def test_a_configuration_survives_the_way_to_the_child() -> None:
    text = '{"port": 7, "engine": {"cache_blocks": 9}}'
    assert config_from_json(text) == ServerConfig(port=7, engine=EngineModel(cache_blocks=9))


def test_a_child_loads_neither_a_web_framework_nor_the_results() -> None:
    """Small and quick to start: it is a part of every first run."""
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, agentx_replay.simulator.process; print(*sys.modules)",
        ],
        capture_output=True,
        check=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    heavy = {"aiohttp", "pyarrow", "duckdb", "click", "hdrh"}
    assert not heavy & set(said.stdout.decode().split())

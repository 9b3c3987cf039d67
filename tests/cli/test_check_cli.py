"""``check`` as a person types it, against a server and on this machine's loopback."""

import json
from typing import NoReturn

import pytest
from command_line import finished, refusal, told
from driven_load import driven
from golden_files import Goldens

from agentx_replay.analysis.client_error import Ceiling, Driven, Load
from agentx_replay.cli import check
from agentx_replay.endpoint.kernel_stamps import Timestamps
from agentx_replay.errors import UsageError
from agentx_replay.experiment import ceiling
from agentx_replay.experiment.settings import Settings

SMALL = ("--streams", "4", "--rate", "20")


@pytest.fixture
def as_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the client be as exact on every machine, with a limit at 1,024 streams."""

    async def drive(url: str, load: Load) -> Driven:
        return driven(burst=load.burst, timestamps=load.timestamps)

    async def found(url: str, rate: float, budget_s: float, timestamps: Timestamps) -> Ceiling:
        return Ceiling(1024, ("2 of 2048 responses failed",), timestamps=timestamps)

    monkeypatch.setattr(ceiling, "drive", drive)
    monkeypatch.setattr(ceiling, "find_ceiling", found)


def test_what_it_says(as_measured: None, slow_server: str, goldens: Goldens) -> None:
    done = finished("check", *SMALL, "--timestamps", "process", "--url", slow_server, COLUMNS="80")
    said = f"exit code {done.returncode}\n{done.stderr}{done.stdout}"
    goldens.check_text("outputs/check", said.replace(slow_server, "http://host:8000"))


def test_it_tells_each_servers_readiness_and_this_clients_error_as_one_object(
    slow_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_LOOK_S", 0.5)
    monkeypatch.setattr(ceiling, "_FIRST_STREAMS", 2)
    monkeypatch.setattr(check, "_CEILING_BUDGET_S", 2.5)
    asked = (*SMALL, "--url", slow_server, "--url", slow_server, "--tool-messages", "--json")
    result = finished("check", *asked)
    found = json.loads(result.stdout)
    assert len(found["servers"]) == 2
    for server in found["servers"]:
        assert server["server"] == "agentx-replay-simulator/0.1.0"
        assert server["usage_reported"]
        assert server["cached_tokens_reported"]
        calibration = server["calibration"]
        assert (calibration["cost"]["call"], calibration["cost"]["result"]) == (7, 7)
        assert calibration["verification"]["exact"] == calibration["verification"]["probes"] >= 8
    client = found["client"]
    beside = ["kernel", "process"] if client["timestamps"] == "kernel" else ["process"]
    of_loads = [(load["burst"], load["timestamps"]) for load in client["loads"]]
    assert of_loads == [(burst, by) for burst in (False, True) for by in beside]
    for load in client["loads"]:
        assert load["planned_tokens_per_s"] == 80.0
        assert load["failed"] == 0
        assert 0 <= load["late_event_share"] <= 1
        # A stamp is never before the token left, and P50, P99, P99.9 rise.
        assert 0 < load["stamp_error_p50_s"] <= load["stamp_error_p99_s"]
        assert load["stamp_error_p99_s"] <= load["stamp_error_p999_s"]
    limit = client["ceiling"]
    assert limit["timestamps"] == client["timestamps"]
    assert bool(limit["limits"]) != bool(limit["ended"])
    judged = [load for load in client["loads"] if load["timestamps"] == client["timestamps"]]
    assert result.returncode == int(any(load["limits"] for load in judged))


def test_a_server_without_streaming_fails_and_the_client_is_judged_all_the_same(
    as_measured: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(_: Settings) -> NoReturn:
        raise UsageError("server-without-streaming", "it does not stream", "mend it", exit_code=3)

    monkeypatch.setattr(check, "open_target", opened)
    found = told("check", *SMALL, "--url", "http://127.0.0.1:9", exit_code=1)
    assert found["servers"][0]["valid"] is False
    assert found["servers"][0]["warnings"][0]["code"] == "server-without-streaming"
    assert found["client"]["ceiling"]["streams"] == 1024


def test_it_can_be_asked_for_the_processs_own_timestamps_alone(as_measured: None) -> None:
    client = told("check", *SMALL, "--timestamps", "process")["client"]
    assert client["timestamps"] == "process"
    assert [load["timestamps"] for load in client["loads"]] == ["process", "process"]


def test_tool_messages_are_asked_of_a_server_that_is_there() -> None:
    assert "[tool-messages-without-url]" in refusal("check", "--tool-messages")
    nobody = ("check", "--url", "http://127.0.0.1:9", "--wait", "0s")
    assert "[server-unreachable]" in refusal(*nobody, exit_code=3)

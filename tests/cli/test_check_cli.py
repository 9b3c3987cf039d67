"""``check`` as a person types it, against a real server and on this machine's loopback."""

import json
from subprocess import CompletedProcess

from command_line import finished

from agentx_replay.simulator.process import launch_simulator
from agentx_replay.simulator.server import ServerConfig


def check(*arguments: str) -> CompletedProcess[str]:
    return finished("check", *arguments)


def test_it_tells_each_servers_readiness_and_this_clients_error_as_one_object() -> None:
    simulator = launch_simulator(ServerConfig(model="sim"))
    again = launch_simulator(ServerConfig(model="another"))
    try:
        result = check(
            "--url", simulator.url, "--url", again.url, "--streams", "4", "--rate", "20", "--json"
        )
    finally:
        simulator.close()
        again.close()
    found = json.loads(result.stdout)
    assert [server["model"] for server in found["servers"]] == ["sim", "another"]
    for server in found["servers"]:
        assert server["usage_reported"]
        assert server["cached_tokens_reported"]
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
    assert all(server["server"] == "agentx-replay-simulator/0.1.0" for server in found["servers"])
    ceiling = client["ceiling"]
    assert ceiling["timestamps"] == client["timestamps"]
    assert bool(ceiling["limits"]) != bool(ceiling["ended"])
    judged = [load for load in client["loads"] if load["timestamps"] == client["timestamps"]]
    assert result.returncode == int(any(load["limits"] for load in judged))


def test_it_can_be_asked_for_the_processs_own_timestamps_alone() -> None:
    result = check("--timestamps", "process", "--streams", "2", "--rate", "10", "--json")
    client = json.loads(result.stdout)["client"]
    assert client["timestamps"] == "process"
    assert [load["timestamps"] for load in client["loads"]] == ["process", "process"]


def test_it_tells_whether_a_server_takes_tool_messages() -> None:
    simulator = launch_simulator(ServerConfig(model="sim"))
    try:
        result = check(
            "--url", simulator.url, "--tool-messages", "--streams", "2", "--rate", "10", "--json"
        )
    finally:
        simulator.close()
    calibration = json.loads(result.stdout)["servers"][0]["calibration"]
    assert (calibration["cost"]["call"], calibration["cost"]["result"]) == (7, 7)
    assert calibration["verification"]["exact"] == calibration["verification"]["probes"] >= 8


def test_tool_messages_are_asked_of_a_server() -> None:
    result = check("--tool-messages")
    assert result.returncode == 2
    assert "[tool-messages-without-url]" in result.stderr


def test_a_server_that_is_not_there_is_told_in_two_sentences() -> None:
    result = check("--url", "http://127.0.0.1:9")
    assert result.returncode == 3
    assert result.stdout == ""
    assert "cannot connect to 127.0.0.1:9" in result.stderr

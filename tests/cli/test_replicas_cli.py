"""``--url`` given more than once, as a person meets it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import SHORT, finished, refusal

from agentx_replay.results.schema import REQUESTS
from agentx_replay.simulator.process import launch_simulator
from agentx_replay.simulator.server import ServerConfig

RULES = (*SHORT, "--override", "window_s=1.0", "--override", "grace_s=5.0")


@pytest.fixture(scope="module")
def urls(slow_server: str) -> Iterator[tuple[str, str]]:
    other = launch_simulator(ServerConfig())
    yield slow_server, other.url
    other.close()


def test_each_lane_is_on_record_with_its_server_and_all_servers_are_named(
    tmp_path: Path, urls: tuple[str, str], small_traces: Path
) -> None:
    config = tmp_path / "run.toml"
    config.write_text(f"url = {json.dumps(urls)}\nworkers = 2\n")
    out = tmp_path / "out"
    lanes = ("--concurrency", "3", "--traces", small_traces)
    result = finished("run", "--config", config, *lanes, "--out", out, *RULES)
    assert "Traceback" not in result.stderr
    _, share = result.stderr.partition("  3 agents: plan ")[2].splitlines()[:2]
    # One of two servers has two sessions at a time, the other one.
    assert re.findall(r"\d+", share) == ["1", "2", "2", "1"]
    sweep = json.loads((out / "sweep.json").read_text())
    assert sweep["target"]["url"] == [f"{url}/v1" for url in urls]
    files = sorted(out.glob("**/requests*/*.parquet"))
    rows = [row for table in REQUESTS.groups(files) for row in table.to_pylist()]
    assert {(row["lane"], row["replica"]) for row in rows} == {(0, 0), (1, 1), (2, 0)}
    assert {row["status"] for row in rows} == {"ok"}
    page = finished("report", out, "--full")
    assert page.returncode == result.returncode, page.stderr
    counts = [
        sum(row["replica"] == place and row["phase"] == "window" for row in rows)
        for place in (0, 1)
    ]
    whole = " ".join(page.stdout.split())
    assert all(f"{url}/v1 {count} " in whole for url, count in zip(urls, counts, strict=True))
    html = (out / "report.html").read_text()
    assert "<h3>By server</h3>" in html
    assert all(f"<li>{url}/v1</li>" in html for url in urls)


@pytest.mark.parametrize(
    ("second", "exit_code", "code"),
    [
        ("{0}", 2, "url-twice"),
        ("http://localhost:{1}", 2, "url-twice"),
        ("http://u:secret@127.0.0.1:9", 2, "url-with-password"),
        ("http://127.0.0.1:9", 3, "replica-unusable"),
    ],
    ids=["twice", "by another name", "credentials", "unreachable"],
)
def test_each_server_is_held_to_what_one_is(
    tmp_path: Path, urls: tuple[str, str], second: str, exit_code: int, code: str
) -> None:
    other = second.format(urls[0], urls[0].rpartition(":")[2])
    run = ("run", "--url", urls[0], "--url", other, "--wait", "0s", "--out", tmp_path / "out")
    said = refusal(*run, exit_code=exit_code)
    assert f"[{code}]" in said
    assert "secret" not in said


def test_a_config_file_may_name_one_server_as_a_plain_string(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text('url = "http://127.0.0.1:9"\nwait = 0\n')
    said = refusal("run", "--config", config, "--out", tmp_path / "out", exit_code=3)
    assert "[server-unreachable]" in said

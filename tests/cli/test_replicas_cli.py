"""``--url`` given more than once, as a person meets it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import SHORT, finished

from agentx_replay.results.schema import REQUESTS
from agentx_replay.simulator.process import launch_simulator
from agentx_replay.simulator.server import ServerConfig

RULES = (*SHORT, "--override", "window_s=2.0", "--override", "grace_s=5.0")


@pytest.fixture(scope="module")
def urls() -> Iterator[tuple[str, str]]:
    one, two = launch_simulator(ServerConfig()), launch_simulator(ServerConfig())
    yield one.url, two.url
    one.close()
    two.close()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_each_lane_is_on_record_with_its_server_and_all_servers_are_named(
    tmp_path: Path, urls: tuple[str, str], workers: str
) -> None:
    config = tmp_path / "run.toml"
    config.write_text(f"url = {json.dumps(urls)}\nworkers = {workers}\n")
    out = tmp_path / "out"
    result = finished(
        "run", "--config", str(config), "--concurrency", "3", "--out", str(out), *RULES
    )
    assert "Traceback" not in result.stderr
    _, share = result.stderr.partition("  3 agents: plan ")[2].splitlines()[:2]
    assert share == "    1 of 2 servers with 2 sessions at a time, the other with 1"
    sweep = json.loads((out / "sweep.json").read_text())
    assert sweep["target"]["url"] == [f"{url}/v1" for url in urls]
    files = sorted(out.glob("**/requests*/*.parquet"))
    rows = [row for table in REQUESTS.groups(files) for row in table.to_pylist()]
    assert {(row["lane"], row["replica"]) for row in rows} == {(0, 0), (1, 1), (2, 0)}
    assert {row["status"] for row in rows} == {"ok"}
    page = finished("report", str(out), "--full")
    assert page.returncode == result.returncode, page.stderr
    counts = [
        sum(row["replica"] == place and row["phase"] == "window" for row in rows)
        for place in (0, 1)
    ]
    assert [f"{url}/v1 {count} " in " ".join(page.stdout.split())
            for url, count in zip(urls, counts, strict=True)] == [True, True]  # fmt: skip
    html = (out / "report.html").read_text()
    assert "<h3>By server</h3>" in html
    assert all(f"<li>{url}/v1</li>" in html for url in urls)


@pytest.mark.parametrize(
    ("more", "exit_code", "told"),
    [
        (("{0}",), 2, "--url names {0}"),
        (("http://localhost:{1}",), 2, "--url names one place twice, as {0}"),
        (("http://u:secret@127.0.0.1:9",), 2, "carries a user name or password"),
        (("http://127.0.0.1:9",), 3, "http://127.0.0.1:9/v1 cannot be measured: cannot connect"),
    ],
    ids=["twice", "by another name", "credentials", "unreachable"],
)
def test_each_server_is_held_to_what_one_is(
    tmp_path: Path, urls: tuple[str, str], more: tuple[str], exit_code: int, told: str
) -> None:
    second = more[0].format(urls[0], urls[0].rpartition(":")[2])
    result = finished("run", "--url", urls[0], "--url", second, "--out", str(tmp_path / "out"))
    assert result.returncode == exit_code
    assert told.format(urls[0]) in result.stderr
    assert "secret" not in result.stderr
    assert "Traceback" not in result.stderr


def test_a_config_file_may_name_one_server_as_a_plain_string(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text('url = "http://127.0.0.1:9"\n')
    result = finished("run", "--config", str(config), "--out", str(tmp_path / "out"))
    assert result.returncode == 3
    assert "cannot connect to 127.0.0.1:9" in result.stderr

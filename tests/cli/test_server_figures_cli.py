"""A run against the simulator has the server's own figures, and they are the client's."""

import json
import re
import urllib.request
from pathlib import Path

import pytest
from command_line import SHORT, finished

from agentx_replay.results.run_directory import read_points
from agentx_replay.results.server_metrics import known_samples, read_server_metrics
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.process import launch_simulator
from agentx_replay.simulator.server import ServerConfig


def counters(url: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return {series.metric.value: value for series, value in known_samples(lines)}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, float]]:
    """A run, and what the server's counters said after it."""
    out = tmp_path_factory.mktemp("figures") / "out"
    process = launch_simulator(
        ServerConfig(engine=EngineModel(step_base_ms=2.0, tokens_per_step=2))
    )
    try:
        ended = finished(
            "run", "--url", process.url, "--concurrency", "4", "--workers", "1",
            "--override", "window_s=4", "--override", "grace_s=30", *SHORT, "--out", str(out),
        )  # fmt: skip
        assert ended.returncode in (0, 1), ended.stderr
        return out, counters(process.url)
    finally:
        process.close()


def test_the_engine_looked_up_and_found_what_the_client_was_told(
    run: tuple[Path, dict[str, float]],
) -> None:
    out, after = run
    (point,) = read_points(out)
    samples = read_server_metrics(point.directory).to_pylist()
    before = {row["metric"]: row["value"] for row in reversed(samples)}  # the first of each
    responses = point.requests(("status", "prompt_tokens", "cached_tokens")).to_pylist()
    assert {row["status"] for row in responses} == {"ok"}
    for metric, column in (
        ("cache_queries_total", "prompt_tokens"), ("cache_hits_total", "cached_tokens"),
    ):  # fmt: skip
        assert after[metric] - before[metric] == sum(row[column] for row in responses)


def test_the_page_says_that_both_counts_agree(run: tuple[Path, dict[str, float]]) -> None:
    page = (run[0] / "report.html").read_text()
    section = page.split("<h3>The cache, counted twice<")[1]
    (verdict,) = section.split("</table>")[0].split("<tr>")[2:]
    assert "agree</td>" in verdict
    assert "DISAGREE" not in page


def test_a_server_that_commits_two_tokens_a_step_shows_it_although_it_tells_of_no_drafts(
    run: tuple[Path, dict[str, float]],
) -> None:
    section = (run[0] / "report.html").read_text().split("<h2>Speculative decoding</h2>")[1]
    row = re.findall(r"<t[dh][^>]*>([^<]*)<", section.split("<tr>")[2])
    concurrency, per_event, *of_drafts = row[:7]
    # One token in a response's first event, two in each that follows, one where one is left.
    assert (concurrency, of_drafts) == ("4", ["-"] * 5)
    assert 1.5 < float(per_event) <= 2.0


def test_what_was_scraped_is_on_record_under_the_engines_names(
    run: tuple[Path, dict[str, float]],
) -> None:
    (target,) = [json.loads((run[0] / "sweep.json").read_text())["target"]]
    assert target["metrics"] == [target["url"].removesuffix("/v1") + "/metrics"]
    (point,) = read_points(run[0])
    names = set(read_server_metrics(point.directory)["name"].to_pylist())
    assert names == {
        "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
        "vllm:num_preemptions_total", "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total",
    }  # fmt: skip

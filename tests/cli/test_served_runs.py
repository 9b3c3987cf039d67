"""Runs against simulators: their calibration, tool messages, timestamps and server's figures."""

import json
import re
import shutil
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from calibration_line import exact_by
from command_line import SHORT, finished, refusal

from agentx_replay.endpoint import kernel_stamps
from agentx_replay.endpoint.kernel_stamps import timestamps_here
from agentx_replay.results.run_directory import read_points
from agentx_replay.results.server_metrics import known_samples, read_server_metrics
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.process import launch_simulator
from agentx_replay.simulator.server import ServerConfig

WORDS = "1,234 built-in words"
BRIEF = ("--concurrency", "1", *SHORT, "--override", "window_s=0.5", "--override", "grace_s=30")


@dataclass(frozen=True, slots=True)
class Ran:
    """A run's directory, and what it said on standard error."""

    out: Path
    said: str

    def document(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / name).read_text())
        return found


def ran(out: Path, *arguments: object) -> Ran:
    ended = finished(*arguments, "--out", out)
    assert ended.returncode in (0, 1), ended.stderr  # so short, a point may be valid or not
    return Ran(out, ended.stderr)


def counters(url: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return {series.metric.value: value for series, value in known_samples(lines)}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of an engine that commits two tokens a step."""
    process = launch_simulator(
        ServerConfig(engine=EngineModel(step_base_ms=2.0, tokens_per_step=2))
    )
    yield process.url
    process.close()


@pytest.fixture(scope="module")
def plain(
    tmp_path_factory: pytest.TempPathFactory, small_traces: Path, server: str
) -> tuple[Ran, dict[str, float]]:
    """A run, and what the engine's counters said after it."""
    run = ran(
        tmp_path_factory.mktemp("plain") / "out",
        "run", "--url", server, "--traces", small_traces, "--concurrency", "4",
        "--workers", "1", "--override", "window_s=2", "--override", "grace_s=30", *SHORT,
    )  # fmt: skip
    return run, counters(server)


@pytest.fixture(scope="module")
def with_tools(
    plain: tuple[Ran, dict[str, float]],
    tmp_path_factory: pytest.TempPathFactory,
    small_traces: Path,
    server: str,
) -> Ran:
    """A run with tool messages on the same engine, once the counters of the other are read."""
    out = tmp_path_factory.mktemp("tools") / "out"
    more = ("--tool-messages", "--timestamps", "process", "--traces", small_traces)
    return ran(out, "run", *BRIEF, "--url", server, *more)


def test_a_run_says_in_one_line_that_lengths_are_exact_and_keeps_how(
    plain: tuple[Ran, dict[str, float]],
) -> None:
    run, _ = plain
    assert exact_by(run.said) == f"{WORDS}, counted by /tokenize"
    whole, summary = run.document("calibration.json"), run.document("sweep.json")["calibration"]
    assert len(whole["words"]) == summary["words"] == 1_234
    assert whole["cost"] == summary["cost"]
    proven = summary["verification"]
    assert proven["exact"] == proven["probes"] >= 8


def test_the_engine_looked_up_and_found_what_the_client_was_told(
    plain: tuple[Ran, dict[str, float]],
) -> None:
    run, after = plain
    (point,) = read_points(run.out)
    samples = read_server_metrics(point.directory).to_pylist()
    before = {row["metric"]: row["value"] for row in reversed(samples)}  # the first of each
    responses = point.requests(("status", "prompt_tokens", "cached_tokens")).to_pylist()
    assert {row["status"] for row in responses} == {"ok"}
    for metric, column in (
        ("cache_queries_total", "prompt_tokens"), ("cache_hits_total", "cached_tokens"),
    ):  # fmt: skip
        assert after[metric] - before[metric] == sum(row[column] for row in responses)


def test_what_was_scraped_is_on_record_under_the_engines_names(
    plain: tuple[Ran, dict[str, float]],
) -> None:
    run, _ = plain
    target = run.document("sweep.json")["target"]
    assert target["metrics"] == [target["url"].removesuffix("/v1") + "/metrics"]
    (point,) = read_points(run.out)
    assert set(read_server_metrics(point.directory)["name"].to_pylist()) == {
        "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
        "vllm:num_preemptions_total", "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total",
    }  # fmt: skip


def test_the_page_says_that_both_counts_agree_and_how_many_tokens_an_event_has(
    plain: tuple[Ran, dict[str, float]],
) -> None:
    page = (plain[0].out / "report.html").read_text()
    counted = page.split("<h3>The cache, counted twice<")[1].split("</table>")[0]
    (verdict,) = counted.split("<tr>")[2:]
    assert "agree</td>" in verdict
    assert "DISAGREE" not in page
    # One token in a response's first event, two in each that follows, one where one is left.
    section = page.split("<h2>Speculative decoding</h2>")[1]
    row = re.findall(r"<t[dh][^>]*>([^<]*)<", section.split("<tr>")[2])
    concurrency, per_event, *of_drafts = row[:7]
    assert (concurrency, of_drafts) == ("4", ["-"] * 5)
    assert 1.3 < float(per_event) <= 2.0


def test_a_point_says_who_stamped_its_arrivals(
    plain: tuple[Ran, dict[str, float]], with_tools: Ran
) -> None:
    for run, level, by in (
        (plain[0], "c0004", timestamps_here()), (with_tools, "c0001", "process"),
    ):  # fmt: skip
        assert run.document(f"{level}/point.json")["facts"]["timestamps"] == by
        assert run.document("sweep.json")["host"]["receive_buffer_bytes"] >= 65_536


def test_tool_messages_are_exact_on_record_and_not_comparable_by_name(with_tools: Ran) -> None:
    assert (exact_by(with_tools.said) or "").startswith(f"{WORDS}, tool messages, ")
    (point,) = read_points(with_tools.out)
    errors = point.requests(("prompt_length_error",))["prompt_length_error"]
    assert set(errors.to_pylist()) == {0}
    sweep = with_tools.document("sweep.json")
    assert sweep["tool_messages"] is True
    assert sweep["calibration"]["cost"]["tool_messages"] is True
    findings = with_tools.document("c0001/point.json")["findings"]
    assert "tool-messages" in [each["code"] for each in findings]


def test_a_calibration_is_used_again_for_the_same_messages_alone(
    plain: tuple[Ran, dict[str, float]],
    with_tools: Ran,
    tmp_path: Path,
    small_traces: Path,
    server: str,
) -> None:
    run = ("run", *BRIEF, "--url", server, "--traces", small_traces, "--calibration")
    again = ran(tmp_path / "again", *run, plain[0].out / "calibration.json")
    assert exact_by(again.said) == f"{WORDS}, counted by /tokenize"
    other = with_tools.out / "calibration.json"
    said = refusal(*run, other, "--out", tmp_path / "never")
    assert "[calibration-of-other-messages]" in said
    (tmp_path / "none.json").write_text("{}")
    said = refusal(*run, tmp_path / "none.json", "--out", tmp_path / "never")
    assert "[not-a-calibration]" in said


def test_a_resumed_run_leaves_out_its_tool_messages_on_record_and_is_calibrated_anew(
    with_tools: Ran, tmp_path: Path
) -> None:
    mixed = Ran(shutil.copytree(with_tools.out, tmp_path / "mixed"), "")
    resume = ("sweep", "--resume", "--out", mixed.out)
    both = refusal(*resume, "--live-history")
    assert "[live-history-with-tool-messages]" in both
    (tmp_path / "plain.toml").write_text("tool-messages = false")
    plain = (*resume, "--config", tmp_path / "plain.toml", "--concurrency", "2")
    refused = refusal(*plain)
    assert "[resume-differs]" in refused
    assert "[calibration-of-other" not in refused
    ended = finished(*plain, "--override")
    assert exact_by(ended.stderr) == f"{WORDS}, counted by /tokenize"
    (again,) = mixed.document("sweep.json")["resumed"]
    assert again["differences"][-1].startswith("--tool-messages was given ")


def test_completions_are_calibrated_by_token_ids(
    tmp_path: Path, small_traces: Path, server: str
) -> None:
    run = ("run", *BRIEF, "--url", server, "--traces", small_traces, "--endpoint", "completions")
    done = ran(tmp_path / "ids", *run)
    assert exact_by(done.said) == f"{WORDS}, counted by usage"
    assert len(done.document("calibration.json")["ids"]) == 1_235
    said = refusal(*run, "--tool-messages", "--out", tmp_path / "never")
    assert "[tool-messages-without-chat]" in said


def test_what_the_kernel_does_not_say_cannot_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_stamps, "timestamps_here", lambda: "process")
    said = refusal("run", "--timestamps", "kernel", "--out", tmp_path / "out")
    assert "[timestamps-without-kernel]" in said
    assert not (tmp_path / "out").exists()

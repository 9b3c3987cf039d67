"""Facts of a system as a person gives them: on record, in place of options, refused."""

import json
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from command_line import SHORT, finished, refusal, told
from golden_files import Goldens
from made_runs import Level, make_run

from agentx_replay.results.run_directory import read_sweep
from agentx_replay.results.system_facts import system_of


@pytest.fixture
def measured(tmp_path: Path, small_traces: Path) -> Any:
    """Measure one level in virtual time with more arguments; return what is on record."""

    def run(*more: object) -> dict[str, Any]:
        out = tmp_path / "out"
        level = ("run", "--virtual", "--concurrency", "2", "--traces", small_traces)
        done = finished(*level, "--out", out, *more)
        assert done.returncode in (0, 1), done.stderr
        return dict(read_sweep(out))

    return run


def test_facts_of_a_file_and_of_the_command_line_are_on_record(
    measured: Any, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('hw = "b300"\ngpus = 8\nlaunch = "x --api-key sk-1"\nsnapshot = 2026-10-09\n')
    sweep = measured("--system", file, "--fact", "tp=8", "--fact", "launch=y --hf-token hf-1")
    assert sweep["system"] == {
        "hw": "b300", "gpus": 8, "launch": "y --hf-token ***", "snapshot": "2026-10-09", "tp": 8,
    }  # fmt: skip
    assert (sweep["gpus"], sweep["command"][-1]) == (8, "launch=y --hf-token ***")
    assert not any(secret in json.dumps(sweep) for secret in ("sk-1", "hf-1"))


def test_facts_are_checked_before_anything_is_measured(tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    assert "[fact-unknown]" in refusal("run", "--virtual", *out, "--fact", "tpp=8")
    twice = ("--gpus", "4", "--fact", "gpus=8")
    assert "[gpus-contradicted]" in refusal("run", "--virtual", *out, *twice)
    bad = tmp_path / "bad.toml"
    bad.write_text("tp = \n")
    assert "[system-not-toml]" in refusal("run", "--virtual", *out, "--system", bad)
    assert "[file-unreadable]" in refusal("sweep", "--virtual", *out, "--system", tmp_path / "no")
    assert not (tmp_path / "out").exists()


PAGES = {
    "/v1/models": '{"data": [{"id": "m"}]}',
    "/get_server_info": '{"tp_size": 4, "page_size": 64, "api_key": "sk-1"}',
    "/metrics": "sglang:max_total_num_tokens 900000\n",
    "/gpus": 'DCGM_FI_DEV_FB_FREE{gpu="0",UUID="G",modelName="B300",Hostname="a"} 274658\n',
}


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = PAGES.get(self.path)
        self.send_response(404 if body is None else 200)
        self.end_headers()
        self.wfile.write((body or "").encode())

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_file_of_what_a_server_tells_is_one_of_facts(url: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    done = finished("system", "--url", url, "--exporter", f"{url}/gpus", "--out", file)
    assert done.returncode == 0, done.stderr
    told = system_of(tomllib.loads(file.read_text()), "it")
    assert told.facts == {
        "model": "m", "framework": "sglang", "tp": 4, "block_size": 64, "hw": "B300", "gpus": 1,
        "nodes": 1, "hbm_gb": 288.0, "kv_cache_pool_tokens": 900_000,
    }  # fmt: skip
    lines = file.read_text().splitlines()
    assert "# usd_per_gpu_hour =  # a number above 0" in lines[lines.index("[price]") :]
    assert "[system-file-exists]" in refusal("system", "--url", url, "--out", file)


def test_the_simulator_is_told_as_itself(slow_server: str, tmp_path: Path) -> None:
    file = tmp_path / "it.toml"
    assert finished("system", "--url", slow_server, "--out", file).returncode == 0
    assert tomllib.loads(file.read_text())["framework"] == "agentx-replay simulator"


def test_a_server_that_tells_nothing_is_an_error(url: str, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "mine.toml")
    gone = refusal("system", "--url", "http://127.0.0.1:1", *out, exit_code=3)
    assert "[server-tells-nothing]" in gone
    other = refusal("system", "--url", url, "--exporter", f"{url}/metrics", *out, exit_code=3)
    assert "[exporter-unknown]" in other


def test_what_the_server_tells_otherwise_is_a_warning(tmp_path: Path, small_traces: Path) -> None:
    run = ("run", "--concurrency", "1", "--traces", small_traces, "--out", tmp_path / "out")
    done = finished(*run, "--window", "1s", *SHORT, "--fact", "model=other", "--json")
    codes = [each["code"] for each in json.loads(done.stdout)["findings"]]
    assert codes.count("facts-contradicted") == 1


def test_facts_given_to_a_report_win_over_those_on_record(tmp_path: Path) -> None:
    kept = {"hw": "b300", "tp": 4}
    run = make_run(tmp_path / "r", [Level(4, 50.0, 100.0)], gpus=None, system=kept)
    found = told("report", run, "--fact", "tp=8", "--fact", "gpus=8")
    assert found["system"] == {"hw": "b300", "tp": 8, "gpus": 8}
    assert found["points"][0]["gpus"] == 8
    assert read_sweep(run)["system"] == kept
    measured = make_run(tmp_path / "m", [Level(4, 50.0, 100.0)], gpus=8)
    assert "[gpus-not-as-measured]" in refusal("report", measured, "--fact", "gpus=16")


def test_a_whole_report_shows_the_facts_and_what_is_not_given(
    tmp_path: Path, goldens: Goldens
) -> None:
    system = {
        "hw": "mi355x", "image": "vllm:1", "launch": "x -tp 8", "precision": "fp4",
        "price": {"usd_per_gpu_hour": 1.5, "kind": "cost: owned", "date": "2026-10-09"},
        "level": [{"concurrency": [48, 70], "draft_tokens": 0}],
    }  # fmt: skip
    levels = [Level(4, 60.0, 100.0), Level(48, 40.0, 200.0)]
    run = make_run(tmp_path / "r", levels, system=system)
    blocks = finished("report", run, "--full", "--at", "50").stdout.split("\n\n")
    shown = [
        each for each in blocks if each.startswith(("The system", "Assumptions", "Five questions"))
    ]
    goldens.check_text("words/system", "\n\n".join(shown) + "\n")


def test_goodput_per_dollar_is_of_hours_that_are_used(tmp_path: Path) -> None:
    """100 tok/s/GPU at $1.50, of which 0.5 of the hours are used: 100 × 3,600 × 0.5 / 1.50."""
    price = {"usd_per_gpu_hour": 1.5, "utilisation": 0.5}
    run = make_run(tmp_path / "r", [Level(4, 50.0, 100.0)], system={"price": price})
    found = told("report", run, "--slo", "itl<=33ms")
    ((level,),) = [each["goodput"] for each in found["objectives"]]
    assert level["per_dollar"] == pytest.approx(120_000, rel=1e-3)

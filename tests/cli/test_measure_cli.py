"""The command line as a person meets it: what it prints, where, and its exit code."""

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import duckdb
import pytest
from command_line import finished


def queried(query: str) -> list[tuple[Any, ...]]:
    return duckdb.connect().execute(query).fetchall()


def refused(result: CompletedProcess[str], exit_code: int = 2) -> str:
    """Two sentences on standard error, nothing on standard output, no traceback."""
    assert result.returncode == exit_code, result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    what, what_to_do = result.stderr.strip().splitlines()[-2:]
    assert what.startswith("agentx-replay: ")
    assert what.endswith(".")
    assert what_to_do.endswith(".")
    return what + "\n" + what_to_do


def test_an_unknown_scenario_names_those_there_are(tmp_path: Path) -> None:
    result = finished("sweep", "--virtual", "--scenario", "nope", "--out", str(tmp_path / "o"))
    assert "agentx, agentx-faithful, agentx-fast, look, quick" in refused(result)


def test_an_output_directory_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    told = refused(finished("sweep", "--virtual", "--out", str(tmp_path)))
    assert "not empty" in told
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("t.json", b"", "t.json"),
        ("t.json", b"{nonsense", "t.json"),
        ("t.json", b'{"id": "a", "block_size": 64, "requests": "none"}', "requests"),
        ("t.json.gz", b"not gzip", "t.json.gz"),
    ],
)
def test_a_malformed_trace_is_named(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    trace = tmp_path / name
    trace.write_bytes(content)
    result = finished("sweep", "--virtual", "--traces", str(trace), "--out", str(tmp_path / "o"))
    assert told in refused(result)


def test_an_empty_or_missing_corpus_is_told(tmp_path: Path) -> None:
    out = str(tmp_path / "o")
    assert str(tmp_path) in refused(
        finished("sweep", "--virtual", "--traces", str(tmp_path), "--out", out)
    )
    missing = str(tmp_path / "missing")
    assert missing in refused(finished("sweep", "--virtual", "--traces", missing, "--out", out))


def test_a_context_too_small_for_every_session_says_what_the_smallest_needs(tmp_path: Path) -> None:
    out = tmp_path / "o"
    result = finished("sweep", "--virtual", "--max-context", "500", "--out", str(out))
    told = refused(result, exit_code=3)
    assert "[no-session-fits]" in told
    assert "--max-context-policy request" in told
    assert not out.exists()


def test_a_virtual_sweep_ends_valid_with_a_table_and_parquet(tmp_path: Path) -> None:
    out = tmp_path / "o"
    result = finished(
        "sweep", "--virtual", "--concurrency", "2,4", "--gpus", "8", "--out", str(out)
    )
    assert result.returncode == 0, result.stdout + result.stderr
    *table, _, _ = result.stdout.splitlines()  # the last ones hold paths
    assert "tok/s/GPU" in result.stdout
    assert max(map(len, table)) <= 80
    rows = queried(
        "select concurrency, count(*), sum(prompt_tokens + completion_tokens) "
        f"from read_parquet('{out}/**/requests*/*.parquet', union_by_name=true) "
        "group by 1 order by 1"
    )
    assert [row[0] for row in rows] == [2, 4]
    assert all(count > 0 and tokens > 0 for _, count, tokens in rows)
    for level in ("c0002", "c0004"):
        point = json.loads((out / level / "point.json").read_text())
        assert point["status"] == "complete"
        assert point["valid"] is True
        assert point["comparable"] is False
        assert any("quick" in reason for reason in point["incomparable_reasons"])


def test_json_is_the_only_thing_on_standard_output(tmp_path: Path) -> None:
    out = tmp_path / "o"
    result = finished("run", "--virtual", "--concurrency", "2", "--json", "--out", str(out))
    document = json.loads(result.stdout)
    assert document["out"] == str(out)
    assert [point["concurrency"] for point in document["points"]] == [2]


def test_a_report_repeats_what_the_run_said(tmp_path: Path) -> None:
    out = tmp_path / "o"
    ran = finished("run", "--virtual", "--concurrency", "2", "--json", "--out", str(out))
    reported = finished("report", str(out), "--json")
    assert json.loads(reported.stdout)["points"] == json.loads(ran.stdout)["points"]
    assert reported.returncode == ran.returncode


def test_a_report_of_something_else_is_refused(tmp_path: Path) -> None:
    assert "[not-a-run]" in refused(finished("report", str(tmp_path)))


def test_options_come_from_a_config_file_and_the_command_line_wins(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text('concurrency = [2, 4]\nvirtual = true\ngpus = 4\noverride = ["window_s=8"]\n')
    out = tmp_path / "o"
    result = finished("sweep", "--config", str(config), "--gpus", "2", "--json", "--out", str(out))
    points = json.loads(result.stdout)["points"]
    assert [(p["concurrency"], p["gpus"], p["window_s"]) for p in points] == [(2, 2, 8), (4, 2, 8)]


def test_a_config_file_with_an_unknown_option_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text("concurency = 2\n")
    told = refused(finished("sweep", "--config", str(config)))
    assert "unknown option 'concurency'" in told


def test_the_same_seed_and_salt_give_the_same_records_in_virtual_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        finished(
            "run", "--virtual", "--concurrency", "4", "--salt", "s", "--out", f"{tmp_path}/{name}"
        )
    tables = [
        queried(f"select * from '{tmp_path}/{name}/c0004/requests.parquet/*.parquet'")
        for name in ("a", "b")
    ]
    assert tables[0] == tables[1]


@pytest.mark.parametrize("command", [(), ("run",), ("sweep",), ("plan",), ("report",), ("traces",)])
def test_help_is_short_and_fits_a_terminal(command: tuple[str, ...]) -> None:
    result = finished(*command, "--help")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert len(lines) <= 72
    assert max(map(len, lines)) <= 100
    assert "agentx-replay" in result.stdout
    assert "\nMore:\n" not in result.stdout, "an option is in no section"

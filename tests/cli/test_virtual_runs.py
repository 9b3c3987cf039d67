"""Runs in virtual time as a person meets them: what is printed, kept, and said against a point."""

import json
import subprocess
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pyarrow.parquet as pq
import pytest
from command_line import finished, refusal
from small_corpus import corpus, request, session


@pytest.fixture
def run(tmp_path: Path, small_traces: Path) -> "Run":
    return Run(tmp_path / "out", small_traces)


class Run:
    """A run of one level, to be begun with more arguments."""

    def __init__(self, out: Path, traces: Path) -> None:
        self.out = out
        self._arguments = ("run", "--virtual", "--concurrency", "2", "--traces", traces)

    def __call__(self, *more: str) -> CompletedProcess[str]:
        return finished(*self._arguments, "--out", self.out, *more)

    @property
    def point(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / "c0002" / "point.json").read_text())
        return found

    def codes(self, kind: str) -> list[str]:
        return [each["code"] for each in self.point["findings"] if each["kind"] == kind]


@pytest.fixture(scope="module")
def swept(
    tmp_path_factory: pytest.TempPathFactory, small_traces: Path
) -> tuple[Path, dict[str, Any]]:
    """A sweep of two levels: its directory and what it said as JSON, alone on standard output."""
    out = tmp_path_factory.mktemp("swept") / "out"
    levels = ("--concurrency", "2,4", "--gpus", "8", "--traces", small_traces)
    done = finished("sweep", "--virtual", *levels, "--json", "--out", out)
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout)


def test_a_sweep_ends_valid_with_parquet(swept: tuple[Path, dict[str, Any]]) -> None:
    out, told = swept
    assert told["out"] == str(out)
    assert [point["concurrency"] for point in told["points"]] == [2, 4]
    for level, concurrency in (("c0002", 2), ("c0004", 4)):
        rows = pq.read_table(out / level / "requests.parquet").to_pylist()
        assert {row["concurrency"] for row in rows} == {concurrency}
        assert all(row["prompt_tokens"] > 0 for row in rows)
        point = json.loads((out / level / "point.json").read_text())
        assert (point["status"], point["valid"], point["comparable"]) == ("complete", True, False)
        assert point["fidelity"]["conformity"]["requests"] > 0
        assert point["fidelity"]["trees_least"] == point["fidelity"]["trees_most"]


def test_a_report_repeats_what_the_run_said(swept: tuple[Path, dict[str, Any]]) -> None:
    out, told = swept
    reported = finished("report", out, "--json")
    assert reported.returncode == 0
    assert json.loads(reported.stdout)["points"] == told["points"]


def test_a_page_that_cannot_be_written_takes_nothing_off_the_report(run: Run) -> None:
    assert run("--override", "window_s=4").returncode == 0
    (run.out / "report.html").unlink()
    (run.out / "report.html").mkdir()
    (run.out / "report.html" / "in the way").write_text("")
    result = finished("report", run.out)
    assert result.returncode == 2
    assert "tok/s" in result.stdout
    assert f" {run.out}/report.html: " in result.stderr
    assert "[page-not-written]" in result.stderr
    assert len(result.stderr.splitlines()) == 2


def test_the_same_seed_and_salt_give_the_same_records(tmp_path: Path, small_traces: Path) -> None:
    tables = []
    for out in (tmp_path / "a", tmp_path / "b"):
        Run(out, small_traces)("--salt", "s", "--override", "window_s=4")
        tables.append(pq.read_table(out / "c0002" / "requests.parquet").to_pylist())
    assert len(tables[0]) > 0
    assert tables[0] == tables[1]


def test_a_run_that_needs_no_other_process_starts_none(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr(subprocess.Popen, "__init__", lambda *arguments: started.append(arguments))
    assert run("--override", "window_s=1").returncode in (0, 1)
    assert started == []


# --- what is said against a point ----------------------------------------------------------------


def test_an_overridden_rule_is_recorded_and_not_comparable(run: Run) -> None:
    told = run("--scenario", "agentx", "--override", "window_s=30.0", "--override", "seed=42")
    # A seed of 42 is the scenario's own: nothing is changed by saying so.
    assert run.codes("incomparable") == [
        "no-server", "rules-overridden", "window-short", "sessions-lacking",
    ]  # fmt: skip
    whole = " ".join(finished("report", run.out, "--full").stdout.split())
    for reason in run.point["incomparable_reasons"]:
        assert reason in whole
    sweep = json.loads((run.out / "sweep.json").read_text())
    assert sweep["scenario"]["overridden"] == ["window_s"]
    assert "window_s" in told.stderr


def test_a_warm_up_that_fails_is_not_valid_and_says_so(run: Run) -> None:
    told = run("--override", "warmup_timeout_s=0.001")
    assert told.returncode == 1
    assert (run.point["status"], run.point["valid"]) == ("failed", False)
    assert run.codes("invalid") == ["warm-up-timed-out"]
    (reason,) = run.point["invalid_reasons"]
    assert "0.001 s" in reason
    assert reason in " ".join(told.stdout.split())
    assert run.point["fidelity"] is None
    assert "nothing-measured" in run.codes("incomparable")


def test_requests_that_are_cut_are_not_valid_and_counted(run: Run) -> None:
    assert run("--override", "window_s=2.02", "--override", "grace_s=0.0").returncode == 1
    assert "requests-cut" in run.codes("invalid")


def test_tool_messages_without_a_wire_have_an_assumed_cost(run: Run) -> None:
    run("--tool-messages", "--override", "window_s=2")
    calibration = json.loads((run.out / "sweep.json").read_text())["calibration"]
    assert calibration["cost"]["tool_messages"] is True
    assert calibration["verification"]["probes"] == 0
    assert "tool-messages" in run.codes("incomparable")


# --- what is refused, or shown otherwise ---------------------------------------------------------


def test_what_was_there_before_is_left_alone(tmp_path: Path, small_traces: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    run = ("sweep", "--virtual", "--traces", small_traces, "--out", tmp_path)
    assert "[out-not-empty]" in refusal(*run)
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("t.json", b"", "t.json"),
        ("t.json", b"{nonsense", "t.json"),
        ("t.json", b'{"id": "a", "block_size": 64, "requests": "none"}', "requests"),
        ("t.json.gz", b"not gzip", "t.json.gz"),
    ],
)
def test_a_malformed_trace_is_named(tmp_path: Path, name: str, content: bytes, named: str) -> None:
    (tmp_path / name).write_bytes(content)
    said = refusal("sweep", "--virtual", "--traces", tmp_path / name, "--out", tmp_path / "o")
    assert named in said


def test_a_context_too_small_for_every_session_says_what_the_smallest_needs(run: Run) -> None:
    result = run("--max-context", "500")
    assert (result.returncode, result.stdout) == (3, "")
    assert "[no-session-fits]" in result.stderr
    assert not run.out.exists()


def test_a_check_that_found_bad_files_fails(tmp_path: Path) -> None:
    corpus(tmp_path, session("good", request(0, [1])))
    (tmp_path / "bad.json").write_text("{")
    result = finished("traces", "check", tmp_path)
    assert result.returncode == 1
    assert result.stdout.count("bad.json") == 1


@pytest.mark.parametrize("command", [("traces", "check"), ("plan", "--skip-bad", "--traces")])
def test_a_corpus_of_bad_files_alone_names_each(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text("[]")
    said = refusal(*command, tmp_path)
    assert "[corpus-without-session]" in said
    assert f"  {tmp_path / 'a.json'}: " in said
    assert f"  {tmp_path / 'b.json'}: " in said


def test_characters_that_move_a_cursor_are_shown_escaped(tmp_path: Path) -> None:
    """In an id NUL, ESC, a C1 control and a mark that turns the reading direction round; in paths
    of messages and of errors ESC.
    """
    traces, out = tmp_path / "traces", tmp_path / "r\x1b[31m"
    corpus(traces, session("a\0\x1b[31m\x9b\u202e", request(0, [1]), request(1, [1, 2])))
    shown = finished("traces", "stats", traces).stdout
    assert "a\\x00\\x1b[31m\\x9b\\u202e" in shown
    run = ("run", "--virtual", "--concurrency", "1", "--override", "window_s=0.1")
    done = finished(*run, "--traces", traces, "--out", out)
    assert "\\x1b[31m" in done.stderr
    absent = finished("report", f"{tmp_path}/\x1b[2J").stderr
    assert "\\x1b[2J" in absent
    said = shown + done.stdout + done.stderr + absent
    assert not {"\0", "\x1b", "\x9b", "\u202e"} & set(said)


@pytest.mark.parametrize("command", [(), ("run",), ("sweep",), ("plan",), ("report",), ("traces",)])
def test_help_is_short_and_fits_a_terminal(command: tuple[str, ...]) -> None:
    result = finished(*command, "--help")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert len(lines) <= 96
    assert max(map(len, lines)) <= 100
    assert "\nMore:\n" not in result.stdout, "an option is in no section"

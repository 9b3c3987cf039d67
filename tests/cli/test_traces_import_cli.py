"""``agentx-replay traces import``: from logs on disk to a corpus that the reader takes."""

import os
import select
import signal
from pathlib import Path

import orjson
import pytest
from claude_logs import SESSION, answer, told, usage, write_log
from command_line import finished, refusal, started

from agentx_replay.traces.corpus import read_corpus


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "logs" / "s.jsonl", *SESSION)


@pytest.mark.parametrize("name", ["mine.jsonl", "mine.jsonl.gz", "mine.jsonl.zst"])
def test_a_log_becomes_a_corpus(tmp_path: Path, log: Path, name: str) -> None:
    out = tmp_path / name
    done = finished("traces", "import", str(log.parent), "--out", str(out), "--json")
    assert done.returncode == 0
    said = orjson.loads(done.stdout)
    assert (said["sessions"], said["requests"], said["input_tokens"]) == (1, 3, 642 + 1_282 + 1_922)
    # 10 blocks, then 10 of 20, then 20 of 30 were known.
    assert (said["known_blocks"], said["blocks"]) == (30, 60)
    (session,) = read_corpus(out).sessions
    assert [each.start_s for each in session.requests()] == [0, 10, 20]
    assert [each.duration_s for each in session.requests()] == [2, 2, 2]


def test_the_usual_folder_is_read_without_a_path(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "claude").mkdir()
    log.parent.rename(tmp_path / "claude" / "projects")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    out = tmp_path / "mine.jsonl"
    assert finished("traces", "import", "claude-code", "--out", str(out)).returncode == 0
    assert len(read_corpus(out).sessions) == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["openrouter", "LOG"], "import-format-refused"),
        (["cluade", "LOG"], "import-format-unknown"),
        (["claude-code", "missing"], "import-path-missing"),
        (["missing.jsonl"], "import-path-missing"),
        (["logs/missing"], "import-path-missing"),
        (["LOG", "--min-requests", "4"], "import-without-session"),
        (["OTHER"], "import-format-unrecognised"),
        (["EMPTY"], "import-without-log"),
        (["LOG", "--out", "corpus.txt"], "corpus-name-unfit"),
        (["LOG", "--out", "missing/mine.jsonl"], "directory-missing"),
    ],
)
def test_what_cannot_be_imported_leaves_no_file(
    tmp_path: Path, log: Path, words: list[str], code: str
) -> None:
    other, empty = write_log(tmp_path / "other.jsonl", {"a": 1}), tmp_path / "empty"
    empty.mkdir()
    paths = {"LOG": str(log), "OTHER": str(other), "EMPTY": str(empty)}
    out = tmp_path / "out" / "mine.jsonl"
    out.parent.mkdir()
    given = [paths.get(word, word) for word in words]
    assert f"[{code}]" in refusal("traces", "import", "--out", str(out), *given)
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "value", "kept"),
    [
        ("--since", "2026-05-02", 0),
        ("--since", "2026-05-01", 1),
        ("--until", "2026-05-01", 0),
        ("--project", "*/logs", 1),
        ("--project", "*/others", 0),
        ("--max-gap", "9s", 1),
    ],
)
def test_filters(tmp_path: Path, log: Path, option: str, value: str, kept: int) -> None:
    out = tmp_path / "mine.jsonl"
    done = finished("traces", "import", str(log), "--out", str(out), option, value)
    assert (done.returncode == 0, out.exists()) == (bool(kept), bool(kept))


def test_a_session_is_split_at_pauses(tmp_path: Path, log: Path) -> None:
    out = tmp_path / "mine.jsonl"
    split = ("--max-gap", "7s", "--min-requests", "1")
    assert finished("traces", "import", str(log), "--out", str(out), *split).returncode == 0
    sessions = read_corpus(out).sessions
    assert [len(each.requests()) for each in sessions] == [1, 1, 1]


@pytest.mark.parametrize(
    ("number", "left"), [(signal.SIGINT, []), (signal.SIGKILL, [".mine.jsonl.tmp"])]
)
def test_a_signal_while_it_writes_leaves_no_half_file(
    tmp_path: Path, number: signal.Signals, left: list[str]
) -> None:
    """The temporary file is a pipe that nobody empties, so the import stands still within it."""
    million = usage(0, 10**6)  # 15,625 blocks: more text than a pipe holds
    log = write_log(tmp_path / "s.jsonl", told(0), *(answer(n, f"{n}", million) for n in (1, 2, 3)))
    out = tmp_path / "out" / "mine.jsonl"
    out.parent.mkdir()
    os.mkfifo(pipe := out.with_name(".mine.jsonl.tmp"))
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with started(tmp_path, "traces", "import", str(log), "--out", str(out)) as command:
        command.wait_until(lambda: bool(select.select([reading], [], [], 0)[0]))
        command.signal(number)
        command.ended()
    os.close(reading)
    assert [each.name for each in out.parent.iterdir()] == left

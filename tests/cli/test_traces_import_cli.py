"""``agentx-replay traces import``: from logs on disk to a corpus that the reader takes."""

from pathlib import Path

import orjson
import pytest
from claude_logs import SESSION, write_log
from command_line import finished

from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.importing.writer import Writer


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "logs" / "s.jsonl", *SESSION)


def test_a_log_becomes_a_corpus(tmp_path: Path, log: Path) -> None:
    out = tmp_path / "mine.jsonl.gz"
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
        (["LOG", "--min-requests", "4"], "import-without-session"),
        (["OTHER"], "import-format-unrecognised"),
        (["EMPTY"], "import-without-log"),
        (["LOG", "--out", "corpus.txt"], "corpus-name-unfit"),
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
    done = finished("traces", "import", "--out", str(out), *given)
    assert done.returncode == 2
    assert code in done.stderr
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


def test_an_interrupt_leaves_no_half_file(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(Writer, "line", interrupted)
    out = tmp_path / "out" / "mine.jsonl.gz"
    out.parent.mkdir()
    with pytest.raises(KeyboardInterrupt):
        finished("traces", "import", str(log), "--out", str(out))
    assert list(out.parent.iterdir()) == []

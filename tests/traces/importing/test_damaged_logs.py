"""Logs that are damaged: what is wrong is told in one sentence, and sound sessions are read."""

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from claude_logs import SESSION, answer, told, usage, write_log
from codex_logs import PARENT, meta
from command_line import finished

from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.importing import lines


def as_lines(*objects: object) -> bytes:
    return b"".join(orjson.dumps(each) + b"\n" for each in objects)


def cut_off(log: bytes) -> bytes:
    return log + b'{"type":"user","time'


def with_nul(log: bytes) -> bytes:
    return log + b"\0" * 100 + b"\n" + as_lines(told(90))


def with_a_long_line(log: bytes) -> bytes:
    return log + b'{"type":"user","x":"' + b"y" * 3_000 + b'"}\n' + as_lines(told(90))


def with_an_array(log: bytes) -> bytes:
    return log + b"[1, 2]\n"


def with_a_deep_line(log: bytes) -> bytes:
    # Deeper than msgspec reads, and short.
    return log + b'{"type":"user","message":' + b"[" * 900 + b"]" * 900 + b"}\n"


def without_a_timestamp(log: bytes) -> bytes:
    return log + as_lines({"type": "user", "sessionId": "s"})


@pytest.mark.parametrize(
    ("damage", "told_as", "at"),
    [
        (cut_off, lines.CUT_OFF, 7),
        (with_nul, lines.NOT_JSON, 7),
        (with_a_long_line, lines.TOO_LONG, 7),
        (with_an_array, lines.NOT_JSON, 7),
        (with_a_deep_line, lines.NOT_JSON, 7),
        (without_a_timestamp, "line without a timestamp", 7),
    ],
)
def test_a_damaged_line_is_left_out_and_the_session_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[bytes], bytes],
    told_as: str,
    at: int,
) -> None:
    monkeypatch.setattr(lines, "MOST_LINE_BYTES", 2_000)
    log = tmp_path / "s.jsonl"
    log.write_bytes(damage(as_lines(*SESSION)))
    out = tmp_path / "mine.jsonl"
    done = finished("traces", "import", "claude-code", str(log), "--out", str(out))
    assert f"1 × {told_as}" in " ".join(done.stdout.split())
    assert f"{log}:{at}" in done.stdout
    assert len(read_corpus(out).sessions[0].requests()) == 3


def test_counts_that_are_texts_refuse_their_session_and_no_other(tmp_path: Path) -> None:
    counts = usage(0, 10) | {"input_tokens": "12"}
    bad = write_log(tmp_path / "logs" / "bad.jsonl", told(0), answer(2, "x", counts))
    write_log(tmp_path / "logs" / "good.jsonl", *SESSION)
    codex = {"input_tokens": "7"}
    info = {"total_token_usage": codex, "last_token_usage": codex}
    event = {"type": "event_msg", "timestamp": PARENT[0]["timestamp"]}
    counted = {**event, "payload": {"type": "token_count", "info": info}}
    rollout = write_log(tmp_path / "logs" / "rollout-1.jsonl", meta(0, "a"), counted)
    out = tmp_path / "mine.jsonl"
    done = finished("traces", "import", str(bad.parent), "--out", str(out), "--json")
    first, second = orjson.loads(done.stdout)["refused"]
    assert first.startswith(f"{bad}:2: input_tokens is '12', ")
    assert second.startswith(f"{rollout}:2: input_tokens is '7', ")
    assert len(read_corpus(out).sessions) == 1


def test_lines_of_two_sessions_in_one_file_are_one_session(tmp_path: Path) -> None:
    mixed = [{**line, "sessionId": name} for line, name in zip(SESSION, "aabbaa", strict=True)]
    log, out = write_log(tmp_path / "s.jsonl", *mixed), tmp_path / "mine.jsonl"
    done = finished("traces", "import", str(log), "--out", str(out), "--json")
    assert list(orjson.loads(done.stdout)["assumed"].values()) == [1]
    assert len(read_corpus(out).sessions) == 1


def test_a_file_of_another_kind_is_told_apart_from_an_empty_one(tmp_path: Path) -> None:
    out = tmp_path / "mine.jsonl"
    for name, raw, code in (
        ("binary.jsonl", bytes(range(256)) * 40, "import-format-unrecognised"),
        ("empty.jsonl", b"", "import-format-unrecognised"),
        ("packed.jsonl.gz", b"not gzip", "import-format-unrecognised"),
    ):
        (tmp_path / name).write_bytes(raw)
        done = finished("traces", "import", str(tmp_path / name), "--out", str(out))
        assert (done.returncode, code in done.stderr) == (2, True), name
    assert not out.exists()

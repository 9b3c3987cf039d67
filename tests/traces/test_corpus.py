"""Which files make a corpus, how they are unpacked, and what stops or is left out."""

import gzip
import os
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refuses

from agentx_replay.errors import UsageError
from agentx_replay.traces import files as files_module
from agentx_replay.traces.corpus import read_corpus


def trace(name: str, **changes: Any) -> bytes:
    request = {"t": 0, "in": 128, "out": 5, "hash_ids": [1, 2], "model": "m", **changes}
    return orjson.dumps({"id": name, "block_size": 64, "requests": [request]})


def ids(path: Path) -> list[str]:
    return [session.id for session in read_corpus(path).sessions]


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as error:
        read_corpus(path)
    return str(error.value)


def test_a_directory_is_read_in_order_of_name_whatever_the_kind_of_file(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_bytes(trace("3"))
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(trace("1")))
    (tmp_path / "b.jsonl").write_bytes(trace("2a") + b"\n\n" + trace("2b"))
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(trace("4a") + b"\n" + trace("4b") + b"\n"))
    found = read_corpus(tmp_path)
    assert [session.id for session in found.sessions] == ["1", "2a", "2b", "3", "4a", "4b"]
    assert found.name == tmp_path.name


def test_other_files_and_manifests_of_a_directory_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(trace("1"))
    (tmp_path / "manifest.json").write_bytes(b'{"traces": []}')
    (tmp_path / "manifest.md").write_text("| name |")
    (tmp_path / "LICENSE").write_text("…")
    assert ids(tmp_path) == ["1"]


@pytest.mark.parametrize("name", ["t.json", "t.jsonl", "t.json.gz", "t.jsonl.gz"])
def test_a_single_file_is_a_corpus(tmp_path: Path, name: str) -> None:
    raw = trace("1")
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    assert ids(tmp_path / name) == ["1"]


def test_a_gzip_file_may_have_several_members_and_padding(tmp_path: Path) -> None:
    raw = trace("1")
    parts = gzip.compress(raw[:20]) + gzip.compress(raw[20:]) + b"\0\0"
    (tmp_path / "t.json.gz").write_bytes(parts)
    assert ids(tmp_path) == ["1"]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("t.json", b"", "this is empty"),
        ("t.json", b" \n ", "this is empty"),
        ("t.json.gz", b"", "this is empty"),
        ("t.json.gz", gzip.compress(b"", mtime=0), "this is empty"),
        (
            "t.json.gz",
            gzip.compress(trace("1"), mtime=0)[:-9],
            "it cannot be read (the file ends before",
        ),
        ("t.json.gz", trace("1"), "it cannot be read (Error -3 while decompressing"),
        ("t.jsonl.gz", trace("1"), "it cannot be read (Not a gzipped file"),
        (
            "t.jsonl.gz",
            gzip.compress(trace("1"), mtime=0)[:-9],
            "it cannot be read (Compressed file ended",
        ),
        ("t.json", trace("1") + trace("2"), "this is not a trace"),
        ("t.json", trace("1", out=-1), "requests[0].out is -1"),
    ],
)
def test_a_bad_file_is_named_with_the_reason_or_left_out_on_demand(
    tmp_path: Path, name: str, content: bytes, complaint: str
) -> None:
    bad = tmp_path / name
    bad.write_bytes(content)
    (tmp_path / "z.json").write_bytes(trace("good"))
    assert refusal(tmp_path).startswith(f"{bad}: {complaint}")
    found = read_corpus(tmp_path, skip_bad=True)
    assert [session.id for session in found.sessions] == ["good"]
    [(source, reason)] = found.skipped
    assert source == str(bad)
    assert reason.startswith(f"{bad}: {complaint}")


def test_a_bad_line_is_named_by_its_number_and_the_others_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(b"\n".join([trace("1"), b"", b"{", trace("2")]))
    assert refusal(file).startswith(f"{file}:3: ")
    found = read_corpus(file, skip_bad=True)
    assert [session.id for session in found.sessions] == ["1", "2"]
    assert [source for source, _ in found.skipped] == [f"{file}:3"]


def test_one_id_in_two_places_is_an_error_naming_both(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(trace("same"))
    (tmp_path / "b.json").write_bytes(trace("same", out=9))
    complaint = f"{tmp_path / 'b.json'}: its id 'same' is also that of {tmp_path / 'a.json'}"
    assert refusal(tmp_path).startswith(complaint)
    found = read_corpus(tmp_path, skip_bad=True)
    assert [r.output_tokens for s in found.sessions for r in s.requests()] == [5]


def test_a_session_too_large_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_module, "MOST_SESSION_BYTES", 2**20)
    zeros = b" " * (2**20 + 1)
    (tmp_path / "a.json").write_bytes(zeros)
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(zeros))
    (tmp_path / "c.json.gz").write_bytes(2 * gzip.compress(zeros[: 2**19 + 1]))
    (tmp_path / "d.jsonl").write_bytes(zeros)
    (tmp_path / "e.jsonl.gz").write_bytes(gzip.compress(zeros))
    (tmp_path / "f.json").write_bytes(trace("good"))
    skipped = read_corpus(tmp_path, skip_bad=True).skipped
    assert [Path(source.split(":")[0]).name[0] for source, _ in skipped] == list("abcde")
    assert all(" 1 MiB " in reason for _, reason in skipped)


def test_zstandard_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a.json.zst").write_bytes(zstandard(trace("1")))
    (tmp_path / "b.jsonl.zst").write_bytes(zstandard(trace("2a") + b"\n" + trace("2b")))
    assert ids(tmp_path) == ["1", "2a", "2b"]


@pytest.mark.parametrize("name", ["t.json.zst", "t.jsonl.zst", "t.parquet", "t.json.gz"])
@pytest.mark.parametrize("damage", ["cut", "other"])
def test_a_packed_file_that_is_damaged_is_named(tmp_path: Path, name: str, damage: str) -> None:
    packed = {"zst": zstandard(trace("1")), "gz": gzip.compress(trace("1"))}
    whole = packed.get(name.rpartition(".")[2], rows([trace("1")]))
    file = tmp_path / name
    file.write_bytes(whole[:-9] if damage == "cut" else b"something else, not packed at all")
    assert refusal(file).startswith(f"{file}: it cannot be read (")


def test_a_parquet_file_of_rows_is_the_same_corpus_as_its_json(tmp_path: Path) -> None:
    """In a table a marker has the fields of a request, and a request those of a marker, as null."""
    request = {"t": 9.0, "in": 256, "out": 5, "hash_ids": [1, 2, 3, 4], "model": "m"}
    inner = {"t": 0.0, "in": 64, "out": 2, "hash_ids": [9], "model": "m"}
    marker = {"type": "subagent", "t": 3.0, "agent_id": "a", "duration_ms": 2000}
    marker["requests"] = [inner]
    with_agent = orjson.loads(trace("1", api_time=1.5))
    with_agent["requests"] += [marker, request]
    sessions = [orjson.dumps(with_agent), trace("2", think_time=0.5)]
    (tmp_path / "t.jsonl").write_bytes(b"\n".join(sessions))
    (tmp_path / "t.parquet").write_bytes(rows(sessions))
    as_lines, as_rows = (read_corpus(tmp_path / f"t.{end}") for end in ("jsonl", "parquet"))
    assert as_rows.fingerprint == as_lines.fingerprint
    assert [len(list(session.requests())) for session in as_rows.sessions] == [3, 1]


def test_a_bad_row_is_named_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    file.write_bytes(rows([trace("1"), trace("2", out=-5)]))
    assert refusal(file).startswith(f"{file}, row 2: requests[0].out is -5")


def zstandard(raw: bytes) -> bytes:
    return bytes(pa.compress(raw, codec="zstd", asbytes=True))


def rows(sessions: list[bytes]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist([orjson.loads(raw) for raw in sessions]), sink)
    return bytes(sink.getvalue())


def test_a_path_without_traces_is_refused(tmp_path: Path) -> None:
    with refuses("traces-missing", str(tmp_path / "none")):
        read_corpus(tmp_path / "none")
    with refuses("traces-without-file", str(tmp_path)):
        read_corpus(tmp_path)
    (tmp_path / "t.csv").write_bytes(b"id")
    with refuses("traces-without-file", str(tmp_path)):
        read_corpus(tmp_path)
    with refuses("trace-name-unfit", str(tmp_path / "t.csv")):
        read_corpus(tmp_path / "t.csv")
    (tmp_path / "t.json").write_bytes(b"{}")
    (tmp_path / "u.json").write_bytes(b"")
    with refuses("corpus-without-session") as raised:
        read_corpus(tmp_path, skip_bad=True)
    first, *reasons = raised.value.what.splitlines()
    assert first.startswith(f"{tmp_path} ")
    assert [reason.split(": ")[0] for reason in reasons] == [
        f"  {tmp_path / 't.json'}", f"  {tmp_path / 'u.json'}",
    ]  # fmt: skip


def test_a_trace_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.json").mkdir()
    assert refusal(tmp_path).startswith(f"{tmp_path / 't.json'}: this is a directory")


@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "t.jsonl", "t.jsonl.zst", "t.parquet"])
def test_a_pipe_named_like_a_trace_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / name).symlink_to(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / name):
        assert refusal(path).startswith(f"{tmp_path / name}: this is a directory")


def test_a_link_to_a_trace_is_a_trace(tmp_path: Path) -> None:
    (tmp_path / "held").write_bytes(b"{}")
    (tmp_path / "t.json").symlink_to(tmp_path / "held")
    assert "pipe" not in refusal(tmp_path)


def test_a_name_too_long_to_be_one_is_refused(tmp_path: Path) -> None:
    with refuses("traces-unreadable", "File name too long"):
        read_corpus(tmp_path / ("x" * 300 + ".json"))


def fingerprint(path: Path, *traces: bytes, name: str = "t.jsonl") -> str:
    file = path / name
    raw = b"\n".join(traces)
    file.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return read_corpus(file).fingerprint


def test_the_fingerprint_is_of_what_is_replayed_and_of_nothing_else(tmp_path: Path) -> None:
    one = fingerprint(tmp_path, trace("1"), trace("2"))
    assert len(one) == 16
    assert int(one, 16) >= 0
    assert fingerprint(tmp_path, trace("1"), trace("2"), name="other.jsonl.gz") == one
    assert fingerprint(tmp_path, trace("1", hash_ids=[70, 80], stop="x"), trace("2")) == one
    different = [
        fingerprint(tmp_path, trace("2"), trace("1")),
        fingerprint(tmp_path, trace("1")),
        fingerprint(tmp_path, trace("1", out=6), trace("2")),
        fingerprint(tmp_path, trace("1", t=0.5), trace("2")),
        fingerprint(tmp_path, trace("1", api_time=2), trace("2")),
        fingerprint(tmp_path, trace("1", hash_ids=[1]), trace("2")),
    ]
    assert len({one, *different}) == 7

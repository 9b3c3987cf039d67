"""Which files make a corpus, how they are unpacked, packed again, and what is left out."""

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
from agentx_replay.traces.corpus import pack_corpus, read_corpus


def trace(name: str, **changes: Any) -> bytes:
    request = {"t": 0, "in": 128, "out": 5, "hash_ids": [1, 2], "model": "m", **changes}
    return orjson.dumps({"id": name, "block_size": 64, "requests": [request]})


def zstandard(raw: bytes) -> bytes:
    return bytes(pa.compress(raw, codec="zstd", asbytes=True))


def rows(sessions: list[bytes]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_struct_array(pa.array([orjson.loads(raw) for raw in sessions])), sink
    )
    return bytes(sink.getvalue())


PACKED = {
    "t.json": trace("1"),
    "t.jsonl": trace("1"),
    "t.json.gz": gzip.compress(trace("1"), mtime=0),
    "t.jsonl.gz": gzip.compress(trace("1"), mtime=0),
    "t.json.zst": zstandard(trace("1")),
    "t.jsonl.zst": zstandard(trace("1")),
    "t.parquet": rows([trace("1")]),
}


def ids(path: Path) -> list[str]:
    return [session.id for session in read_corpus(path).sessions]


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as error:
        read_corpus(path)
    return str(error.value)


def test_a_directory_is_read_in_order_of_name_without_other_files(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_bytes(trace("3"))
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(trace("1")))
    (tmp_path / "b.jsonl").write_bytes(trace("2a") + b"\n\n" + trace("2b"))
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(trace("4a") + b"\n" + trace("4b") + b"\n"))
    (tmp_path / "e.jsonl.zst").write_bytes(zstandard(trace("5a") + b"\n" + trace("5b")))
    (tmp_path / "manifest.json").write_bytes(b'{"traces": []}')
    (tmp_path / "manifest.md").write_text("| name |")
    (tmp_path / "LICENSE").write_text("…")
    found = read_corpus(tmp_path)
    assert [s.id for s in found.sessions] == ["1", "2a", "2b", "3", "4a", "4b", "5a", "5b"]
    assert found.name == tmp_path.name


@pytest.mark.parametrize("name", PACKED)
def test_a_single_file_is_a_corpus(tmp_path: Path, name: str) -> None:
    (tmp_path / "stored").write_bytes(PACKED[name])
    (tmp_path / name).symlink_to(tmp_path / "stored")
    assert ids(tmp_path / name) == ["1"]


def test_a_gzip_file_may_have_several_members_and_padding(tmp_path: Path) -> None:
    raw = trace("1")
    parts = gzip.compress(raw[:20]) + gzip.compress(raw[20:]) + b"\0\0"
    (tmp_path / "t.json.gz").write_bytes(parts)
    assert ids(tmp_path) == ["1"]


DAMAGED = [
    (name, PACKED[name][:-9], "it cannot be read (") for name in PACKED if name[-4:] != "json"
]
OTHER = [
    (name, b"something else", "it cannot be read (") for name in PACKED if "json" not in name[-5:]
]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("t.json", b"", "this is empty"),
        ("t.json", b" \n ", "this is empty"),
        ("t.json.gz", b"", "this is empty"),
        ("t.json.gz", gzip.compress(b"", mtime=0), "this is empty"),
        ("t.json.gz", trace("1"), "it cannot be read (Not a gzipped file"),
        ("t.jsonl.gz", trace("1"), "it cannot be read (Not a gzipped file"),
        ("t.json", trace("1") + trace("2"), "this is not a trace"),
        ("t.json", b"version https://git-lfs.github.com/spec/v1", "this is not a trace"),
        ("t.json", b"[" + trace("1") + b"]", "a trace is a JSON object, this is a list of 1"),
        ("t.json", trace("1", out=-1), "requests[0].out is -1"),
        *(d for d in DAMAGED if d[0] != "t.jsonl"),
        *OTHER,
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


def test_a_bad_row_is_named_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    file.write_bytes(rows([trace("1"), trace("2", out=-5)]))
    assert refusal(file).startswith(f"{file}, row 2: requests[0].out is -5")


def test_one_id_in_two_places_is_an_error_naming_both(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(trace("same"))
    (tmp_path / "b.json").write_bytes(trace("same", out=9))
    with refuses("trace-malformed", str(tmp_path / "b.json"), "same", str(tmp_path / "a.json")):
        read_corpus(tmp_path)
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


MARKER = {
    "type": "subagent", "t": 3.0, "agent_id": "a", "duration_ms": 2000,
    "requests": [{"t": 0.0, "in": 64, "out": 2, "hash_ids": [9], "model": "m"}],
}  # fmt: skip
LATER = {"t": 9.0, "in": 256, "out": 5, "hash_ids": [1, 2, 3, 4], "model": "m"}


@pytest.mark.parametrize(
    "sessions",
    [
        # A row of a table has every field of every other row, as null: those of markers and of
        # requests, each optional field of a request, of a marker and of the session.
        [{"requests": [MARKER, LATER]}, {}],
        [{"requests": [{"api_time": 1.5} | LATER, LATER, {"think_time": 0.5} | LATER]}, {}],
        [{"requests": [LATER, MARKER | {"duration_ms": None, "status": "async_launched"}]}, {}],
        [{"requests": [MARKER, MARKER | {"tool_tokens": 9, "system_tokens": 9}, LATER]}, {}],
        [{"tool_tokens": 99, "hash_id_scope": "local"}, {"system_tokens": 128, "models": ["m"]}],
        [{"requests": [{"colour": 1} | LATER, LATER]}, {"author": "x"}],
        [{"requests": [LATER | {"hash_ids": None}, LATER]}, {}],
    ],
)
def test_a_table_of_rows_is_the_same_corpus_as_its_json_nulls_and_all(
    tmp_path: Path, sessions: list[dict[str, Any]]
) -> None:
    raw = [orjson.dumps(orjson.loads(trace(str(n))) | s) for n, s in enumerate(sessions)]
    table = pa.Table.from_struct_array(pa.array([orjson.loads(each) for each in raw]))
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "t.jsonl").write_bytes(b"\n".join(raw))
    pq.write_table(table, tmp_path / "t.parquet")
    with_nulls = b"\n".join(orjson.dumps(row) for row in table.to_pylist())
    (tmp_path / "t.jsonl").write_bytes(with_nulls)
    plain = read_corpus(tmp_path / "json")
    for name in ("t.parquet", "t.jsonl"):
        found = read_corpus(tmp_path / name)
        assert found.fingerprint == plain.fingerprint
        assert [s.notes for s in found.sessions] == [s.notes for s in plain.sessions]


def test_numbers_that_pandas_made_floats_are_whole_again(tmp_path: Path) -> None:
    """A column of whole numbers with gaps becomes one of floats and NaN."""
    (tmp_path / "t.json").write_bytes(trace("1", **{"in": 128.0, "out": 5.0}))
    as_read = read_corpus(tmp_path).fingerprint
    (tmp_path / "t.json").write_bytes(trace("1"))
    assert read_corpus(tmp_path).fingerprint == as_read
    row = orjson.loads(trace("1")) | {"tool_tokens": float("nan"), "block_size": 64.0}
    (tmp_path / "t.json").unlink()
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "t.parquet")
    assert read_corpus(tmp_path).fingerprint == as_read


def test_a_path_without_traces_is_refused(tmp_path: Path) -> None:
    with refuses("traces-missing", str(tmp_path / "none")):
        read_corpus(tmp_path / "none")
    with refuses("traces-unreadable", "File name too long"):
        read_corpus(tmp_path / ("x" * 300 + ".json"))
    (tmp_path / "t.csv").write_bytes(b"id")
    for path in (tmp_path, tmp_path / "t.csv"):
        with refuses("traces-without-file", str(path), ".jsonl.gz", ".parquet"):
            read_corpus(path)
    (tmp_path / "t.json").write_bytes(b"{}")
    (tmp_path / "u.json").write_bytes(b"")
    with refuses("corpus-without-session") as raised:
        read_corpus(tmp_path, skip_bad=True)
    first, *reasons = raised.value.what.splitlines()
    assert first.startswith(f"{tmp_path} ")
    assert [reason.split(": ")[0] for reason in reasons] == [
        f"  {tmp_path / 't.json'}", f"  {tmp_path / 'u.json'}",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "t.jsonl", "t.jsonl.zst", "t.parquet"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_or_directory_named_like_a_trace_is_refused_and_not_waited_for(
    tmp_path: Path, name: str, make: Any
) -> None:
    make(tmp_path / "other")
    (tmp_path / name).symlink_to(tmp_path / "other")
    with refuses("trace-malformed", str(tmp_path / name), "directory, pipe or device"):
        read_corpus(tmp_path)


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


# --- packing ------------------------------------------------------------------------------------


def test_a_packed_corpus_is_the_same_corpus_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for name in ("b", "a"):
        (source / f"{name}.json").write_bytes(trace(name, x=9))
    packed, again = tmp_path / "all.jsonl.gz", tmp_path / "again.jsonl.gz"
    assert (pack_corpus(source, packed), pack_corpus(source, again)) == (2, 2)
    assert packed.read_bytes() == again.read_bytes()
    assert ids(packed) == ["a", "b"]
    assert read_corpus(packed).fingerprint == read_corpus(source).fingerprint
    # Unknown keys are kept: they are counted, as before.
    assert read_corpus(packed).sessions[0].notes == read_corpus(source).sessions[0].notes


def test_no_file_is_packed_over_another_nor_from_a_bad_session(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(trace("a"))
    taken = tmp_path / "taken.jsonl.gz"
    taken.write_text("mine")
    with refuses("pack-exists"):
        pack_corpus(tmp_path / "a.json", taken)
    assert taken.read_text() == "mine"
    with refuses("pack-name-unfit", ".jsonl.gz"):
        pack_corpus(tmp_path / "a.json", tmp_path / "all.tar")
    (tmp_path / "z.json").write_text("{}")
    with refuses("trace-malformed", "z.json"):
        pack_corpus(tmp_path / "z.json", tmp_path / "all.jsonl.gz")
    assert not (tmp_path / "all.jsonl.gz").exists()
